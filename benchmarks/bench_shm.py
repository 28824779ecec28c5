"""How fast do elements come from a worker on the same host, by shared memory and by gRPC?"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from measure import Figure, arguments, in_turn, show

from penstock import Dataset
from penstock_cluster import LocalCluster

SIZES = {"1 MiB": (2**20, 2000), "4.8 MB": (4_816_896, 400)}


class Reading:
    """Passes over elements of *nbytes*, read by one *transport*."""

    def __init__(self, target: str, transport: str, nbytes: int, count: int) -> None:
        self._target, self._transport = target, transport
        self._nbytes, self._count = nbytes, count
        self.cpu: list[float] = []
        """Seconds of this process for each GB, of all passes."""

    def rate(self) -> float:
        """Read one pass; return GB/s behind its first element."""
        array = np.zeros(self._nbytes, np.uint8)
        far = (
            Dataset.range(self._count)
            .map(lambda _: array)
            .distribute(
                "parallel_epochs",
                self._target,
                compression=None,
                data_transfer_protocol=self._transport,
            )
        )
        with iter(far) as it:
            next(it)
            began, cpu = time.perf_counter(), time.process_time()
            got = sum(element.nbytes for element in it) / 1e9
            self.cpu.append((time.process_time() - cpu) / got)
            return got / (time.perf_counter() - began)


def main() -> None:
    """Measure rates in turn, and the reader's CPU of the same passes."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    figures: list[Figure] = []
    with LocalCluster(workers=1) as cluster:
        for name, (nbytes, count) in SIZES.items():
            ways = {by: Reading(cluster.target, by, nbytes, count) for by in ("grpc", "shm")}
            rates: list[tuple[str, Callable[[], float]]] = [
                (f"{name}: {by}", reading.rate) for by, reading in ways.items()
            ]
            figures += in_turn(rates, "GB/s", options.runs)
            for by, reading in ways.items():
                counted = sorted(reading.cpu[1:])
                middle = counted[len(counted) // 2]
                unit = "s of CPU a GB"
                figures.append(
                    Figure(f"{name}: {by}, reader", middle, counted[0], counted[-1], unit)
                )
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
