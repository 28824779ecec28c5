"""The formats that a saved dataset can have, by name."""

from __future__ import annotations

from penstock.saved.arrow_file import ArrowFormat
from penstock.saved.chunk_format import ChunkFormat
from penstock.saved.parquet_file import ParquetFormat

_ALL: tuple[ChunkFormat, ...] = (ArrowFormat(), ParquetFormat())

FORMATS: dict[str, ChunkFormat] = {one.name: one for one in _ALL}
