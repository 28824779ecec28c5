"""A consumer of coordinated reads: a training process with an index, and its loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.errors import DatasetError, PenstockError, Superseded
from penstock.protocol.calls import OpenIterationReply, OpenIterationRequest
from penstock.protocol.control import ReaderView
from penstock.protocol.data import FrameHeader
from penstock.protocol.types import IterationId, TaskId
from penstock.reader.core.limits import MIN_WINDOW, ByteLimit, TaskFrameLimit
from penstock.reader.core.rounds import Consumer, RoundsCore
from penstock.reader.core.session_core import SessionCore
from simulation.pipeline import Element
from simulation.rounds_ledger import RoundsLedger
from simulation.rounds_loop import RoundsLoop
from simulation.rounds_plan import RoundHabits
from simulation.training_process import TrainingProcess
from simulation.world import LawBroken, World

BUDGET = 1 << 20


@dataclass(frozen=True, slots=True)
class ConsumerSpec:
    """Which consumer it is, what it opens, and how its loop goes on."""

    request: OpenIterationRequest
    habits: RoundHabits
    index: int
    stamp: int
    frames: int
    nbytes: int
    save: tuple[int, float]


class SimConsumer(TrainingProcess):
    """One life of a training process that reads in rounds."""

    core: SessionCore
    loop: RoundsLoop

    def __init__(
        self,
        world: World,
        name: str,
        session: str,
        spec: ConsumerSpec,
        ledger: RoundsLedger,
        start_round: Callable[[SimConsumer, IterationId], int | None],
        behind: Callable[[], int],
    ) -> None:
        self.spec, self.ledger, self.behind = spec, ledger, behind
        self.index = spec.index
        self.superseded = False
        self._start_round = start_round
        super().__init__(world, name, session, spec.request)

    def begin(self, answer: OpenIterationReply) -> None:
        """See `TrainingProcess.begin`."""
        spec, iteration = self.spec, answer.iteration
        count = spec.request.parameters.num_consumers
        assert count is not None
        self.start_round = self._start_round(self, iteration)
        consumer = Consumer(spec.index, count, self.start_round)
        limit = TaskFrameLimit(spec.frames) if spec.frames else ByteLimit(BUDGET)
        self.core = RoundsCore(iteration, self.session, limit, None, consumer, spec.stamp)
        self.reads = True
        self.ledger.begins(iteration, self.session, spec.index, self.start_round, spec.stamp)
        self.loop = RoundsLoop(self, spec.habits, spec.save)

    # --- the loop ---

    def take(self, number: int, frame: FrameHeader, element: Element) -> None:
        """Note that the loop was given its element of a round."""
        self.ledger.take(self.core.iteration, self.session, number, frame, element)

    def skips(self, number: int) -> None:
        """Note that the loop goes on with round *number*."""
        self.ledger.skips(self.core.iteration, self.session, number)

    def note_requeued(self) -> None:
        """Note that what operators had is fetched again, perhaps from another attempt."""
        self.ledger.requeues(self.core.iteration, self.session)

    def note_lost(self, text: str) -> None:
        """Note that the loop was told for whom it waits in vain."""
        self.ledger.is_told_of_lost(self.core.iteration, self.session, text)

    def comes_to_barrier(self) -> None:
        """Note that the loop begins a save."""
        self.world.stats["barriers"] += 1
        self.ledger.comes_to_barrier(self.core.iteration, self.session)

    def comes_to_end(self, number: int | None) -> None:
        """Note that the pass is over for the loop, and leave."""
        self.ledger.ends(self.core.iteration, self.session, number, None)
        self.leave()

    def failed(self, error: PenstockError) -> None:
        """Note that the loop was told of something that went wrong, and leave."""
        self.ledger.ends(self.core.iteration, self.session, self.loop.pulled, error)
        self.finished = True  # an error is an end: nobody reads this pass any more
        self.leave()

    # --- the laws ---

    def check_view(self, view: ReaderView) -> None:
        """See `TrainingProcess.check_view`."""
        self.ledger.hears(view)

    def check_arrival(self, frame: FrameHeader) -> None:
        """See `TrainingProcess.check_arrival`."""
        self.ledger.arrives(self.core.iteration, self.session, frame)
        self._check_memory(frame.task)

    def _check_memory(self, task: TaskId) -> None:
        spec, stream = self.spec, self.core.tasks.get(task)
        if stream is None:
            return
        if spec.frames:
            if len(stream.slices) > spec.frames:
                raise LawBroken(f"memory: {len(stream.slices)} elements of a task are buffered")
        elif stream.nbytes > max(BUDGET, MIN_WINDOW) + spec.nbytes:
            raise LawBroken(f"memory: {stream.nbytes} bytes of a task are buffered")

    def sent_away(self, error: PenstockError) -> None:
        """Give up, for another process is this consumer now, or asks for what is not there."""
        if isinstance(error, Superseded):
            self.superseded = True
        elif not isinstance(error, DatasetError) or not self.ledger.is_out_of_reach(
            self.core.iteration, self.session
        ):
            raise LawBroken(f"law 8: a consumer is sent away: {error}")
        self.core.stop(self.now)
        self.end(f"{type(error).__name__}: {error}")
