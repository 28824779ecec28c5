"""Documents for packing, the same for all: their lengths, and arrays of so many tokens."""

from __future__ import annotations

import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CAPACITY = 2048


def lengths(number: int) -> Mapping[str, Sequence[int]]:
    """Return lengths in tokens: a byte is a token. Web text has *number* documents, none longer."""
    draw = np.random.default_rng(0)
    files = [path.read_bytes() for path in _library()]
    paragraphs = [len(part) for text in files for part in text.split(b"\n\n") if part]
    web = np.clip(draw.lognormal(6.0, 1.1, number).astype(int), 1, CAPACITY)
    return {
        "source files": [len(text) for text in files if text],
        "paragraphs of source": paragraphs[:number],
        "web text": web.tolist(),
    }


def _library() -> list[Path]:
    folder = Path(sysconfig.get_paths()["stdlib"])
    return sorted(path for path in folder.rglob("*.py") if "site-packages" not in path.parts)


def tokens(of: Sequence[int]) -> list[NDArray[np.int32]]:
    """Return a document of each length."""
    return [np.arange(length, dtype=np.int32) for length in of]
