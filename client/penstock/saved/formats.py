"""The formats that a saved dataset can have, by name."""

from __future__ import annotations

from penstock.saved.arrow_file import ArrowFormat
from penstock.saved.chunk_format import ChunkFormat

_ALL: tuple[ChunkFormat, ...] = (ArrowFormat(),)

FORMATS: dict[str, ChunkFormat] = {one.name: one for one in _ALL}
