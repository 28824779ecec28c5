"""What is left of the rate when the training thread burns Python all the time, by each transport?

At rest the loop only takes elements. Burning, it computes in Python for as long behind each element
as one took at rest, in the run before: where taking and computing overlap fully the rate stays,
where they take turns it halves, and where the computing keeps the reader's thread from running it
falls further. "Only burning" is the same loop over an array that is there already: on a machine
with other work a process that computes gets less of a core than it asks for, and a loop that takes
nothing is slower than one at rest, too. No way of reading is faster than that.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from measure import Figure, arguments, in_turn, show

from penstock import Dataset
from penstock_cluster import LocalCluster

SIZES = {"1 MiB": (2**20, 600), "4.8 MB": (4_816_896, 160)}
BARS = {"grpc": 0.3, "tcp": 0.6, "shm": 0.5}


def _burn(seconds: float) -> None:
    """Compute in Python for *seconds*, and hold the GIL as far as the interpreter lets a thread."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        sum(range(50))


class Reading:
    """Passes over elements of *nbytes*, read by one *transport*."""

    def __init__(self, target: str, transport: str, nbytes: int, count: int) -> None:
        self._nbytes, self._count = nbytes, count
        array = np.zeros(nbytes, np.uint8)
        self._dataset = (
            Dataset.range(count)
            .map(lambda _: array)
            .distribute(
                "parallel_epochs", target, compression=None, data_transfer_protocol=transport
            )
        )
        self._step = 0.0

    def at_rest(self) -> float:
        """Read one pass; return GB/s behind its first element."""
        rate, each = self._read(0.0)
        self._step = each
        return rate

    def burning(self) -> float:
        """Read one pass with a step behind each element, as long as one took at rest."""
        return self._read(self._step)[0]

    def only_burning(self) -> float:
        """Return the rate of a loop with the same steps that takes nothing from anywhere."""
        began = time.perf_counter()
        for _ in range(self._count):
            _burn(self._step)
        return self._count * self._nbytes / (time.perf_counter() - began) / 1e9

    def _read(self, step: float) -> tuple[float, float]:
        with iter(self._dataset) as it:
            next(it)
            began, got, count = time.perf_counter(), 0, 0
            for element in it:
                got += element.nbytes
                count += 1
                if step:
                    _burn(step)
            took = time.perf_counter() - began
        return got / took / 1e9, took / count


def main() -> None:
    """Measure each size and transport at rest and burning, in turn."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    figures: list[Figure] = []
    with LocalCluster(workers=1) as cluster:
        for name, (nbytes, count) in SIZES.items():
            for by, bar in BARS.items():
                reading = Reading(cluster.target, by, nbytes, count)
                three: list[tuple[str, Callable[[], float]]] = [
                    (f"{name}, {by}: at rest", reading.at_rest),
                    (f"{name}, {by}: burning (at least {bar})", reading.burning),
                    (f"{name}, {by}: only burning", reading.only_burning),
                ]
                figures += in_turn(three, "GB/s", options.runs)
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
