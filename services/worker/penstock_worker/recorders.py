"""The recorders of a worker: one process for each save that it hosts."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from penstock.credentials.caller import PLAIN
from penstock.credentials.folder import folder_of
from penstock.errors import PenstockError
from penstock.ipc.fork_client import ForkedProcess
from penstock.ipc.message_line import MessageLine
from penstock.protocol.control import Assignment, WorkerHeartbeat
from penstock.protocol.recording import RecordingAssignment, RecordingReport, SaveStage
from penstock.protocol.types import WorkerId
from penstock_worker.config import WorkerConfig
from penstock_worker.runner.fork import RunnerForks
from penstock_worker.runner.recorder_messages import RecorderOrder, RecorderReport, StopRecorder

log = logging.getLogger("penstock.worker")

E = TypeVar("E")


class Recorders:
    """Runs what assignments list, and ends all else. For one event loop.

    *forks* makes the processes, which read from the dispatcher at *target* with *credentials*, a
    folder or nothing. *changed* is called when there is something to report.
    """

    def __init__(
        self,
        worker: WorkerId,
        forks: RunnerForks,
        target: str,
        credentials: str,
        changed: Callable[[], None],
    ) -> None:
        self._worker, self._forks, self._changed = worker, forks, changed
        self._target, self._credentials = target, credentials
        self._revision = -1
        self._running: dict[tuple[str, int], _HostedRecorder] = {}

    def heard(self, incarnation: int, handle: Callable[[E], None]) -> Callable[[E], None]:
        """Return *handle*, called with events after what they order here was done."""

        def hear(event: E) -> None:
            if isinstance(event, Assignment) and event.incarnation == incarnation:
                self._hear(event)
            handle(event)

        return hear

    def reported(
        self, heartbeat: Callable[[bool], WorkerHeartbeat]
    ) -> Callable[[bool], WorkerHeartbeat]:
        """Return *heartbeat*, with the reports of all recorders."""

        def report(first: bool) -> WorkerHeartbeat:
            reports = tuple(one.report for one in self._running.values())
            return replace(heartbeat(first), recordings=reports)

        return report

    def close(self) -> None:
        """End all recorders: other workers continue their saves."""
        self._assign(())

    def _hear(self, assignment: Assignment) -> None:
        if assignment.revision >= self._revision:
            self._revision = assignment.revision
            self._assign(assignment.recordings)

    def _assign(self, wanted: tuple[RecordingAssignment, ...]) -> None:
        listed = {(one.save_id, one.attempt): one for one in wanted}
        for key in self._running.keys() - listed.keys():
            self._running.pop(key).end()
        for key, one in listed.items():
            if key not in self._running:
                order = RecorderOrder(
                    one.save_id,
                    one.path,
                    one.dataset_id,
                    self._target,
                    self._credentials,
                    self._worker,
                    one.stopping,
                )
                self._running[key] = _HostedRecorder(one, order, self._forks, self._changed)
            elif one.stopping:
                self._running[key].stop()


def recorders_of(
    config: WorkerConfig, worker: WorkerId, forks: RunnerForks, changed: Callable[[], None]
) -> Recorders:
    """Return the recorders of *worker*, with the settings *config*."""
    folder = str(folder_of(config.credentials, config.role)) if config.credentials else PLAIN
    return Recorders(worker, forks, config.dispatcher_address or "", folder, changed)


class _HostedRecorder:
    """A recorder process, from before its fork until after its end."""

    def __init__(
        self,
        assigned: RecordingAssignment,
        order: RecorderOrder,
        forks: RunnerForks,
        changed: Callable[[], None],
    ) -> None:
        self.report = RecordingReport(assigned.save_id, assigned.attempt, SaveStage.OPEN)
        self._order, self._forks, self._changed = order, forks, changed
        self._line: MessageLine[RecorderReport] | None = None
        self._process: ForkedProcess | None = None
        self._stopping = self._ended = False
        self._starting = asyncio.create_task(self._start(), name=f"record {order.path}")

    async def _start(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = await self._forks.fork(
                    [theirs.fileno()], self._on_exit, self._order.to_bytes()
                )
        except BaseException as exc:
            ours.close()
            if not isinstance(exc, PenstockError | OSError):
                raise
            self._died(str(exc))
            return
        self._line = MessageLine(ours, RecorderReport, self._hear, lambda _: None)
        if self._stopping:
            self._line.send(StopRecorder())

    def stop(self) -> None:
        """Have it commit that the save is cancelled."""
        if not self._stopping and self._line is not None:
            self._line.send(StopRecorder())
        self._stopping = True

    def end(self) -> None:
        """Kill the process, if it lives."""
        self._ended = True
        self._starting.cancel()
        if self._process is not None:
            self._process.kill()
        if self._line is not None:
            self._line.close()

    def _hear(self, said: RecorderReport) -> None:
        self.report = replace(
            self.report, stage=said.stage, progress=said.progress, failure=said.failure
        )
        self._changed()

    def _on_exit(self, code: int) -> None:
        if self._line is not None:
            while self._line.read():  # what it said last
                pass
        if self.report.stage is SaveStage.OPEN:
            self._died(f"its exit code is {code}")

    def _died(self, why: str) -> None:
        if not self._ended:
            log.warning("the recorder of %s died: %s", self._order.path, why)
            self.report = replace(self.report, died=why)
            self._changed()
