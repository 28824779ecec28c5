"""How much of a link of 1 Gbit/s and 20 ms do elements get, and when is its silence noticed?

`slow_link` makes the link. The dispatcher and a worker are beyond it, the reader is on this side.
The bare stream is `sendmsg` and `recv_into` over the same link. For the silence, the dispatcher and
another worker are on this side: the link drops all packets in the middle of a pass, and each
element must come once. The figure is the time from then until the pass ends.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from bare_streams import Server, by_tcp
from measure import Figure, arguments, in_turn, measure, show
from slow_link import FAR, NEAR, SILENT, Quality, in_own_network, link, why_not

from penstock import Dataset
from penstock_cluster import LocalCluster
from penstock_dispatcher import DispatcherConfig
from penstock_worker import WorkerConfig

NBYTES, COUNT, WARM = 1 << 20, 200, 60
"""An element, how many there are, and those before the link's windows are open."""

QUALITIES = {"1 Gbit/s, 20 ms": Quality(), "1 Gbit/s, 20 ms, 1 % lost": Quality(loss=0.01)}
LEASE = 5.0
"""Seconds of silence after which the dispatcher gives the work of a worker to others."""

NUMBERS = 2_000
INSIDE = "IN_A_NETWORK_OF_ITS_OWN"
SERVICE = """
import sys
far, folder = sys.argv[1:]
sys.path.insert(0, folder)
from bare_streams import TCP_SERVER, running
from penstock_cluster import LocalCluster
from penstock_dispatcher import DispatcherConfig
from penstock_worker import WorkerConfig
if __name__ == "__main__":
    with running(TCP_SERVER, far) as bare, LocalCluster(
        1,
        dispatcher=DispatcherConfig(host=far, insecure=True),
        worker=WorkerConfig(host=far, insecure=True),
    ) as cluster:
        print(bare.address[1], cluster.target, flush=True)
        sys.stdin.readline()
"""

WORKER = """
import os, sys
from penstock_worker import WorkerConfig, WorkerServer
far, address = sys.argv[1:]
if __name__ == "__main__":
    with WorkerServer(WorkerConfig(dispatcher_address=address, host=far, insecure=True)):
        print("ready", flush=True)
        sys.stdin.readline()
        os._exit(0)  # without a farewell, for which there is no link
"""


def _rate(begin: Callable[[], Iterable[int]]) -> float:
    """Return MB/s of the elements whose bytes *begin* gives, after the first `WARM` ones."""
    taken = iter(begin())
    for _ in range(WARM):
        next(taken)
    began = time.perf_counter()
    return sum(taken) / (time.perf_counter() - began) / 1e6


def _elements(
    target: str, transport: str, array: np.ndarray, compression: str | None = None
) -> Iterator[int]:
    far = (
        Dataset.range(COUNT)
        .map(lambda _: array)
        .distribute(
            "parallel_epochs", target, compression=compression, data_transfer_protocol=transport
        )
    )
    with iter(far) as it:
        for element in it:
            yield element.nbytes


def _rates(runs: int) -> Iterator[Figure]:
    """Yield how fast elements come through links of each quality, beside the bare stream."""
    random = np.random.default_rng(7)
    noise = random.integers(0, 256, NBYTES, np.uint8)
    tokens = np.minimum(random.zipf(1.3, NBYTES // 4), 50_000).astype(np.int32)
    with link(Quality()) as opened:
        service = opened.beyond([sys.executable, "-c", SERVICE, FAR, str(Path(__file__).parent)])
        assert service.stdout is not None
        port, target = service.stdout.readline().split()
        bare = partial(by_tcp, Server((FAR, int(port)), service.pid), NBYTES, COUNT)
        read = partial(_elements, target)
        for name, quality in QUALITIES.items():
            opened.become(quality)
            ways = {
                "bare TCP": bare,
                "tcp": partial(read, "tcp", noise),
                "grpc": partial(read, "grpc", noise),
            }
            yield from _compared(name, ways, runs)
        opened.become(Quality())
        for transport in ("tcp", "grpc"):
            ways = {
                "not compressed": partial(read, transport, tokens),
                "AUTO": partial(read, transport, tokens, "AUTO"),
            }
            yield from _compared(f"1 Gbit/s, 20 ms, tokens by {transport}", ways, runs)


def _compared(
    title: str, ways: dict[str, Callable[[], Iterable[int]]], runs: int
) -> Iterator[Figure]:
    candidates = [(f"{title}: {way}", partial(_rate, begin)) for way, begin in ways.items()]
    yield from in_turn(candidates, "MB/s", runs)


def _number(number: int) -> int:
    time.sleep(0.001)
    return number


def silence(transport: str) -> float:
    """Read a pass during which the link becomes silent; return the seconds from then to its end.

    Raises:
        AssertionError: when an element is missing, or comes twice.
    """
    with (
        link(Quality()) as opened,
        LocalCluster(
            1,
            dispatcher=DispatcherConfig(host=NEAR, insecure=True, worker_timeout=LEASE),
            worker=WorkerConfig(host=NEAR, insecure=True),
        ) as cluster,
    ):
        address = cluster.target.partition("://")[2]
        worker = opened.beyond([sys.executable, "-c", WORKER, FAR, address])
        assert worker.stdout is not None
        worker.stdout.readline()
        far = Dataset.range(NUMBERS).map(_number)
        got, began = [], 0.0
        with iter(
            far.distribute("distributed_epoch", cluster.target, data_transfer_protocol=transport)
        ) as it:
            for number in it:
                got.append(int(number))
                if len(got) == NUMBERS // 4:
                    opened.become(SILENT)
                    began = time.perf_counter()
        took = time.perf_counter() - began
        assert sorted(got) == list(range(NUMBERS)), f"{len(got)} elements of {NUMBERS}"
        return took


def main() -> None:
    """Measure in a network of this benchmark's own."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    if reason := why_not():
        sys.exit(f"this machine makes no slow link: {reason}")
    if os.environ.pop(INSIDE, None) is None:
        os.environ[INSIDE] = "yes"
        os.execvp("unshare", [*in_own_network([sys.executable, *sys.argv])])
    figures = [*_rates(options.runs)]
    figures += [
        measure(f"silence: {transport}", "s", partial(silence, transport), 1)
        for transport in ("tcp", "grpc")
    ]
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
