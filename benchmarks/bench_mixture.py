"""What does a mixture of ten datasets cost, beside one dataset of the same elements?

A document is a JSON line with 2 KB of text. Its element is the bytes as int32 tokens, or a number
for each word. In this process, processor time counts; with two workers, elements a second to a
loop, in one order.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable

import numpy as np
from measure import arguments, in_turn, seconds, show

from penstock import Dataset
from penstock_cluster import LocalCluster
from penstock_worker import WorkerConfig

ELEMENTS, PARTS = 10_000, 10
WORDS = "It was a bright cold day in April, and the clocks were striking thirteen. " * 27


LINES = [json.dumps({"id": i, "text": WORDS[i:]}) for i in range(50)]


def _number(i: int) -> int:
    return i


def _bytes(i: int) -> np.ndarray:
    text = json.loads(LINES[i % 50])["text"]
    return np.frombuffer(text.encode(), np.uint8).astype(np.int32)


def _words(i: int) -> np.ndarray:
    words = json.loads(LINES[i % 50])["text"].split()
    return np.array([zlib.crc32(word.encode()) for word in words], np.int64)


def _one(fn: Callable[[int], object]) -> Dataset:
    return Dataset.range(ELEMENTS).map(fn)


def _mixed(fn: Callable[[int], object]) -> Dataset:
    size = ELEMENTS // PARTS
    parts = {f"part {p}": Dataset.range(p * size, (p + 1) * size).map(fn) for p in range(PARTS)}
    weights = {name: 1 + p for p, name in enumerate(parts)}
    return Dataset.mixture(parts, weights, stop="drop")


def _here(dataset: Dataset) -> Callable[[], float]:
    """Return what measures the microseconds of processor time for an element."""

    def read() -> float:
        began = time.process_time()
        assert sum(1 for _ in dataset) == ELEMENTS
        return 1e6 * (time.process_time() - began) / ELEMENTS

    return read


def _there(dataset: Dataset, cluster: LocalCluster) -> Callable[[], float]:
    far = dataset.distribute("distributed_epoch", cluster.target, ordered=True)

    def read() -> None:
        assert sum(1 for _ in far) == ELEMENTS

    return lambda: ELEMENTS / seconds(read)


def main() -> None:
    """Measure the mixture and the one dataset in turn, in this process and with two workers."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    kinds = {"words": _words, "bytes": _bytes, "numbers of range": _number}
    figures = []
    for name, fn in kinds.items():
        candidates = [
            (f"{name}, in process: one dataset", _here(_one(fn))),
            (f"{name}, in process: a mixture of ten", _here(_mixed(fn))),
        ]
        figures += in_turn(candidates, "µs of a core for an element", options.runs)
    with LocalCluster(workers=2, worker=WorkerConfig(slots=1)) as cluster:
        candidates = [
            ("bytes, two workers: one dataset", _there(_one(_bytes), cluster)),
            ("bytes, two workers: a mixture of ten", _there(_mixed(_bytes), cluster)),
        ]
        figures += in_turn(candidates, "elements/s", options.runs)
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
