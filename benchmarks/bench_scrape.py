"""How long is a scrape of a dispatcher's metrics on its event loop, and a look that feeds it?

One pass of 10, 100 and 1,000 tasks, each at a worker of its own. A scrape is both what gathers the
metrics and what writes them; `prometheus_client` writes the same ones for comparison. The look is
taken once a second at most, whoever scrapes. No HTTP is between.
"""

from __future__ import annotations

import asyncio

from measure import Figure, arguments, in_turn, measure, seconds, show
from prometheus_client import CollectorRegistry, generate_latest

from penstock.protocol.calls import JobParameters, OpenIterationRequest
from penstock.protocol.control import ReaderHeartbeat, WorkerHeartbeat
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.types import PROTOCOL, Codec, DatasetId, Mode, Versions, WorkerId
from penstock.web.metrics import openmetrics_text, prometheus_text
from penstock_dispatcher import DispatcherConfig
from penstock_dispatcher.core.events import Call, OpenIteration, RegisterDataset, StartHistory
from penstock_dispatcher.service import DispatcherService
from penstock_dispatcher.web.metrics import DispatcherMetrics
from penstock_dispatcher.web.sampler import Sampler

TASKS = (10, 100, 1000)
VERSIONS = Versions(PROTOCOL, "3.11", "0")


class _Gathered(CollectorRegistry):
    """What `prometheus_client` is given: the same metrics."""

    def __init__(self, metrics: DispatcherMetrics) -> None:
        super().__init__()
        self.collect = metrics  # type: ignore[assignment,method-assign]


async def _figures(tasks: int, runs: int) -> list[Figure]:
    config = DispatcherConfig()
    entrance = config.entrance()
    dispatcher = DispatcherService(config, entrance=entrance)
    core = dispatcher.core
    stream = SplitProviderSpec((".0",), 10**9)
    core.handle(StartHistory(1), 0.0)
    core.handle(RegisterDataset(Call(1), VERSIONS, DatasetId("d"), (stream,), ""), 0.0)
    for i in range(tasks):
        core.handle(WorkerHeartbeat(WorkerId(f"w{i}"), 1, -1, versions=VERSIONS), 0.0)
    request = OpenIterationRequest(
        VERSIONS, JobParameters(DatasetId("d"), Mode.DYNAMIC, Codec.NONE), "j", 1
    )
    core.handle(OpenIteration(Call(2), request, 5), 0.0)
    (iteration,) = core.state.iterations
    core.handle(ReaderHeartbeat(iteration, "r", None, 1, {}, None), 0.0)
    core.take_views(0.0)
    sampler = Sampler(core)
    if (seen := sampler.look().tasks) != tasks:
        raise AssertionError(f"{seen} tasks, not {tasks}")
    metrics = DispatcherMetrics(dispatcher, entrance, sampler)
    whole = f"{tasks:,} tasks"
    by_library = _Gathered(metrics)
    ways = (
        (f"scrape by prometheus_client, {whole}", lambda: generate_latest(by_library)),
        (f"scrape, {whole}", lambda: prometheus_text(metrics())),
        (f"scrape as OpenMetrics, {whole}", lambda: openmetrics_text(metrics())),
    )
    timed = [(name, lambda way=way: 1000 * seconds(way)) for name, way in ways]
    look = measure(f"look, {whole}", "ms", lambda: 1000 * seconds(sampler.look), runs)
    figures = [*in_turn(timed, "ms", runs), look]
    dispatcher.close()
    return figures


def main() -> None:
    """Scrape and look, for each number of tasks."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question, runs=200)
    figures = [one for tasks in TASKS for one in asyncio.run(_figures(tasks, options.runs))]
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
