"""What a dispatcher counts, as far as it says what is slow."""

from __future__ import annotations

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
    connected: bool = True
    silent: float = 0.0


class _ReaderSeen(msgspec.Struct):
    reader: int
    status: str
    silent: float | None = None
    loop: LoopTime | None = None
    links: tuple[LinkTraffic, ...] = ()


class _TaskSeen(msgspec.Struct):
    task: int


class _AccountSeen(msgspec.Struct):
    acked: int = 0
    consumed: int = 0


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


class _MeshSeen(msgspec.Struct):
    workers: list[_WorkerSeen]
    iterations: list[_PassSeen]
    address: str = ""
    halted: str = ""
    up: float = REUNION
    worker_lost: float | None = None


def look(status: bytes) -> MeshLook:
    """Return the passes that run and what is wrong, of what a status call returned.

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
    found = (_job(it, runners, of, stopped) for it, of in zip(running, readers, strict=True))
    return MeshLook(tuple(found), trouble)


def _readers(it: _PassSeen) -> JobFacts:
    live = [one for one in it.readers if one.status == "live"]
    silent = sum(not _is_heard(one) for one in live)
    return JobFacts(len(live), silent, it.readers_lost, it.unread)


def _is_heard(reader: _ReaderSeen) -> bool:
    return reader.status == "live" and (reader.silent is None or reader.silent < SILENT)


def _job(
    it: _PassSeen,
    runners: dict[int, tuple[str, _RunnerSeen]],
    readers: JobFacts,
    stopped: Trouble | None,
) -> JobLook:
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
    heard = [one for one in it.readers if _is_heard(one)]
    return JobLook(
        it.iteration,
        it.job,
        tuple(one.loop for one in heard if one.loop is not None),
        tuple(tasks),
        it.waiting_for,
        tuple((one.reader, link) for one in heard for link in one.links),
        readers,
        max(it.account.acked, it.account.consumed),
        stopped,
    )


_AT_WORK = ("runs", "waits for splits")
