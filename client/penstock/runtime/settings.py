"""Settings as frozen dataclasses, and as ``PENSTOCK_*`` variables: the same, both ways.

A field of type `str`, `int`, `float`, `bool`, or a tuple of text; each may also be None. A
variable holds the value as text: tuples with commas, None as the empty text.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    C = TypeVar("C", bound=DataclassInstance)
else:
    C = TypeVar("C")

PREFIX = "PENSTOCK_"


def from_env(kind: type[C], env: Mapping[str, str]) -> C:
    """Make a *kind* from the ``PENSTOCK_*`` variables in *env*; the rest keeps its default.

    Raises:
        ConfigError: naming the variable and its value, when it cannot be read.
    """
    hints = typing.get_type_hints(kind)
    given = {}
    for field in fields(kind):
        name = variable(field.name)
        if name in env:
            given[field.name] = _read(name, env[name], hints[field.name])
    return kind(**given)


def to_env(config: DataclassInstance) -> dict[str, str]:
    """Return the variables that make an equal *config* again."""
    return {variable(f.name): _write(getattr(config, f.name)) for f in fields(config)}


def variable(field: str) -> str:
    """Return the name of the variable of *field*."""
    return PREFIX + field.upper()


def _read(name: str, text: str, hint: Any) -> Any:
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if text == "" and type(None) in kinds:
        return None
    kind = next(k for k in kinds if k is not type(None))
    try:
        if kind is bool:
            return _BOOLS[text.lower()]
        if typing.get_origin(kind) is tuple:
            return tuple(part.strip() for part in text.split(",") if part.strip())
        return kind(text)
    except (ValueError, KeyError) as exc:
        wanted = getattr(kind, "__name__", str(kind))
        raise ConfigError(f"{name}={text!r} cannot be read as {wanted}") from exc


def _write(value: Any) -> str:
    if value is None:
        return ""
    return ",".join(value) if isinstance(value, tuple) else str(value)


_BOOLS = dict.fromkeys(["1", "true", "yes", "on"], True) | dict.fromkeys(
    ["0", "false", "no", "off", ""], False
)
