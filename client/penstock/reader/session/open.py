"""Register a dataset, open its iteration, and start a session; say why that is not possible."""

from __future__ import annotations

import logging
import os
import platform
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import uuid4

import msgspec

from penstock.environment.detect import cluster_environment
from penstock.errors import (
    Closed,
    ConfigError,
    DatasetError,
    DefinitionTooLarge,
    JobMismatch,
    JobUsed,
    PenstockError,
    UnknownDataset,
)
from penstock.protocol.calls import OpenIterationReply, OpenIterationRequest
from penstock.protocol.definition import Definition
from penstock.protocol.loop_time import ReaderProcess
from penstock.protocol.nearness import TargetWorkers
from penstock.protocol.types import DatasetId
from penstock.reader.core.limits import (
    ByteLimit,
    FrameLimit,
    InOrderByteLimit,
    InOrderFrameLimit,
    Limit,
    TaskFrameLimit,
)
from penstock.reader.core.reachability import Vicinity
from penstock.reader.core.rounds import Consumer, RoundsCore
from penstock.reader.core.session_core import SessionCore
from penstock.reader.core.state_machine import ReaderCore
from penstock.reader.session.line import Line, call_dispatcher
from penstock.reader.session.network import SessionConfig
from penstock.reader.session.session import Session
from penstock.runtime import log_lines
from penstock.runtime.event_loop import LoopThread, short_turns
from penstock.runtime.malloc import freed_memory, tune
from penstock.runtime.versions import versions
from penstock.serialization.fingerprint import explain_difference
from penstock.transport.in_process import here
from penstock.wire.connection import connect
from penstock.wire.dispatcher import DispatcherClient

log = logging.getLogger("penstock.reader")

T = TypeVar("T")

BUDGET = 64 << 20
"""Bytes of frames that are buffered or under way, where no number of frames is given."""


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """What is to be read, and how."""

    address: str
    definition: Callable[[], bytes]
    largest_part: Callable[[], str]
    """Says what takes most of the definition, for an error."""
    request: OpenIterationRequest
    max_frames: int | None
    timeout: float
    writable: bool
    on_finished: str = "error"
    """What to do when readers that are gone have read it before: error, warn or ignore."""
    consumer: Consumer | None = None
    """Who reads, where elements belong to consumers."""
    transport: str | None = None
    """The name of the transport that is wanted."""


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A session that reads, and what was learnt when it was opened."""

    session: Session
    dataset: DatasetId
    used: bool
    """Whether readers that are gone have read the pass, or a part of it."""


def open_session(spec: ReadSpec) -> OpenedSession:
    """Register, open the iteration, and begin to read.

    If *spec*'s request names a dataset, that is not registered again unless it was forgotten.

    Raises:
        WaitedTooLong: when nothing answers at the address within the timeout.
        JobUsed: when others have read it before, and *spec* says that this is an error.
    """
    began = time.time_ns()  # a restarted dispatcher answers waiting calls in any order
    held, line = ExitStack(), Line(spec.address)
    try:
        log_lines.configure_within()
        tune(one_arena=True)  # before there are threads, as far as it is up to us
        held.callback(freed_memory.settle)
        loop = held.enter_context(LoopThread.shared())
        unread = held.enter_context(ExitStack())
        unread.callback(_close, loop, line)
        if spec.request.parameters.target_workers is TargetWorkers.LOCAL:
            loop.run(_call(spec, line, lambda d: check_local(spec.address, d.status)))
        dataset, opened = _open(loop, line, spec)
        _heed(opened, spec)
        held.enter_context(short_turns())
        core = _core(spec, opened, began)
        how = (spec.timeout, spec.writable, spec.transport)
        config = SessionConfig(spec.address, opened.heartbeat_interval, *how, line)
        unread.pop_all()  # the session closes it
        session = Session(core, config, loop, held)
    except BaseException:
        held.close()
        raise
    if spec.consumer is not None and not spec.consumer.strided:
        _await_join(session)
    return OpenedSession(session, dataset, bool(opened.read_before))


def _await_join(session: Session) -> None:
    """Wait until a consumer knows with which round it begins: what keeps it out is raised now."""
    try:
        session.locate()
    except BaseException:
        session.close()
        raise


def _core(spec: ReadSpec, opened: OpenIterationReply, began: int) -> SessionCore:
    session, process, frames = uuid4().hex, this_process(), spec.max_frames
    if spec.consumer is None or spec.consumer.strided:
        ordered = spec.request.parameters.ordered
        limit: Limit
        if ordered:
            limit = InOrderFrameLimit(frames) if frames else InOrderByteLimit(BUDGET)
        else:
            limit = FrameLimit(frames) if frames else ByteLimit(BUDGET)
        vicinity = Vicinity(spec.request.parameters.target_workers, process.host)
        index = None if spec.consumer is None else spec.consumer.index
        whose = (process, spec.request.trainer or "", vicinity, index)
        return ReaderCore(
            opened.iteration, session, opened.reader_lease, limit, *whose, ordered=ordered
        )
    room = TaskFrameLimit(frames) if frames else ByteLimit(BUDGET)
    return RoundsCore(opened.iteration, session, room, process, spec.consumer, began)


def _heed(opened: OpenIterationReply, spec: ReadSpec) -> None:
    """Say that others have read a part of it, unless that is known to the caller."""
    on_finished = spec.on_finished
    goes_on = spec.consumer is not None and spec.consumer.start_round is not None
    if not opened.read_before or on_finished == "ignore" or goes_on:
        return
    left, then = "Only what is left", "reads what is left"
    if spec.request.trainer:
        left, then = "Nothing", "gets an empty pass"
    text = (
        f"{opened.read_before}. {left} of it comes here. To read from the beginning, give a "
        "job_name that was never used"
    )
    if spec.consumer is not None and not spec.consumer.strided:
        text += "; to continue after a crash, give start_round, the same to all consumers"
    elif not spec.request.trainer:
        text += "; to continue from a save, give its state: dataset.iterator(state)"
    if on_finished == "error" and not _has_fellows():
        raise JobUsed(f"{text}; distribute(..., on_finished='warn') {then}")
    log.warning("%s", text)


def _has_fellows() -> bool:
    """Return whether a launcher started this process as one of several.

    Then others may have read all before this one began: that is no second use of a name.
    """
    try:
        return (cluster_environment().num_consumers or 1) > 1
    except ConfigError:  # the environment may be malformed, and nobody asked for it
        return False


def this_process() -> ReaderProcess:
    """Return where this training loop runs, as messages name its reader."""
    rank = os.environ.get("RANK", "")
    known = rank.isdecimal() and len(rank) < 10
    mine = versions()
    tag = (platform.node(), os.getpid(), int(rank) if known else None)
    return ReaderProcess(*tag, mine.penstock, mine.python)


def _open(loop: LoopThread, line: Line, spec: ReadSpec) -> tuple[DatasetId, OpenIterationReply]:
    asked = spec.request.parameters
    dataset, by_id = asked.dataset, bool(asked.dataset_id)
    if dataset:
        try:
            return dataset, loop.run(_call(spec, line, lambda d: d.open_iteration(spec.request)))
        except UnknownDataset:
            if by_id:  # there is nothing here to register it with
                raise
            log.info("the dispatcher at %s forgot dataset %s", spec.address, dataset)
    definition, dataset = _registered(loop, line, spec)
    request = replace(spec.request, parameters=replace(asked, dataset=dataset))
    try:
        return dataset, loop.run(_call(spec, line, lambda d: d.open_iteration(request)))
    except JobMismatch as exc:
        raise loop.run(_explained(spec, exc, definition)) from None


def _registered(loop: LoopThread, line: Line, spec: ReadSpec) -> tuple[bytes, DatasetId]:
    mine = spec.request.versions
    try:
        definition = spec.definition()
        register = _call(spec, line, lambda d: d.register_dataset(definition, mine))
        return definition, loop.run(register)
    except DefinitionTooLarge as exc:
        raise DefinitionTooLarge(f"{spec.largest_part()}: {exc}") from None


def _close(loop: LoopThread, line: Line) -> None:
    with suppress(Closed):  # then it is closed with the loop
        loop.run(line.close())


async def _call(spec: ReadSpec, line: Line, call: Callable[[DispatcherClient], Awaitable[T]]) -> T:
    return await call_dispatcher(spec.address, spec.timeout, call, line)


async def _explained(spec: ReadSpec, error: JobMismatch, definition: bytes) -> JobMismatch:
    async with connect(spec.address) as channel:
        return await explained(error, definition, DispatcherClient(channel).get_definition)


Fetch = Callable[[DatasetId], Awaitable[bytes]]
"""Return the definition of a registered dataset."""


async def explained(error: JobMismatch, mine: bytes, fetch: Fetch) -> JobMismatch:
    """Return *error* with the first difference between the job's pipeline and *mine*.

    It is *error* itself where the two are alike, or the job's cannot be had any more.
    """
    if not error.dataset:
        return error
    difference = ""
    with suppress(PenstockError):
        theirs = Definition.from_bytes(await fetch(DatasetId(error.dataset)))
        difference = explain_difference(theirs, Definition.from_bytes(mine))
    if not difference:
        return error
    return JobMismatch(f"{error}. Of the job's pipeline and this one, {difference}", error.dataset)


NAMED = 4


class _Worker(msgspec.Struct):
    address: str
    incarnation: int


class _Status(msgspec.Struct):
    workers: list[_Worker]


async def check_local(dispatcher: str, status: Callable[[], Awaitable[bytes]]) -> None:
    """Refuse to read workers in this process if *dispatcher*, by its *status*, knows of none.

    Raises:
        DatasetError: naming the workers that it knows.
    """
    mine = here()
    known = msgspec.json.decode(await status(), type=_Status).workers
    if any(mine.get(worker.address) == worker.incarnation for worker in known):  # type: ignore[call-overload]
        return
    raise DatasetError(
        f"target_workers='LOCAL' reads workers in this process, and there is none: {_found(known)} "
        f"at the dispatcher at {dispatcher}. Start one here, and keep it while you read: "
        f"penstock_worker.WorkerServer(WorkerConfig({dispatcher!r})); or read with "
        "target_workers='AUTO'"
    )


def _found(known: list[_Worker]) -> str:
    if not known:
        return "no worker is registered"
    names = ", ".join(worker.address for worker in known[:NAMED])
    more = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
    return f"{names}{more}, in other processes, registered"
