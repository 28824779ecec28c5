"""How many rows of arrays a second does a pipeline choose and stack without making elements?

Beside each pipeline the same one with a `map` that changes nothing behind its source: from there on
the rows are elements, one by one. Behind `distribute` elements come one by one, too, and the
shuffle of them is measured beside the same without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from measure import Figure, arguments, in_turn, seconds, show

from penstock import Dataset
from penstock_cluster import LocalCluster

N = 1_000_000
WIDE = 100_000
READ = 400_000

Chain = Callable[[Dataset], Dataset]


def _unchanged(*parts: object) -> object:
    return parts if len(parts) > 1 else parts[0]


def _double(x: np.ndarray) -> np.ndarray:
    return x * 2


def _questions() -> list[tuple[str, Callable[[], Dataset], int, Chain]]:
    scalars = np.arange(N)
    wide = (np.zeros((WIDE, 64), "f4"), np.arange(WIDE))
    numbers, pairs = Dataset.from_tensor_slices(scalars), Dataset.from_tensor_slices(wide)
    return [
        ("scalars → batch(256)", lambda: numbers, N, lambda d: d.batch(256)),
        (
            "scalars → shuffle(10,000) → batch(256)",
            lambda: numbers,
            N,
            lambda d: d.shuffle(10_000).batch(256),
        ),
        (
            "scalars → skip, take, shard(2), repeat(2) → batch(256)",
            lambda: numbers,
            N,
            lambda d: d.skip(5).take(N).shard(2, 0).repeat(2).batch(256),
        ),
        ("(64 float32, label) → batch(256)", lambda: pairs, WIDE, lambda d: d.batch(256)),
        (
            "(64 float32, label) → shuffle(10,000) → batch(256)",
            lambda: pairs,
            WIDE,
            lambda d: d.shuffle(10_000).batch(256),
        ),
        ("range → batch(256)", lambda: Dataset.range(N), N, lambda d: d.batch(256)),
        (
            "range → batch(64) → unbatch → batch(256)",
            lambda: Dataset.range(N).batch(64).unbatch(),
            N,
            lambda d: d.batch(256),
        ),
    ]


def _rate(dataset: Dataset, elements: int) -> Callable[[], float]:
    return lambda: elements / seconds(lambda: sum(1 for _ in dataset))


def _in_process(runs: int) -> list[Figure]:
    figures: list[Figure] = []
    for name, source, elements, chain in _questions():
        by_one = chain(source().map(_unchanged))
        pair = [
            (f"{name}: element by element", _rate(by_one, elements)),
            (f"{name}: rows", _rate(chain(source()), elements)),
        ]
        figures += in_turn(pair, "elements/s", runs)
    mapped: Sequence[tuple[str, Callable[[], float]]] = [
        ("range → map → batch(256)", _rate(Dataset.range(N).map(_double).batch(256), N)),
        (
            "range → map_batches → batch(256)",
            _rate(Dataset.range(N).map_batches(_double).batch(256), N),
        ),
    ]
    return figures + in_turn(mapped, "elements/s", runs)


def _distributed(runs: int) -> list[Figure]:
    with LocalCluster(workers=1) as cluster:
        source = Dataset.range(READ).distribute("distributed_epoch", cluster.target)
        candidates = [
            ("distribute", _rate(source, READ)),
            ("distribute → shuffle(10,000)", _rate(source.shuffle(10_000), READ)),
        ]
        return in_turn(candidates, "elements/s", runs)


def main() -> None:
    """Measure each pipeline beside itself, then the shuffle behind a cluster."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    show(question, _in_process(options.runs) + _distributed(options.runs), options.json)


if __name__ == "__main__":
    main()
