"""The formats that a saved dataset can have, by name."""

from __future__ import annotations

from penstock.saved.arrow_file import ArrowFormat
from penstock.saved.chunk_format import ChunkFormat
from penstock.saved.mds_file import MdsFormat
from penstock.saved.parquet_file import ParquetFormat
from penstock.saved.tar_file import WebDatasetFormat
from penstock.saved.tensor_file import TensorFormat
from penstock.saved.tfrecord_file import TFRecordFormat

_ALL: tuple[ChunkFormat, ...] = (
    ArrowFormat(),
    ParquetFormat(),
    TFRecordFormat(),
    WebDatasetFormat(),
    MdsFormat(),
    TensorFormat(),
)

FORMATS: dict[str, ChunkFormat] = {one.name: one for one in _ALL}

OFFERED = {name: one for name, one in FORMATS.items() if one.offered}
"""Those that users name."""
