"""What a dispatcher counts, as far as it says what is slow."""

from __future__ import annotations

import msgspec

from penstock.errors import VersionMismatch
from penstock.explanation.looks import JobLook, OperatorLook, TaskLook
from penstock.protocol.loop_time import LinkTraffic, LoopTime
from penstock.protocol.malformed import MALFORMED


class _TimesSeen(msgspec.Struct):
    seconds: float
    held_up: float
    starved: float
    operators: list[OperatorLook]


class _RunnerSeen(msgspec.Struct):
    task: int
    state: str
    times: _TimesSeen | None = None
    newest: _TimesSeen | None = None
    ready: int = 0
    unacked: int = 0
    compression: str = ""
    nbytes: int = 0
    room: int = 0


class _WorkerStatsSeen(msgspec.Struct):
    tasks: list[_RunnerSeen] = []


class _WorkerSeen(msgspec.Struct):
    address: str
    stats: _WorkerStatsSeen | None = None


class _ReaderSeen(msgspec.Struct):
    reader: int
    status: str
    loop: LoopTime | None = None
    links: tuple[LinkTraffic, ...] = ()


class _TaskSeen(msgspec.Struct):
    task: int


class _PassSeen(msgspec.Struct):
    iteration: int
    job: str
    repetition: int
    finished: bool
    tasks: list[_TaskSeen]
    readers: list[_ReaderSeen]
    waiting_for: str = ""


class _MeshSeen(msgspec.Struct):
    workers: list[_WorkerSeen]
    iterations: list[_PassSeen]


def jobs(status: bytes) -> tuple[JobLook, ...]:
    """Return the passes that run, of what a status call returned.

    Raises:
        VersionMismatch: when it counts other things.
    """
    try:
        known = msgspec.json.decode(status, type=_MeshSeen)
    except MALFORMED as exc:
        raise VersionMismatch(f"the dispatcher is of another version: {exc}") from exc
    runners = {
        one.task: (worker.address, one)
        for worker in known.workers
        if worker.stats is not None
        for one in worker.stats.tasks
    }
    return tuple(_job(it, runners) for it in known.iterations if not it.finished)


def _job(it: _PassSeen, runners: dict[int, tuple[str, _RunnerSeen]]) -> JobLook:
    tasks = []
    for task in it.tasks:
        worker, runner = runners.get(task.task, ("", None))
        if runner is None or runner.state not in _AT_WORK:
            continue
        if (times := runner.newest or runner.times) is not None:
            tasks.append(
                TaskLook(
                    task.task,
                    worker,
                    times.seconds,
                    times.held_up,
                    times.starved,
                    tuple(times.operators),
                    runner.ready,
                    runner.unacked,
                    runner.compression,
                    runner.nbytes,
                    runner.room,
                )
            )
    loops = [one.loop for one in it.readers if one.loop is not None and one.status == "live"]
    links = tuple((one.reader, link) for one in it.readers for link in one.links)
    return JobLook(it.iteration, it.job, tuple(loops), tuple(tasks), it.waiting_for, links)


_AT_WORK = ("runs", "waits for splits")
