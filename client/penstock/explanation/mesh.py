"""What a dispatcher counts, as far as it says what is slow."""

from __future__ import annotations

import msgspec

from penstock.errors import VersionMismatch
from penstock.explanation.looks import JobLook, OperatorLook, TaskLook
from penstock.protocol.loop_time import LoopTime
from penstock.protocol.malformed import MALFORMED


class _Times(msgspec.Struct):
    seconds: float
    held_up: float
    starved: float
    operators: list[OperatorLook]


class _Runner(msgspec.Struct):
    task: int
    state: str
    times: _Times | None = None


class _WorkerStats(msgspec.Struct):
    tasks: list[_Runner] = []


class _Worker(msgspec.Struct):
    address: str
    stats: _WorkerStats | None = None


class _Reader(msgspec.Struct):
    reader: int
    status: str
    loop: LoopTime | None = None


class _Task(msgspec.Struct):
    task: int


class _Iteration(msgspec.Struct):
    iteration: int
    job: str
    repetition: int
    finished: bool
    tasks: list[_Task]
    readers: list[_Reader]
    waiting_for: str = ""


class _Status(msgspec.Struct):
    workers: list[_Worker]
    iterations: list[_Iteration]


def jobs(status: bytes) -> tuple[JobLook, ...]:
    """Return the passes that run, of what a status call returned.

    Raises:
        VersionMismatch: when it counts other things.
    """
    try:
        known = msgspec.json.decode(status, type=_Status)
    except MALFORMED as exc:
        raise VersionMismatch(f"the dispatcher is of another version: {exc}") from exc
    runners = {
        one.task: (worker.address, one)
        for worker in known.workers
        if worker.stats is not None
        for one in worker.stats.tasks
    }
    return tuple(_job(it, runners) for it in known.iterations if not it.finished)


def _job(it: _Iteration, runners: dict[int, tuple[str, _Runner]]) -> JobLook:
    tasks = []
    for task in it.tasks:
        worker, runner = runners.get(task.task, ("", None))
        if runner is not None and runner.times is not None and runner.state in _AT_WORK:
            times = runner.times
            tasks.append(
                TaskLook(
                    task.task,
                    worker,
                    times.seconds,
                    times.held_up,
                    times.starved,
                    tuple(times.operators),
                )
            )
    loops = [one.loop for one in it.readers if one.loop is not None and one.status == "live"]
    return JobLook(it.iteration, it.job, tuple(loops), tuple(tasks), it.waiting_for)


_AT_WORK = ("runs", "waits for splits")
