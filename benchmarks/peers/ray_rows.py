"""What Ray Data does for each question."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import ray
import work
from work import counted

TEXTS, TEXT_BLOCKS = 400_000, 100
IMAGES, IMAGE_BLOCKS = 40_000, 400
"""Rows of a pass, and their blocks: more than a turn lasts, of sizes that were fast here."""


def version() -> str:
    """Return which Ray this is."""
    return f"Ray Data {ray.__version__}"


def _tokens(row: dict[str, Any]) -> dict[str, Any]:
    return {"tokens": work.tokens(row["id"])}


def _picture(row: dict[str, Any]) -> dict[str, Any]:
    return {"image": work.decode(row["id"])}


@contextmanager
def started() -> Iterator[None]:
    """Have Ray with two processors."""
    here = str(Path(__file__).parent)
    ray.init(
        num_cpus=2,
        logging_level=logging.ERROR,
        include_dashboard=False,
        runtime_env={"env_vars": {"PYTHONPATH": here}},
    )
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def ready() -> Iterator[Mapping[str, Any]]:
    """Have Ray with two processors; give the rows."""

    def texts() -> Iterator[int]:
        while True:
            rows = ray.data.range(TEXTS, override_num_blocks=TEXT_BLOCKS).map(_tokens)
            batches = rows.iter_batches(batch_size=work.TEXT_BATCH)
            yield from counted((np.asarray(one["tokens"]) for one in batches), work.TEXT_BATCH)

    def pictures() -> Iterator[int]:
        while True:
            rows = ray.data.range(IMAGES, override_num_blocks=IMAGE_BLOCKS).map(_picture)
            batches = rows.iter_batches(batch_size=work.PICTURE_BATCH)
            yield from counted((np.asarray(one["image"]) for one in batches), work.PICTURE_BATCH)

    with started():
        yield {"texts": texts, "pictures": pictures}
