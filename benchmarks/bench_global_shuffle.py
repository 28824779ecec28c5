"""What does it cost to shuffle everything by its index, beside a buffer and an array in memory?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from measure import Figure, arguments, in_turn, measure, seconds, show

from penstock import Dataset
from penstock.engine.draws import Permutation

N = 1_000_000
MANY = 10**9
BLOCK = 4096
BUFFER = 10_000


def _rate(read: Callable[[], object]) -> Callable[[], float]:
    return lambda: N / seconds(read)


def _read(dataset: Dataset) -> None:
    for _ in dataset:
        pass


def _first(dataset: Dataset) -> Callable[[], float]:
    """Return what measures the milliseconds to the first element of *dataset*."""

    def read() -> None:
        with iter(dataset) as elements:
            next(elements)

    return lambda: 1000 * seconds(read)


def _blocks(size: int) -> None:
    """Compute *N* places of an order of *size*."""
    order = Permutation(1, size)
    for start in range(0, N, BLOCK):
        order.at(np.arange(start, min(start + BLOCK, N)))


def main() -> None:
    """Measure orders alone, then elements to a loop, then the time to a first element."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    numbers = Dataset.range(N)
    orders: list[tuple[str, Callable[[], float]]] = [
        ("np.random.permutation(10⁶)", _rate(lambda: np.random.permutation(N))),  # noqa: NPY002
        ("order: 10⁶ places of 10⁶", _rate(lambda: _blocks(N))),
        ("order: 10⁶ places of 10⁹", _rate(lambda: _blocks(MANY))),
    ]
    loops: list[tuple[str, Callable[[], float]]] = [
        ("range(10⁶)", _rate(lambda: _read(numbers))),
        ("range(10⁶) → global_shuffle", _rate(lambda: _read(numbers.global_shuffle()))),
        (f"range(10⁶) → shuffle({BUFFER:_})", _rate(lambda: _read(numbers.shuffle(BUFFER)))),
        ("range(10⁹) → global_shuffle, take", _rate(
            lambda: _read(Dataset.range(MANY).global_shuffle().take(N))
        )),
    ]  # fmt: skip
    figures: list[Figure] = in_turn(orders, "numbers/s", options.runs)
    figures += in_turn(loops, "elements/s", options.runs)
    firsts = {
        "its first of range(10⁹)": Dataset.range(MANY).global_shuffle(),
        f"first of shuffle({BUFFER:_})": Dataset.range(MANY).shuffle(BUFFER),
    }
    for name, dataset in firsts.items():
        figures.append(measure(name, "ms", _first(dataset), options.runs))
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
