"""What does it cost that a mesh is scraped each second, and its page looked at?

Two clusters of a dispatcher and a worker: at one, each service is scraped once a second, by a
process of its own that has the page open, too; the other has no HTTP. One endless pass of each is
read in turn. A rate is that per second of processor time of this process, dispatcher, worker and
runner together: where others use the machine, a clock on the wall does not tell one per cent.
What it costs is the median over the pairs; its spread is where that median lies with 95 %.
The share of a core is that which the services of a cluster take while nobody reads the pass.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice

from bench_stats_overhead import Way, around_median
from measure import Figure, arguments, show

from penstock import Dataset
from penstock_cluster import DispatcherConfig, LocalCluster, WorkerConfig
from penstock_cluster.cli.status import fetch

SCALARS = 6_000_000
"""Elements of a run: seconds, as what is measured happens once a second."""

WAYS = ("no HTTP", "scraped and looked at")

REST = 3.0
"""Seconds in which the services have nothing to do but that."""


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=20) as answer:
        body: bytes = answer.read()
    return body


def _watch(dispatcher: str, worker: str, seen: multiprocessing.Queue[int]) -> None:
    """Have the page open and scrape both, once a second, until the process is ended."""
    stream = urllib.request.urlopen(f"{dispatcher}/events", timeout=60)
    threading.Thread(target=lambda: [None for _ in stream], daemon=True).start()
    while True:
        seen.put(len(_get(f"{dispatcher}/metrics")) + len(_get(f"{worker}/metrics")))
        time.sleep(1)


@contextmanager
def _watched(cluster: LocalCluster) -> Iterator[None]:
    """Have another process watch *cluster* while the block lasts."""
    stats = json.loads(fetch(cluster.target))
    seen: multiprocessing.Queue[int] = multiprocessing.get_context("spawn").Queue()
    watcher = multiprocessing.get_context("spawn").Process(
        target=_watch, args=(stats["http"], stats["workers"][0]["stats"]["http"], seen)
    )
    watcher.start()
    try:
        if not seen.get(timeout=60):
            raise AssertionError("nothing was scraped")
        yield
        if not watcher.is_alive():
            raise AssertionError("nobody watched any more")
    finally:
        watcher.kill()
        watcher.join()


def _goes_on(dataset: Dataset, cluster: LocalCluster, held: ExitStack) -> Way:
    """Return what takes elements of one long pass, whose start is no part of the figure."""
    far = dataset.distribute("distributed_epoch", cluster.target, compression=None)
    elements = held.enter_context(iter(far))
    next(elements)
    members = (cluster.dispatcher, *cluster.workers)
    makers = tuple(one.pid for one in members if one.pid is not None)
    return Way(lambda count: sum(1 for _ in islice(elements, count)), makers)


def _figures(name: str, elements: int, ways: Sequence[Way], runs: int) -> list[Figure]:
    """Return the rates of both *ways*, and by how many per cent the second is lower."""
    pairs = []
    for number in range(-1, runs):
        rates = {way: way.rate(elements) for way in (ways if number % 2 else ways[::-1])}
        pairs.append(tuple(rates[way] for way in ways))
    counted, out = pairs[1:], []
    for column, what in enumerate(WAYS):
        of = [pair[column] for pair in counted]
        median = statistics.median(of)
        out.append(Figure(f"{name}: {what}", median, min(of), max(of), "elements/CPU s"))
    cost = sorted(100 * (1 - seen / unseen) for unseen, seen in counted)
    low, high = around_median(cost)
    return [*out, Figure(f"cost: {name}", statistics.median(cost), low, high, "%")]


def _at_rest(ways: Sequence[Way], runs: int) -> Iterator[Figure]:
    """Yield the shares of a core that the services take by themselves, in the same seconds."""
    shares = list[list[float]]()
    for _ in range(runs):
        before = [way.cpu() for way in ways]
        time.sleep(REST)
        shares.append([100 * (way.cpu() - b) / REST for way, b in zip(ways, before, strict=True)])
    for what, of in zip(WAYS, zip(*shares, strict=True), strict=True):
        yield Figure(f"at rest: {what}", statistics.median(of), min(of), max(of), "% of a core")


def main() -> None:
    """Run it."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question, runs=12)
    figures = list[Figure]()
    seen = LocalCluster(
        1, dispatcher=DispatcherConfig(http_port=0), worker=WorkerConfig(http_port=0)
    )
    endless = Dataset.range(1 << 40)
    with LocalCluster(1) as unseen, seen, _watched(seen), ExitStack() as held:
        ways = [_goes_on(endless, cluster, held) for cluster in (unseen, seen)]
        figures += _figures("scalars", SCALARS, ways, options.runs)
        figures += _at_rest(ways, options.runs)
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
