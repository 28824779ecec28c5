"""What does it cost that every loop, operator, link and frame is measured all the time?

The same pipelines in turn, as they are and with all of that left out: in this process, in the
runners of a cluster of their own, and in its readers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from measure import Figure, arguments, in_turn, seconds, show

from penstock import Dataset
from penstock_cluster import LocalCluster

UNMEASURED = Path(__file__).parent / "unmeasured"
sys.path.insert(0, str(UNMEASURED))

from unmeasured_calls import leave_out  # noqa: E402  its folder is on the path from here on

LOCAL, SCALARS, FRAMES = 1_000_000, 2_000_000, 1500
MIB = 1 << 20


def _one_by_one(dataset: Dataset, elements: int) -> Callable[[], float]:
    return lambda: elements / seconds(lambda: sum(1 for _ in dataset))


def _left_out(run: Callable[[], float]) -> Callable[[], float]:
    def unmeasured() -> float:
        put_back = leave_out()
        try:
            return run()
        finally:
            put_back()

    return unmeasured


@contextmanager
def _clusters() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    before = os.environ.get("PYTHONPATH")
    with LocalCluster(workers=1) as measured:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(UNMEASURED), before)))
        try:
            unmeasured = LocalCluster(workers=1)
            unmeasured.start()
        finally:
            if before is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = before
        with unmeasured:
            yield unmeasured, measured


def _frame(_: int) -> np.ndarray:
    return np.empty(MIB, np.uint8)


def main() -> None:
    """Run it."""
    question = __doc__ or ""
    options = arguments(question.partition("\n")[0], runs=9)
    numbers = Dataset.range(LOCAL)
    local = {
        "range, in process": numbers,
        "range → map → filter, in process": numbers.map(abs).filter(bool),
        "range → batch(32) → map, in process": numbers.batch(32).map(np.sum),
    }
    figures: list[Figure] = []
    for name, dataset in local.items():
        run = _one_by_one(dataset, LOCAL)
        pair = [(f"{name}: not measured", _left_out(run)), (f"{name}: as it is", run)]
        figures += in_turn(pair, "elements/s", options.runs)
    with _clusters() as (unmeasured, measured):
        far = {
            "range on a worker": (Dataset.range(SCALARS), SCALARS),
            "1 MiB on a worker": (Dataset.range(FRAMES).map(_frame), FRAMES),
        }
        for name, (dataset, elements) in far.items():
            without, run = (
                _one_by_one(
                    dataset.distribute("distributed_epoch", cluster.target, compression=None),
                    elements,
                )
                for cluster in (unmeasured, measured)
            )
            pair = [(f"{name}: not measured", _left_out(without)), (f"{name}: as it is", run)]
            figures += in_turn(pair, "elements/s", options.runs)
    show(question.partition("\n")[0], figures, options.json)


if __name__ == "__main__":
    main()
