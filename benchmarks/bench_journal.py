"""What does the dispatcher's journal cost: of DYNAMIC throughput, a short pass, one decision?

Three meshes of a dispatcher and two workers, side by side and in turn: one forgets, one's journal
outlasts its process, one's a power failure. Splits are drawn far more often than in real jobs: a
source of a million numbers is used up in a fraction of a second. One decision is the opening of a
new job, asked of a dispatcher in this process, with no wire between.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import uvloop
from measure import arguments, in_turn, seconds, show

from penstock import Dataset
from penstock.definition import encode
from penstock.protocol.calls import JobParameters, OpenIterationRequest
from penstock.protocol.types import Codec, Mode
from penstock.runtime.settings import to_env
from penstock.runtime.versions import versions
from penstock_cluster.member import Member
from penstock_dispatcher.config import DispatcherConfig
from penstock_dispatcher.server import dispatching
from penstock_worker.config import WorkerConfig

WORKERS = 2
N = 1_000_000
DECISIONS = 200
START_WITHIN = 30.0


@contextmanager
def _mesh(config: DispatcherConfig) -> Iterator[str]:
    """Run a dispatcher and its workers as processes; yield the service address."""
    members: list[Member] = []

    def start(module: str, name: str, env: dict[str, str]) -> Member:
        member = Member(module, name, env, START_WITHIN)
        members.append(member)
        member.wait_ready(member.launch(), time.monotonic() + START_WITHIN)
        return member

    try:
        dispatcher = start("penstock_dispatcher", "dispatcher", to_env(config))
        worker = WorkerConfig(dispatcher_address=dispatcher.address)
        for number in range(WORKERS):
            start("penstock_worker", f"worker {number}", to_env(worker))
        yield f"grpc://{dispatcher.address}"
    finally:
        for member in reversed(members):
            member.end()
        for member in members:
            member.close()


def _throughput(target: str) -> Callable[[], float]:
    dataset = Dataset.range(N).distribute("distributed_epoch", target, compression=None)
    return lambda: N / seconds(lambda: sum(1 for _ in dataset)) / 1e6


def _short_pass(target: str) -> Callable[[], float]:
    dataset = Dataset.range(10).distribute("distributed_epoch", target)
    return lambda: 1000 * seconds(lambda: list(dataset))


def _decision(config: DispatcherConfig) -> Callable[[], float]:
    names = itertools.count()

    async def measured() -> float:
        async with dispatching(config) as dispatcher:
            definition = encode(Dataset.range(10).node).to_bytes()
            dataset = await dispatcher.register_dataset(definition, versions())
            times = []
            for _ in range(DECISIONS):
                name = f"job {next(names)}"
                request = OpenIterationRequest(
                    versions(), JobParameters(dataset, Mode.OFF, Codec.NONE), name, 0
                )
                began = time.perf_counter()
                await dispatcher.open_iteration(request)
                times.append(time.perf_counter() - began)
            return 1e6 * statistics.median(times)

    return lambda: uvloop.run(measured())


def main() -> None:
    """Measure all three in turn; the one that forgets is the baseline."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question, runs=15)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        configs = {
            "no journal": DispatcherConfig(),
            'durability="process"': DispatcherConfig(work_dir=str(folder / "process")),
            'durability="power"': DispatcherConfig(
                work_dir=str(folder / "power"), durability="power"
            ),
        }
        alone = {
            name: replace(config, work_dir=config.work_dir and f"{config.work_dir} alone")
            for name, config in configs.items()
        }
        decisions = in_turn(
            [(f"one decision, {name}", _decision(config)) for name, config in alone.items()],
            "µs",
            options.runs,
        )
        targets = {name: stack.enter_context(_mesh(config)) for name, config in configs.items()}
        figures = in_turn(
            [(f"DYNAMIC, {name}", _throughput(target)) for name, target in targets.items()],
            "M elements/s",
            options.runs,
        )
        figures += in_turn(
            [(f"ten elements, {name}", _short_pass(target)) for name, target in targets.items()],
            "ms",
            4 * options.runs,
        )
    show(question, [*figures, *decisions], options.json)


if __name__ == "__main__":
    main()
