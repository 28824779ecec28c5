"""How many source elements a second does each operator pass, in one process?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from measure import Figure, arguments, in_turn, seconds, show

from penstock import Dataset

N = 200_000


def _double(x: np.int64) -> np.int64:
    return x * 2


def _pipelines() -> dict[str, Callable[[], Dataset]]:
    source = Dataset.range
    return {
        "range": lambda: source(N),
        "range → map": lambda: source(N).map(_double),
        "range → map, filter, batch(64)": lambda: (
            source(N).map(_double).filter(lambda x: x % 4 == 0).batch(64)
        ),
        "range → filter": lambda: source(N).filter(lambda x: x >= 0),
        "range → batch(64)": lambda: source(N).batch(64),
        "range → batch(64) → unbatch": lambda: source(N).batch(64).unbatch(),
        "range → batch(64) → rebatch(48)": lambda: source(N).batch(64).rebatch(48),
        "range → shuffle(1000)": lambda: source(N).shuffle(1000),
        "range → interleave(4, block 1)": lambda: source(N // 100).interleave(
            lambda _: Dataset.range(100), cycle_length=4, block_length=1
        ),
        "range → flat_map(100)": lambda: source(N // 100).flat_map(lambda _: Dataset.range(100)),
        "range → enumerate": lambda: source(N).enumerate(),
        "zip of two ranges": lambda: Dataset.zip((source(N), source(N))),
        "range → prefetch(1000)": lambda: source(N).prefetch(1000),
        "range → take, skip, shard(2)": lambda: source(2 * N).skip(5).take(2 * N).shard(2, 0),
        "range → window(8) → flat_map": lambda: source(N).window(8).flat_map(lambda w: w),
        "slices → repeat": lambda: Dataset.from_tensor_slices(np.arange(1000)).repeat(N // 1000),
    }


def _plain() -> float:
    return N / seconds(lambda: sum(1 for x in (x * 2 for x in range(N)) if x % 4 == 0))


def _plain_of_numpy() -> float:
    """Measure what `range → map` does, by hand: to make each element costs more than to pass it."""
    return N / seconds(lambda: sum(1 for _ in (_double(x) for x in np.arange(N))))


def main() -> None:
    """Measure each pipeline; the baseline is a plain Python generator with map and filter."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)

    def rate(make: Callable[[], Dataset]) -> Callable[[], float]:
        return lambda: N / seconds(lambda: sum(1 for _ in make()))

    candidates = [
        ("plain Python generator", _plain),
        ("plain generator, NumPy's int64, map", _plain_of_numpy),
    ]
    candidates += [(name, rate(make)) for name, make in _pipelines().items()]
    figures: list[Figure] = in_turn(candidates, "elements/s", options.runs)
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
