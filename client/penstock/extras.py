"""Packages that Penstock works with and does not need: an extra installs each."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from penstock.errors import MissingExtra

EXTRAS = {
    "PIL": "images",
    "array_record": "array-record",
    "cramjam": "snappy",
    "datasets": "huggingface",
    "jax": "jax",
    "lance": "lance",
    "lightning": "lightning",
    "ml_dtypes": "torch",
    "pyarrow": "arrow",
    "tensorflow": "tensorflow",
    "torch": "torch",
}
"""The extra that installs each package, by the name it is imported by."""

EXTENDED = frozenset(
    {"bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"}
)
"""Number formats of the package ml_dtypes, by the names that PyTorch has for them, too."""


def needed(package: str, by: str) -> Any:
    """Return the module *package*, imported.

    Args:
        package: the name that it is imported by: a key of `EXTRAS`.
        by: what needs it, as the message calls it.

    Raises:
        MissingExtra: naming the extra, when it is not installed here.

    >>> needed("torch_of_another_kind", "penstock.torch")
    Traceback (most recent call last):
    KeyError: 'torch_of_another_kind'
    """
    extra = EXTRAS[package]
    try:
        return import_module(package)
    except ModuleNotFoundError as exc:
        if exc.name != package:  # it is there, and lacks something itself
            raise
        raise MissingExtra(
            f'{by} needs {package}, which is not installed here: pip install "penstock[{extra}]"'
        ) from exc
