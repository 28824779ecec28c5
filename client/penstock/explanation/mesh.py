"""Reads the answer of a dispatcher to a status call: the facts that show why a job is slow."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

import msgspec

from penstock.errors import VersionMismatch
from penstock.explanation.looks import JobLook, MeshLook, OperatorLook, TaskLook
from penstock.explanation.trouble import (
    REUNION,
    SILENT,
    JobFacts,
    MeshFacts,
    Trouble,
    WorkerFacts,
    first_trouble,
)
from penstock.protocol.loop_time import LinkTraffic, LoopTime
from penstock.protocol.malformed import MALFORMED
from penstock.protocol.measures import OperatorFigures


class _TimesSeen(msgspec.Struct):
    seconds: float
    held_up: float
    starved: float
    operators: list[OperatorLook]
    remote: float = 0.0


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


class _PastSeen(msgspec.Struct):
    iteration: int
    task: int
    times: _TimesSeen


class _WorkerStatsSeen(msgspec.Struct):
    tasks: list[_RunnerSeen] = []
    past: list[_PastSeen] = []


class _WorkerSeen(msgspec.Struct):
    address: str
    stats: _WorkerStatsSeen | None = None
    connected: bool = True
    silent: float = 0.0
    slots: int = 0


class _ReaderSeen(msgspec.Struct):
    reader: int
    status: str
    silent: float | None = None
    loop: LoopTime | None = None
    links: tuple[LinkTraffic, ...] = ()


class _TaskSeen(msgspec.Struct):
    task: int
    index: int | None = None


class _AccountSeen(msgspec.Struct):
    acked: int = 0
    consumed: int = 0


class _RoundsSeen(msgspec.Struct):
    consumers: list[msgspec.Raw] = []


class _PassSeen(msgspec.Struct):
    iteration: int
    job: str
    repetition: int
    finished: bool
    tasks: list[_TaskSeen]
    readers: list[_ReaderSeen]
    waiting_for: str = ""
    unread: float | None = None
    readers_lost: int = 0
    account: _AccountSeen = msgspec.field(default_factory=_AccountSeen)
    fills_slots: bool = True
    slots: int = 0
    ordered: bool = False
    rounds: _RoundsSeen | None = None
    figures: tuple[OperatorFigures, ...] = ()


class _MeshSeen(msgspec.Struct):
    workers: list[_WorkerSeen]
    iterations: list[_PassSeen]
    address: str = ""
    halted: str = ""
    up: float = REUNION
    worker_lost: float | None = None


def look(status: bytes) -> MeshLook:
    """Return the running passes and the worst problem in *status*, the answer to a status call.

    Raises:
        VersionMismatch: when the dispatcher is of another version.
    """
    try:
        known = msgspec.json.decode(status, type=_MeshSeen)
    except MALFORMED as exc:
        raise VersionMismatch(f"the dispatcher is of another version: {exc}") from exc
    runners = _Runners(known.workers)
    running = [it for it in known.iterations if not it.finished]
    readers = [_readers(it) for it in running]
    trouble = first_trouble(
        MeshFacts(
            known.address,
            known.halted,
            known.up,
            tuple(WorkerFacts(one.connected, one.silent) for one in known.workers),
            tuple(readers),
            known.worker_lost,
        )
    )
    stopped = trouble if trouble is not None and trouble.stops else None
    slots = sum(worker.slots for worker in known.workers)
    sharing = max(
        1,
        sum(it.fills_slots and of.live > 0 for it, of in zip(running, readers, strict=True)),
    )
    found = (
        replace(_job(it, runners, of, stopped), all_slots=slots, sharing=sharing)
        for it, of in zip(running, readers, strict=True)
    )
    return MeshLook(tuple(found), trouble)


class _Runners:
    """The reports of workers on tasks: on present tasks, and on the newest finished ones of a pass.

    A task that takes less than a second is not reported while it runs.
    """

    def __init__(self, workers: list[_WorkerSeen]) -> None:
        told = [(one.address, one.stats) for one in workers if one.stats is not None]
        self._here = {one.task: (at, one) for at, stats in told for one in stats.tasks}
        self._past = [(at, one) for at, stats in told for one in stats.past]

    def of(self, it: _PassSeen) -> tuple[int, list[TaskLook]]:
        """Return how many tasks of a pass are made now, and the reports on these tasks.

        If no report is known, return reports on the newest finished tasks instead.
        """
        here = [(task, *self._here[task.task]) for task in it.tasks if task.task in self._here]
        at_work = [one for one in here if one[2].state in AT_WORK]
        for some in (at_work, here):
            if found := [_task(*one) for one in some if one[2].times is not None]:
                return len(at_work), found[-max(1, len(at_work)) :]
        past = [(at, one) for at, one in self._past if one.iteration == it.iteration]
        over = [
            _task(_TaskSeen(one.task), at, _RunnerSeen(one.task, "", one.times)) for at, one in past
        ]
        return len(at_work), sorted(over, key=attrgetter("task"))[-max(1, len(at_work)) :]

    def ready_ahead(self, it: _PassSeen) -> int:
        """Return how many elements are made, and not taken, of all tasks but the first."""
        here = [self._here[task.task][1] for task in it.tasks if task.task in self._here]
        return sum(one.ready + one.unacked for one in here[1:])


def _readers(it: _PassSeen) -> JobFacts:
    live = [one for one in it.readers if one.status == "live"]
    silent = sum(not _is_heard(one) for one in live)
    return JobFacts(len(live), silent, it.readers_lost, it.unread)


def _is_heard(reader: _ReaderSeen) -> bool:
    return reader.status == "live" and (reader.silent is None or reader.silent < SILENT)


def _job(
    it: _PassSeen,
    runners: _Runners,
    readers: JobFacts,
    stopped: Trouble | None,
) -> JobLook:
    count, tasks = runners.of(it)
    heard = [one for one in it.readers if _is_heard(one)]
    return JobLook(
        it.iteration,
        it.job,
        tuple(one.loop for one in heard if one.loop is not None),
        tuple(tasks),
        it.waiting_for,
        tuple((one.reader, link) for one in heard for link in one.links),
        readers,
        fills_slots=it.fills_slots,
        slots=it.slots,
        running=count,
        ordered=it.ordered,
        consumers=len(it.rounds.consumers) if it.rounds else 0,
        ready_ahead=runners.ready_ahead(it),
        had=max(it.account.acked, it.account.consumed),
        stopped=stopped,
        figures=it.figures,
    )


def _task(task: _TaskSeen, worker: str, runner: _RunnerSeen) -> TaskLook:
    times = runner.newest or runner.times
    assert times is not None  # noqa: S101  as those who call look
    return TaskLook(
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
        task.index,
        times.remote,
    )


AT_WORK = ("runs", "waits for splits")
"""States of a task, as its worker says them, in which a runner makes it."""
