"""The worker's body: its real core, on lines of virtual time, with runners that are simulated."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any

from penstock.protocol.control import Assignment, SplitGrant, WorkerRefused
from penstock.protocol.data import Ack, Subscribe
from penstock.protocol.nearness import WorkerProfile
from penstock.protocol.types import PROTOCOL, Versions, WorkerId
from penstock_worker.core.events import (
    AbortStream,
    DispatcherConnected,
    Drained,
    DrainRequested,
    DrainStarted,
    Effect,
    Event,
    HeartbeatDue,
    LogError,
    RequestSplits,
    RetainFrames,
    SendAllSent,
    SendEnd,
    SendFrame,
    SendRecall,
    SendToRunner,
    StartRunner,
    StopRunner,
    StreamAcked,
    StreamClosed,
    StreamId,
    StreamOpened,
    StreamWritable,
    Tick,
)
from penstock_worker.core.state_machine import WorkerCore
from penstock_worker.runner.messages import AddSplits, Flush, FreeFrames, PauseRun, SetWindow
from simulation.lines import End, dial
from simulation.runner import SimRunner, Work
from simulation.world import LawBroken, Process, World

VERSIONS = Versions(PROTOCOL, "3.11", "0")
TICK = 0.5
NO_ROOM = 3.5
"""Seconds for which no runner can be had, at most: two such times are no reason to fail a task."""

GOODBYE = 1.0
"""Seconds that a reader gets for its last words behind the end of a stream."""


@dataclass(frozen=True, slots=True)
class Here:
    """A worker's answer to a new stream, before it has anything to send."""


class SimWorker(Process):
    """One life of a worker."""

    def __init__(
        self, world: World, name: str, incarnation: int, work: Work, slots: int = 1
    ) -> None:
        super().__init__(world, name)
        self.work = work
        self.core = WorkerCore(
            WorkerId(name), incarnation, None, work.room * work.nbytes, work.cache, slots
        )
        self._profile = WorkerProfile(slots=slots)
        self.runners: dict[int, SimRunner] = {}
        self._streams: dict[StreamId, End] = {}
        self._sent: deque[StreamId] = deque()
        self._line: End | None = None
        self._heartbeat_due = False
        self._backoff = 0.05
        self._count = 0
        self.no_room_until = -1.0
        """Until when no runner can be had, on this clock."""
        self.stuck_until = -1.0
        """Until when runners make nothing, on this clock."""
        self._connect()
        self.at(TICK * world.chance.random(), self._tick)

    def leave(self) -> None:
        """Hear that it is to leave in order."""
        self.apply(DrainRequested())

    def kill_runner(self) -> None:
        """Have user code take a runner's process along."""
        if runner := self._one_alive():
            runner.die()

    def lack_room(self) -> None:
        """Let no runner be had for a while, and perhaps one that there is have no thread more."""
        self.no_room_until = self.now + NO_ROOM * self.world.chance.random()
        if self.world.chance.random() < 0.5 and (runner := self._one_alive()):
            runner.lack_room()

    def _one_alive(self) -> SimRunner | None:
        alive = [runner for runner in self.runners.values() if not runner.over]
        return self.world.chance.choice(alive) if alive else None

    def apply(self, event: Event) -> None:
        """Let the core handle *event*, and perform its effects."""
        self._perform(self.core.handle(event, self.now))
        chance = self.world.chance
        while self._sent and not self.dead:
            stream = self._sent.popleft()
            if chance.random() < 0.3:
                self.at(0.2 * chance.random(), self._ask, stream)
            elif stream in self._streams:
                self._perform(self.core.handle(StreamWritable(stream), self.now))

    def _ask(self, stream: StreamId) -> None:
        if stream in self._streams:
            self.apply(StreamWritable(stream))

    def _tick(self) -> None:
        self.at(TICK, self._tick)
        self.apply(Tick())

    # --- the dispatcher ---

    def _connect(self) -> None:
        self._line = line = dial(self, "d")
        line.hear, line.lost = self._ordered, self._lost
        self._heartbeat_due = False
        line.send(self._heartbeat(first=True))
        self.apply(DispatcherConnected())

    def _lost(self) -> None:
        self._line = None
        self._backoff = min(2 * self._backoff, 1.0)
        self.at(self._backoff * self.world.chance.uniform(0.5, 1), self._connect)

    def _ordered(self, order: Assignment | SplitGrant | WorkerRefused) -> None:
        self._backoff = 0.05
        if isinstance(order, WorkerRefused):
            raise LawBroken(f"a worker is refused: {order.failure.error()}")
        self.apply(order)

    def _heartbeat(self, *, first: bool = False) -> Any:
        heartbeat = self.core.heartbeat()
        if first:
            object.__setattr__(heartbeat, "versions", VERSIONS)
            object.__setattr__(heartbeat, "profile", self._profile)
        return heartbeat

    def _heartbeat_now(self) -> None:
        if self._heartbeat_due and self._line is not None:
            self._heartbeat_due = False
            self._line.send(self._heartbeat())

    # --- readers ---

    def greet(self, end: End, message: Any) -> None:
        """Serve a new stream."""
        self._count += 1
        stream = StreamId(self._count)
        self._streams[stream] = end
        end.send(Here())
        end.hear = partial(self._read, stream)
        end.lost = partial(self._hung, stream)

    def _read(self, stream: StreamId, message: Subscribe | Ack) -> None:
        if isinstance(message, Subscribe):
            self.world.note(self.name, message) if self.world.lines else None
            self.apply(StreamOpened(stream, message))
        elif stream in self._streams:
            self.apply(StreamAcked(stream, message))

    def _hung(self, stream: StreamId) -> None:
        if self._streams.pop(stream, None) is not None:
            self.apply(StreamClosed(stream))

    def _goodbye(self, stream: StreamId) -> None:
        end = self._streams.get(stream)
        if end is not None:
            end.close()
            self._hung(stream)

    # --- effects ---

    def _perform(self, effects: list[Effect]) -> None:
        self.world.decided(self)
        for effect in self.cut(effects):
            if self.dead:
                return
            if self.world.lines and not isinstance(effect, HeartbeatDue):
                self.world.note(self.name, effect)
            self._do(effect)
        if self.doomed:
            self.end("in the middle of it")

    def _do(self, effect: Effect) -> None:
        match effect:
            case StartRunner(run):
                self.runners[run] = SimRunner(self, effect, self.work)
            case StopRunner(run):
                self.runners[run].over = True
                if not self.runners[run].kept:
                    del self.runners[run]
            case RetainFrames(run, frames):
                self.runners[run].keep(frames)
            case SendToRunner(order):
                self._tell(order)
            case RequestSplits(request):
                if self._line is not None:
                    self._line.send(request)
            case HeartbeatDue():
                if not self._heartbeat_due:
                    self._heartbeat_due = True
                    self.at(0.0, self._heartbeat_now)
            case LogError(text):
                if "bug" in text:
                    raise LawBroken(text)
            case DrainStarted():
                pass
            case Drained():
                self.at(0.2, self.end, "it has left")
            case SendFrame() | SendRecall() | SendAllSent() | SendEnd() | AbortStream():
                self._send(effect)

    def _tell(self, order: AddSplits | FreeFrames | SetWindow | Flush | PauseRun) -> None:
        runner = self.runners.get(order.run)
        if runner is None:
            return
        if not runner.over or isinstance(order, FreeFrames):
            runner.tell(order)
        if runner.kept and not runner.arena.frames:
            del self.runners[order.run]

    def check_memory(self) -> None:
        """Note that no memory is kept that no attempt needs."""
        attempts = self.core.attempts.values()
        needed = {run for run in self.runners for one in attempts if one.delivery.frames_of(run)}
        if stray := {run for run, one in self.runners.items() if one.kept} - needed:
            raise LawBroken(f"memory: frames of runs {stray} are kept for nobody")

    def _send(self, effect: SendFrame | SendRecall | SendAllSent | SendEnd | AbortStream) -> None:
        end = self._streams.get(effect.stream)
        if end is None:
            return
        match effect:
            case SendFrame(stream, header, made):
                if made.run not in self.runners:
                    raise LawBroken(f"memory: a frame of run {made.run} is sent, which is over")
                end.send((header, self.runners[made.run].arena.read(made), made.nbytes))
                self._sent.append(stream)
            case SendRecall(_, recall):
                end.send(recall)
            case SendAllSent(_, all_sent):
                end.send(all_sent)
            case SendEnd(stream, last):
                end.send(last)
                self.at(GOODBYE, self._goodbye, stream)
            case AbortStream(stream):
                end.close()
                self._hung(stream)
