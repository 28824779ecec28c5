"""What random pipelines are made of: each part knows its dataset and a model in plain Python.

All elements are int64 scalars, so that any stage may follow any. A model takes lists and returns a
list, or None where plain Python cannot tell: then only states are checked.
"""

from __future__ import annotations

import atexit
import functools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset

MOST = 2000
"""Models give up on longer lists."""

Elements = list[int] | None


@dataclass(frozen=True)
class Stage:
    """An operator with its arguments, and what it needs around it to map integers to integers."""

    name: str
    apply: Callable[[Dataset], Dataset]
    model: Callable[[list[int]], Elements] = lambda xs: None

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Pipeline:
    """How to build a dataset, and its elements if plain Python can tell them."""

    name: str
    make: Callable[[], Dataset]
    elements: Elements

    def then(self, stage: Stage) -> Pipeline:
        elements = None if self.elements is None else stage.model(self.elements)
        return Pipeline(
            f"{self.name}.{stage.name}",
            lambda: stage.apply(self.make()),
            elements if elements is not None and len(elements) <= MOST else None,
        )

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Join:
    """An operator of two datasets."""

    name: str
    apply: Callable[[Dataset, Dataset], Dataset]
    model: Callable[[list[int], list[int]], Elements] = lambda xs, ys: None

    def of(self, left: Pipeline, right: Pipeline) -> Pipeline:
        known = left.elements is not None and right.elements is not None
        return Pipeline(
            f"{self.name}({left}, {right})",
            lambda: self.apply(left.make(), right.make()),
            self.model(left.elements, right.elements) if known else None,
        )


sizes = st.integers(1, 5)
flags = st.booleans()
threads = st.sampled_from([None, None, 1, 2, 3])


def total(batch):
    return batch.sum()


@functools.cache
def folder():
    made = tempfile.TemporaryDirectory(prefix="penstock-pipelines-")
    atexit.register(made.cleanup)
    return Path(made.name)
