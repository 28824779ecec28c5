"""The interface of the core that decides for a session: `ReaderCore` or `RoundsCore`."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import DatasetError
from penstock.reader.core.replay import Replay
from penstock.reader.core.task_stream import FrameElements, TaskStream, clear

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.protocol.control import ReaderHeartbeat, ReaderView, SaveResult
    from penstock.protocol.data import AllSent, FrameHeader, Recall, StreamEnd
    from penstock.protocol.ranges import RangeSet
    from penstock.protocol.types import IterationId, ReaderId, TaskId
    from penstock.reader.core.ack_collector import AckCollector
    from penstock.reader.core.effects import ReaderEffect
    from penstock.reader.core.membership import Membership
    from penstock.reader.core.reachability import Reachability
    from penstock.reader.core.save_barrier import SaveState
    from penstock.reader.core.vicinity import Vicinity


class NoElement(Enum):
    """Why there is nothing for the loop."""

    WAIT = "nothing is here now"
    FLUSH = "nothing more comes before operators use up what they have"
    END = "the pass is over"


class Slice(Protocol):
    """Elements that are here, numbered from *start* to *stop*."""

    @property
    def load(self) -> FrameElements:
        """The object that makes the elements."""

    @property
    def start(self) -> int:
        """The number of the first element."""

    @property
    def stop(self) -> int:
        """The number after that of the last element."""


class MemberCore:
    """The base of every core: its membership at the dispatcher, and effects to perform."""

    membership: Membership
    _effects: list[ReaderEffect]

    @property
    def reader(self) -> ReaderId | None:
        """The id that the dispatcher gave."""
        return self.membership.reader

    @property
    def pressing(self) -> bool:
        """Whether there are effects to perform."""
        return bool(self._effects)

    def take_effects(self) -> list[ReaderEffect]:
        """Return the effects to perform, in this order, and forget them."""
        orders, self._effects[:] = self._effects.copy(), []
        return orders


class WithoutRounds(MemberCore):
    """The answers of a core that reads no rounds."""

    waits_for_work = False
    on_consumers = False
    round, filler = 0, False
    tasks: Mapping[TaskId, TaskStream]

    def let_go(self) -> None:
        """See `SessionCore.let_go`."""
        clear(self.tasks.values())

    def locate(self, now: float) -> int | NoElement:  # noqa: ARG002
        """Return 0: there are no rounds."""
        return 0

    def skip_to(self, number: int, now: float) -> None:  # noqa: ARG002
        """Refuse the call: there are no rounds.

        Raises:
            DatasetError: always.
        """
        raise DatasetError(f"skip_to({number}) is of coordinated reads, which have rounds")


class Unshared(MemberCore):
    """The answers of a core whose elements are for this reader alone."""

    def __init__(self) -> None:
        self.replay = Replay()
        """Empty, because the workers send the elements again in their order without a request."""

    def on_recall(self, recall: Recall, now: float) -> None:
        """Ignore the recall: no other reader can use this reader's elements."""

    def on_all_sent(self, told: AllSent, now: float) -> None:
        """Ignore the message: other messages determine the next element."""


class SessionCore(Protocol):
    """One training loop's end of an iteration. `ReaderCore` explains each method."""

    iteration: IterationId
    membership: Membership
    save_state: SaveState
    acks: AckCollector
    waiting_for: str
    on_readers: bool
    on_consumers: bool
    held_by: str
    reachability: Reachability
    vicinity: Vicinity
    replay: Replay

    @property
    def finished(self) -> bool:
        """Whether everything is acked and nothing more will come."""

    @property
    def waits_for_work(self) -> bool:
        """Whether views say that the loop waits for work that may take any time."""

    @property
    def tasks(self) -> Mapping[TaskId, TaskStream]:
        """The streams of the tasks that are read."""

    @property
    def reader(self) -> ReaderId | None:
        """The id that the dispatcher gave."""

    @property
    def lease_until(self) -> float:
        """The time until which elements may be handed out."""

    @property
    def ready(self) -> bool:
        """Whether elements are here that may be handed out."""

    @property
    def owed(self) -> int:
        """How many acked elements may be known to this reader only; any thread may ask."""

    @property
    def pressing(self) -> bool:
        """Whether there are effects to perform."""

    @property
    def round(self) -> int:
        """The first round that the loop has not had; 0 if there are no rounds."""

    @property
    def skipped(self) -> int:
        """How many elements of its own this reader left out."""

    @property
    def filler(self) -> bool:
        """Whether the newest element delivered fills a group that was too short."""

    def next_slice(self, now: float, limit: int | None = None) -> Slice | NoElement:
        """Return the next elements of one task, at most *limit*, or why there are none."""

    def look(self, now: float) -> bool | NoElement:
        """Return whether `next_slice` has elements, or why it has none."""

    def locate(self, now: float) -> int | NoElement:
        """Return `round`, or why it is not known yet."""

    def permit(self, now: float) -> bool | NoElement:
        """Return True if elements may be handed out, else that the loop has to wait."""

    def deliver(self, piece: Any, now: float, /) -> bool:
        """Mark *piece*, from `next_slice`, delivered; return False if it must not be used."""

    def loop_waiting(self) -> None:
        """Note that the loop asks for more."""

    def loop_running(self, now: float) -> None:
        """Note that the loop got an element, or stopped waiting."""

    def save(
        self, label: str, timeout: float, now: float, *, without_missing: bool = False
    ) -> SaveResult | None:
        """Return the result of a save; stop at its barrier first, unless already stopped there."""

    def requeue(self, tags: RangeSet, now: float) -> None:
        """Requeue the elements with *tags*: the outermost iterator dropped them."""

    def skip_to(self, number: int, now: float) -> None:
        """Hand out no round below *number*."""

    def leave(self, now: float) -> None:
        """Deliver no more, and tell the dispatcher."""

    def let_go(self) -> None:
        """Drop all elements when the session is over: frames may lie in a worker's memory."""

    def stop(self, now: float) -> None:
        """Deliver no more."""

    def heartbeat(self, now: float) -> ReaderHeartbeat:
        """Return the heartbeat that is being sent now."""

    def on_view(self, view: ReaderView, now: float) -> None:
        """Take over what the dispatcher says."""

    def on_answered(self, task: TaskId, subscription: int, now: float) -> None:
        """Note that a worker answered on a stream."""

    def on_frame(self, frame: FrameHeader, load: FrameElements, nbytes: int, now: float) -> None:
        """Keep the new elements of a frame."""

    def on_recall(self, recall: Recall, now: float) -> None:
        """Handle a worker's request to requeue."""

    def on_all_sent(self, told: AllSent, now: float) -> None:
        """Note that a task has nothing left to wait for."""

    def on_stream_ended(self, subscription: int, end: StreamEnd, now: float) -> None:
        """Note that nothing more comes of this attempt."""

    def on_stream_broken(self, task: TaskId, subscription: int, why: str, now: float) -> None:
        """Note that a stream broke."""

    def on_tick(self, now: float) -> None:
        """Do what time has made due."""

    def due(self, now: float) -> float:
        """Return when `on_tick` should be called next, if nothing else happens."""

    def take_effects(self) -> list[ReaderEffect]:
        """Return the effects to perform, in this order, and forget them."""
