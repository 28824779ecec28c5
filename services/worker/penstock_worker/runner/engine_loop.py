"""One run: elements pulled from its pipeline, block by block, to its end, a failure or a stop."""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import dataclass, replace

from penstock import files
from penstock.analysis import auto_shard
from penstock.engine.block_size import BlockSizer
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator
from penstock.engine.op_times import OpTimes, begin_wait, waited
from penstock.engine.splits import SplitReader
from penstock.engine.tallies import Tallies
from penstock.errors import StateError
from penstock.graph.node import Node
from penstock.graph.run import open_root
from penstock.protocol.splits import Split
from penstock.protocol.types import Failure
from penstock.storage.counts import StorageCounts, counted, take_counts
from penstock_worker.runner import capacity, failures
from penstock_worker.runner.arena import Arena
from penstock_worker.runner.checkpointer import Checkpointer
from penstock_worker.runner.connection import RunInbox, RunOverError, WorkerConnection
from penstock_worker.runner.error_skipper import ErrorReport, ErrorSkipper, unwrapped
from penstock_worker.runner.flush_thread import AGE, FlushThread
from penstock_worker.runner.frame_writer import FrameWriter, WaitSum
from penstock_worker.runner.messages import (
    CheckpointTaken,
    ElementsSkipped,
    FilesRead,
    OperatorTime,
    RoomLacking,
    RunEnded,
    RunFailed,
    RunPaused,
    SplitsNeeded,
    TimesMeasured,
)

log = logging.getLogger("penstock.runner")

BLOCK_SECONDS = 0.003
"""About how long the engine works at a stretch: commands are read in between."""

TIMES_FIRST, TIMES_EACH = 0.2, 1.0
"""Seconds until the times of operators are reported, and between reports: heartbeats carry them."""

MOST = 1024

CAREFUL = 1.0
"""Seconds for which each element is sent by itself after a runner has died. Elements that were
produced and not sent then took far less time."""


class NoRoomError(Exception):
    """The system has no room for what a run needs: the process is to end, and so take none."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A loaded definition: the graph, and the split provider that each source draws from."""

    node: Node
    sharded: Node
    """The graph for tasks that draw splits."""
    providers: dict[str, int]


class EngineLoop:
    """The engine of one run, with its frames and checkpoints."""

    def __init__(self, connection: WorkerConnection, inbox: RunInbox, arena: Arena) -> None:
        self._connection, self._inbox = connection, inbox
        self._start = inbox.start
        self._frames = FrameWriter(connection, inbox, arena)
        self._flusher = FlushThread(self._frames, self._report_times_if_due)
        self._sizer = BlockSizer(BLOCK_SECONDS, MOST)
        self._checkpointer = Checkpointer(tuple(log.start for log in inbox.logs))
        self._tallies, self._skips_reported = Tallies(), 0
        """What operators count, and how many of the elements that they left out were reported."""
        self._times, self._began, self._starved = OpTimes(), time.monotonic(), WaitSum()
        self._times_due = self._began + TIMES_FIRST
        self._remote_before = counted().wait_seconds
        self._errors: ErrorReport | None = None
        """Of elements that cannot be made, where these are left out."""
        self._flush_each = self._start.flush_each
        self._flush_each_until: float | None = None
        self._thread = threading.get_ident()
        self._request_lock = threading.Lock()
        self._requested = [log.stop - 1 for log in inbox.logs]
        """The last position of each provider that was requested, or known at first."""

    def work(self, pipeline: Pipeline | Failure) -> None:
        """Produce elements until there are no more, one fails, or the worker stops the run.

        Raises:
            WorkerGoneError: when the worker is gone.
            NoRoomError: when a thread cannot be started, which the worker was told.
        """
        engine: OpIterator | None = None
        try:
            self._flusher.start()
            if isinstance(pipeline, Failure):
                self._connection.post(RunFailed(self._start.run, self._frames.sent, pipeline))
            elif not self._inbox.stopped:
                engine = self._open(pipeline)
                self._produce(engine)
        except BaseException as exc:  # noqa: BLE001  users' code may raise anything: SystemExit, too
            self._fail(exc)
        finally:
            self._flusher.close()
            self._connection.end(self._inbox)
            if engine is not None:
                _close(engine)

    def _open(self, pipeline: Pipeline) -> OpIterator:
        start = self._start
        context = Context.local(start.seed, start.index)
        context = replace(context, tallies=self._tallies, times=self._times)
        context = replace(context, share=start.share, processes=self._inbox.processes)
        node = pipeline.node
        if start.logs:
            node, splits = pipeline.sharded, SplitReader(self._fetch)
            context = replace(context, splits=splits, providers=pipeline.providers)
        elif start.shards:
            part = auto_shard.Part(start.shards, start.index)
            node = auto_shard.sharded(node, start.mode, part, files.count)
        count, state = unwrapped(json.loads(start.checkpoint.state))
        engine = open_root(node, context, state)
        if not start.skip_errors:
            return engine
        self._errors = report = ErrorReport(self._connection, self._inbox, node.label, context)
        report.begin(count)
        return ErrorSkipper(engine, start.checkpoint.number, count, report.add)

    def _produce(self, engine: OpIterator) -> None:
        frames, inbox, sizer, states = self._frames, self._inbox, self._sizer, self._checkpointer
        while not inbox.stopped:
            if inbox.paused:
                self._pause(engine)
                return
            # Another attempt may have skipped elements and not reported them in time.
            replayed = self._start.flush_each and frames.sent < frames.send_from
            more = self._advance(engine)
            self._report_skipped(replayed=replayed)
            if not more:
                self._report_checkpoint(engine)
                self._report_times()
                self._connection.post(RunEnded(self._start.run, frames.sent))
                return
            frames.pack()
            self._connection.poll()
            self._report_times_if_due()
            if states.due():
                self._report_checkpoint(engine)
            elif inbox.flush_wanted or self._flush_each or frames.age() + sizer.seconds > AGE:
                frames.flush()

    def _advance(self, engine: OpIterator) -> bool:
        """Let the engine work for about `BLOCK_SECONDS`; return False when it has ended."""
        produced, wanted = 0, self._block_size()
        began = self._flusher.enter()
        try:
            while produced < wanted:
                block = engine.block(wanted - produced)
                if not block:
                    return False
                produced += len(block)
                self._frames.put(block)
                if produced == wanted or time.monotonic() - began > BLOCK_SECONDS:
                    break
                self._flusher.watch()
        finally:
            seconds = self._flusher.leave()
        most = MOST if self._frames.sent < self._frames.send_from else self._frames.fitting
        self._sizer.learn(seconds, produced, most)
        return True

    def _block_size(self) -> int:
        """Return how many elements to produce at a stretch: a replay ends with a stretch."""
        left = self._frames.send_from - self._frames.sent
        if left > 0:
            return min(self._sizer.n, left)
        if self._flush_each and self._flush_each_until is None:
            self._flush_each_until = time.monotonic() + CAREFUL
        if self._flush_each_until is not None and time.monotonic() > self._flush_each_until:
            self._flush_each, self._flush_each_until = False, None
        return 1 if self._flush_each else self._sizer.n

    def _report_checkpoint(self, engine: OpIterator) -> None:
        """Send all produced elements, and then the engine's state, if it has one."""
        self._frames.flush()
        try:
            state = self._checkpointer.take(engine, self._frames.sent)
        except StateError:  # a replay begins again: `Dataset.visitation` says so
            return
        self._connection.post(CheckpointTaken(self._start.run, state))
        self._connection.forget(self._inbox, state.positions)

    def _report_times_if_due(self) -> None:
        """Report once a second; in another thread while users' code keeps this run's own."""
        if time.monotonic() > self._times_due:
            self._report_times()

    def _report_times(self) -> None:
        """Report how long operators worked since the run began, and what they counted."""
        rows = tuple(OperatorTime(*row) for row in self._times.now())
        self._times_due = (now := time.monotonic()) + TIMES_EACH
        seconds = now - self._began
        held_up, starved = self._frames.held_up.seconds, self._starved.seconds
        used = self._inbox.processes.used
        remote = counted().wait_seconds - self._remote_before
        sums = seconds, held_up, starved
        measures = self._tallies.measures()
        times = TimesMeasured(self._start.run, *sums, rows, used, remote, measures)
        self._connection.post(times)
        if (read := take_counts()) != StorageCounts():
            self._connection.post(FilesRead(self._start.run, read))

    def _report_skipped(self, *, replayed: bool = False) -> None:
        """Report how much was left out since; not if a run before this replay has."""
        if self._errors is not None:
            self._errors.send()
        reported, self._skips_reported = self._skips_reported, self._tallies.skipped
        if self._skips_reported > reported and not replayed:
            self._connection.post(ElementsSkipped(self._start.run, self._skips_reported - reported))

    def _pause(self, engine: OpIterator) -> None:
        """Produce no more: another worker continues from here."""
        self._report_checkpoint(engine)
        self._report_times()
        self._connection.post(RunPaused(self._start.run))
        self._connection.wait(lambda: self._inbox.stopped)

    def _fail(self, error: BaseException) -> None:
        if self._inbox.stopped:
            return  # whatever it is, the run is over
        try:
            self._frames.flush()
        except RunOverError:
            return
        except Exception as exc:  # noqa: BLE001  an element before the failed one failed, too
            error = exc
        number = self._frames.sent
        self._report_skipped()
        if capacity.lacks_thread(
            error
        ):  # of this run's own: users' functions' errors have another type
            lacking = RoomLacking(self._start.run, capacity.lacking_thread())
            self._connection.post(lacking)
            raise NoRoomError from error
        self._connection.post(RunFailed(self._start.run, number, failures.in_engine(error, number)))

    def _fetch(self, provider: int, position: int) -> Split:
        """See `SplitReader`."""
        inbox, log = self._inbox, self._inbox.logs[provider]
        if position >= log.stop:
            self._request(provider, position)
            if threading.get_ident() == self._thread:
                self._frames.flush_nowait()
            began = begin_wait()
            self._starved.begin()
            self._connection.wait(lambda: log.stop > position or inbox.stopped)
            self._starved.end()
            waited(began)
            if log.stop <= position:
                raise RunOverError
        split = log.at(position)
        if split:  # what is behind the end of a pass is requested if there is another
            self._request(provider, position + 1)
        return split

    def _request(self, provider: int, position: int) -> None:
        with self._request_lock:
            if position <= self._requested[provider] or position < self._inbox.logs[provider].stop:
                return
            self._requested[provider] = position
        self._connection.post(SplitsNeeded(self._start.run, provider, position))


def _close(engine: OpIterator) -> None:
    try:
        engine.close()
    except BaseException:
        log.exception("a pipeline could not be closed")
