"""Datasets that a command names as ``MODULE:NAME``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.dataset.dataset import Dataset


def named_dataset(text: str) -> Dataset:
    """Return the dataset that *text* names, or that the function of this name returns.

    The module may be in the working directory.

    Raises:
        ConfigError: when there is none.
    """
    from penstock.dataset.dataset import Dataset  # noqa: PLC0415  others need no operators

    module, _, name = text.partition(":")
    if not module or not name:
        raise ConfigError(
            f"{text!r} names no dataset: write MODULE:NAME, as in train.input:dataset"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as exc:
        raise ConfigError(f"{text!r} cannot be imported: {exc}") from exc
    if not isinstance(found, Dataset) and callable(found):
        found = found()
    if not isinstance(found, Dataset):
        raise ConfigError(
            f"{text!r} is no Dataset, and no function that returns one: {found!r:.60}"
        )
    return found
