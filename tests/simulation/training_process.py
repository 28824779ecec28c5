"""A training process's body: the real core of its reader, on lines of virtual time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeAlias

from penstock.errors import PenstockError
from penstock.protocol.calls import OpenIterationReply, OpenIterationRequest
from penstock.protocol.control import ReaderView
from penstock.protocol.data import Ack, AllSent, FrameHeader, Recall, StreamEnd
from penstock.protocol.types import Failure, TaskId
from penstock.reader.core.effects import (
    AskWorker,
    CloseTaskStream,
    OpenTaskStream,
    ReaderEffect,
    SendAck,
    SendHeartbeat,
    TellLog,
)
from penstock.reader.core.session_core import SessionCore
from simulation.lines import End, dial
from simulation.pipeline import Element
from simulation.worker import Here
from simulation.world import LawBroken, Process, World

Reply: TypeAlias = (
    tuple[FrameHeader, tuple[Element, ...], int] | Recall | AllSent | StreamEnd | Here
)

SILENCE = 5.0
FAREWELL = 2.0


class WaitingLoop(Protocol):
    """A training loop, as its process knows it."""

    def poke(self) -> None:
        """Look whether there is something for a loop that waits."""


class TrainingProcess(Process):
    """One life of a training process, which opens an iteration and reads it."""

    core: SessionCore
    loop: WaitingLoop

    def __init__(
        self, world: World, name: str, session: str, request: OpenIterationRequest
    ) -> None:
        super().__init__(world, name)
        self.session, self.request = session, request
        self.reads = self.finished = False
        """Whether it has an iteration to read; whether it read it to its end."""
        self._line: End | None = None
        self._streams: dict[TaskId, End] = {}
        self._backoff = 0.05
        self._heartbeat_soon = False
        self._heard_at = 0.0
        self._due_at = float("inf")
        self._open()

    def begin(self, answer: OpenIterationReply) -> None:
        """Make `core` and `loop`."""
        raise NotImplementedError

    def sent_away(self, error: PenstockError) -> None:
        """Handle that the dispatcher refuses this reader."""
        raise NotImplementedError

    def check_view(self, view: ReaderView) -> None:
        """Hold what the dispatcher says against the laws."""

    def check_arrival(self, frame: FrameHeader) -> None:
        """Hold what is here against the laws: *frame* has come."""

    # --- opening ---

    def _open(self) -> None:
        line = dial(self, "d")
        line.hear, line.lost = partial(self._opened, line), self._try_again
        line.send(self.request)

    def _try_again(self) -> None:
        self.at(self.world.chance.uniform(0.1, 1), self._open)

    def _opened(self, line: End, answer: OpenIterationReply | Failure) -> None:
        line.lost = lambda: None
        line.close()
        if isinstance(answer, Failure):
            if not answer.error().retryable:
                raise LawBroken(f"a reader may not open: {answer.error()}")
            self._try_again()
            return
        self.begin(answer)
        self._heartbeat_every = answer.heartbeat_interval
        self._connect()
        self._regular_heartbeat()
        self.follow_up()

    # --- the loop ---

    def leave(self) -> None:
        """Let go: the pass is over, or the loop ends before."""
        self.world.note(self.session, "leaves")
        self.finished = self.finished or self.core.finished
        self.core.leave(self.now)
        self.follow_up()
        if self.core.membership.left:
            self.end("it had no name")
        else:
            self.at(FAREWELL, self.end, "nobody said good-bye")

    def follow_up(self) -> None:
        """Perform the effects of the core, and wake it when something is due."""
        if self.dead:
            return
        if self.core.pressing:
            for effect in self.cut(self.core.take_effects()):
                self._perform(effect)
            if self.doomed:
                self.end("in the middle of it")
                return
        now = self.now
        due = max(self.core.due(now), now + 0.02)
        if due < self._due_at - 1e-9:
            self._due_at = due
            self.at((due - now) / self.world.rates[self.name], self._tick, due)

    def _tick(self, due: float) -> None:
        if due == self._due_at:
            self._due_at = float("inf")
            self.core.on_tick(self.now)
            self.loop.poke()
            self.follow_up()

    def _apply(self, change: Callable[..., None], *args: Any) -> None:
        change(*args, self.now)
        self.loop.poke()
        self.follow_up()

    # --- the dispatcher ---

    def _connect(self) -> None:
        self._heard_at = self.now
        self._line = line = dial(self, "d")
        line.hear, line.lost = self._viewed, self._lost
        self._heartbeat()

    def _lost(self) -> None:
        self._line = None
        self._backoff = min(2 * self._backoff, 1.0)
        self.at(self._backoff, self._connect)

    def _regular_heartbeat(self) -> None:
        self.at(
            self._heartbeat_every * self.world.chance.uniform(0.9, 1.1), self._regular_heartbeat
        )
        if self._line is not None and self.now > self._heard_at + SILENCE:
            self._line.close()
            self._lost()
        else:
            self._heartbeat()

    def _heartbeat(self) -> None:
        self._heartbeat_soon = False
        if self._line is not None:
            self._line.send(self.core.heartbeat(self.now))

    def _viewed(self, view: ReaderView | Failure) -> None:
        if isinstance(view, Failure):
            self.sent_away(view.error())
            return
        self._heard_at, self._backoff = self.now, 0.05
        self.check_view(view)
        self._apply(self.core.on_view, view)
        if self.core.membership.left and not self.dead:
            self.end("it has left")

    # --- workers ---

    def _perform(self, effect: ReaderEffect) -> None:
        match effect:
            case SendHeartbeat():
                if not self._heartbeat_soon:
                    self._heartbeat_soon = True
                    self.at(0.0, self._heartbeat)
            case OpenTaskStream(task, worker, request):
                self._close(task)
                if self.core.membership.leaving:
                    return
                self._streams[task] = end = dial(self, worker)
                if wait := self.world.never_up(self.name, worker):
                    self.at(wait, end.give_up)
                end.hear = partial(self._replied, task, request.subscription)
                end.lost = partial(self._broken, task, request.subscription)
                end.send(request)
            case CloseTaskStream(task):
                self._close(task)
            case SendAck(task, ack):
                self._say(task, ack)
            case TellLog(line):
                self.world.note(self.name, line)
            case AskWorker():
                pass  # lines break by themselves here

    def _say(self, task: TaskId, ack: Ack) -> None:
        if task in self._streams:
            self._streams[task].send(ack)

    def _close(self, task: TaskId) -> None:
        if (end := self._streams.pop(task, None)) is None:
            return
        if self.world.chance.random() < 0.3:
            self.at(0.1 * self.world.chance.random(), end.close)  # what came is still looked at
        else:
            end.close()

    def _replied(self, task: TaskId, subscription: int, reply: Reply) -> None:
        match reply:
            case Here():
                self._apply(self.core.on_answered, task, subscription)
            case Recall():
                self._apply(self.core.on_recall, reply)
            case AllSent():
                self._apply(self.core.on_all_sent, reply)
            case StreamEnd():
                self._apply(self.core.on_stream_ended, subscription, reply)
            case (frame, load, nbytes):
                self.check_arrival(frame)
                self._apply(self.core.on_frame, frame, load, nbytes)

    def _broken(self, task: TaskId, subscription: int) -> None:
        self._apply(self.core.on_stream_broken, task, subscription, "it broke")
