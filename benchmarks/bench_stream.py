"""How fast do elements come through one worker, beside bare streams of the same bytes?

`bare_streams` has the bare ones: gRPC, gRPC with a relay as in a worker, and TCP. What is below
them is the price of a worker. All are tuned alike: uvloop where gRPC sends, the same thresholds of
malloc in each process (`penstock.runtime.malloc`; the reading one is this, from before its first
stream on), and the same largest frame of HTTP/2 and of a message.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from statistics import median

import numpy as np
from bare_streams import GRPC_SERVER, TCP_SERVER, Server, by_grpc, by_tcp, running
from measure import Figure, arguments, in_turn, show
from processes import cpu_of, family

from penstock import Dataset
from penstock.runtime.malloc import tune
from penstock_cluster import LocalCluster

SIZES = {"1 MiB": (2**20, 2_000), "4.8 MB": (4_816_896, 500)}
"""Bytes of an element, and how many there are: a pass of a second, not of its beginning."""
SCALARS = 1_000_000
COMPARED = (
    ("bare TCP", "one worker, TCP"),
    ("one worker, gRPC", "one worker, TCP"),
    ("bare gRPC", "bare gRPC, relayed", "one worker, gRPC"),
)
"""Streams that take turns: the first of each is what the others are compared with."""


@dataclass
class Stream:
    """A way to read a pass, and the processes at its other end: the sender and those behind it."""

    read: Callable[[], Iterable[int]]
    """Begins a pass, which yields the bytes of each element."""
    sender: int
    spent: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of processor time for each GB, of all passes, by role."""

    def rate(self) -> float:
        """Read one pass; return GB/s after its first element."""
        elements = iter(self.read())
        next(elements)
        before, began = self._used(), time.perf_counter()
        got = sum(elements) / 1e9
        took = time.perf_counter() - began
        for role, seconds in self._used().items():
            self.spent.setdefault(role, []).append((seconds - before.get(role, 0.0)) / got)
        return got / took

    def _used(self) -> dict[str, float]:
        behind = family([self.sender]) - {self.sender}
        used = {"reader": time.process_time(), "sender": cpu_of([self.sender])}
        return used | ({"runner": cpu_of(behind)} if behind else {})


def _elements(target: str, transport: str, nbytes: int, count: int) -> Iterator[int]:
    array = np.zeros(nbytes, np.uint8)
    far = (
        Dataset.range(count)
        .map(lambda _: array)
        .distribute("parallel_epochs", target, compression=None, data_transfer_protocol=transport)
    )
    with iter(far) as it:
        for element in it:
            yield element.nbytes


def _scalars(target: str, mode: str) -> float:
    with iter(Dataset.range(SCALARS).distribute(mode, target)) as it:
        next(it)
        began = time.perf_counter()
        got = sum(1 for _ in it)
        return got / (time.perf_counter() - began)


def _streams(tcp: Server, grpc: Server, target: str, worker: int, size: str) -> dict[str, Stream]:
    of = SIZES[size]
    return {
        "bare TCP": Stream(partial(by_tcp, tcp, *of), tcp.pid),
        "bare gRPC": Stream(partial(by_grpc, grpc, *of), grpc.pid),
        "bare gRPC, relayed": Stream(partial(by_grpc, grpc, *of, relayed=True), grpc.pid),
        "one worker, gRPC": Stream(partial(_elements, target, "grpc", *of), worker),
        "one worker, TCP": Stream(partial(_elements, target, "tcp", *of), worker),
    }


def _processor_time(title: str, stream: Stream) -> Iterator[Figure]:
    for role, spent in stream.spent.items():
        yield Figure(f"{title}, {role}", median(spent), min(spent), max(spent), "s of CPU a GB")


def main() -> None:
    """Measure each size against the bare streams, and scalars alone."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    tune(one_arena=True)  # as a reader has it, before there are threads
    figures: list[Figure] = []
    with (
        running(TCP_SERVER) as tcp,
        running(GRPC_SERVER) as grpc,
        LocalCluster(workers=1) as cluster,
    ):
        target, worker = cluster.target, cluster.workers[0].pid
        assert worker is not None  # it runs
        for size in SIZES:
            streams = _streams(tcp, grpc, target, worker, size)
            for names in COMPARED:
                candidates = [(f"{size}: {name}", streams[name].rate) for name in names]
                figures += in_turn(candidates, "GB/s", options.runs)
            for name, stream in streams.items():
                figures += _processor_time(f"{size}: {name}", stream)
        scalars: list[tuple[str, Callable[[], float]]] = [
            ("int64 scalars, OFF", partial(_scalars, target, "parallel_epochs")),
            ("int64 scalars, DYNAMIC", partial(_scalars, target, "distributed_epoch")),
        ]
        figures += in_turn(scalars, "elements/s", options.runs)
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
