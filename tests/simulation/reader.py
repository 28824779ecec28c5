"""A reader that shares its iteration with others, and its training loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock.errors import PenstockError, Superseded
from penstock.protocol.calls import OpenIterationReply, OpenIterationRequest
from penstock.protocol.control import ReaderView
from penstock.protocol.types import IterationId, ReaderId, TaskId
from penstock.reader.core.limits import ByteLimit, FrameLimit, TaskFrameLimit
from penstock.reader.core.state_machine import ReaderCore
from simulation.loop import Habits, Loop
from simulation.pipeline import Element
from simulation.training_process import TrainingProcess
from simulation.world import LawBroken, World


class Taken(Protocol):
    """Who knows what training loops were given."""

    def consume(
        self, session: str, reader: ReaderId | None, task: TaskId, number: int, element: Element
    ) -> None:
        """Note that a loop was given an element."""

    def comes_to_barrier(self, iteration: IterationId, session: str, number: int) -> None:
        """Note what a loop had when it began a save."""

    def is_acked(self, task: TaskId, number: int) -> bool:
        """Return whether a number is not given to this reader any more."""
        ...


@dataclass(frozen=True, slots=True)
class Spec:
    """What a reader opens, and how its loop goes on; *frames* bounds what it buffers, if not 0."""

    request: OpenIterationRequest
    habits: Habits
    frames: int


class SimReader(TrainingProcess):
    """One life of a training process that shares an iteration."""

    core: ReaderCore
    loop: Loop

    def __init__(
        self,
        world: World,
        name: str,
        session: str,
        spec: Spec,
        ledger: Taken,
        behind: Callable[[], int],
    ) -> None:
        self.spec, self.ledger, self.behind = spec, ledger, behind
        super().__init__(world, name, session, spec.request)

    @property
    def consumer(self) -> int | None:
        """Which consumer it is, of one order that goes to several: the next reader is the next."""
        stride = self.spec.request.parameters.stride
        return None if stride is None else int(self.name[1:]) % stride

    def begin(self, answer: OpenIterationReply) -> None:
        """See `TrainingProcess.begin`."""
        frames = self.spec.frames
        ordered = self.spec.request.parameters.ordered
        few = TaskFrameLimit if ordered else FrameLimit
        limit = few(frames) if frames else ByteLimit(1 << 20)
        trainer = self.spec.request.trainer or ""
        self.core = ReaderCore(
            answer.iteration,
            self.session,
            answer.reader_lease,
            limit,
            None,
            trainer,
            consumer=self.consumer,
            ordered=ordered,
        )
        # Tasks are few here, and reports take turns as if they were many.
        self.core._reports.in_turn = 1
        self.reads = True
        self.loop = Loop(self, self.spec.habits)

    def check_view(self, view: ReaderView) -> None:
        """See `TrainingProcess.check_view`."""
        if view.finished and view.reader == self.core.reader:
            for task, share in self.core.tasks.items():
                if any(not self.ledger.is_acked(task, number) for number in share.buffered):
                    raise LawBroken("law 10: a reader is told the end, and has something left")

    def sent_away(self, error: PenstockError) -> None:
        """Give up the iteration, for the saved state that it is of was restored again."""
        if not isinstance(error, Superseded):
            raise LawBroken(f"a reader is sent away: {error}")
        self.core.stop(self.now)
        self.end("superseded")

    # --- the loop ---

    def consume(self, task: TaskId, number: int, element: Element) -> None:
        """Note that the loop was given an element."""
        self.ledger.consume(self.session, self.core.reader, task, number, element)

    def comes_to_barrier(self) -> None:
        """Note that the loop begins a save."""
        number = self.core.save_state._next
        assert number is not None
        self.ledger.comes_to_barrier(self.core.iteration, self.session, number)

    def failed(self, error: PenstockError) -> None:
        """Note that the loop was told of something that went wrong: nothing does here."""
        raise LawBroken(f"a loop is told: {type(error).__name__}: {error}")
