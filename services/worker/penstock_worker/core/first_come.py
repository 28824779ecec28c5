"""Each element goes to the first reader that has room for it.

A frame is kept until all its numbers are acked; then its memory in the arena is freed, once. When a
reader leaves or expires, its unacked elements go to other readers. This is the usual policy; see
`policy_of` for the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.protocol.control import TaskAssignment
from penstock.protocol.data import Subscribe
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.types import ReaderId
from penstock_worker.core.delivery_policy import DeliveryPolicy
from penstock_worker.core.events import Effect
from penstock_worker.core.frame_buffer import BufferedFrame
from penstock_worker.core.ownership import Ownership
from penstock_worker.core.round_groups import RoundGroups
from penstock_worker.core.shared_cache import SharedCache
from penstock_worker.core.sharing_readers import Sender, SharingReaders, free
from penstock_worker.core.strided import Strided
from penstock_worker.runner.messages import FrameReady


class FirstCome(DeliveryPolicy[SharingReaders]):
    """See `DeliveryPolicy`, and `Ownership` for which reader has which number."""

    def __init__(self, assignment: TaskAssignment, sender: Sender) -> None:
        super().__init__(max(assignment.checkpoint.number, assignment.acked.floor), sender)
        self.ownership = Ownership(self.head, assignment.acked, assignment.unacked)
        self._all = SharingReaders(self.ownership, self.frames, sender, ordered=assignment.ordered)
        self._groups = (self._all,)

    @property
    def groups(self) -> Iterable[SharingReaders]:
        """All readers are one group."""
        return self._groups

    @property
    def acked(self) -> AckedSet:
        """The elements that readers acked."""
        return self.ownership.acked

    def add(self, frame: FrameReady, start: int, stop: int) -> bool:
        """Add *frame* for its numbers from *start* to *stop*; return False if none is needed."""
        numbers = self.ownership.produce(start, stop)
        self.head = self.ownership.head
        if numbers:
            self.frames.put(BufferedFrame(start, stop, frame))
        return bool(numbers)

    def send_ready(self, out: list[Effect]) -> bool:
        """Send frames; return whether nothing is left to send."""
        nothing_left = self._all.send_ready(out, ended=self.total is not None)
        if self._has_all(self._all) and not self.done:  # its last acks need not wait for more
            self._all.tell_all_sent(out)
        return nothing_left

    def _join(self, _request: Subscribe) -> SharingReaders:
        return self._all

    def _group(self, _reader: ReaderId) -> SharingReaders:
        return self._all

    def _ack(self, numbers: RangeSet, _groups: Iterable[SharingReaders], out: list[Effect]) -> None:
        if new := self._all.ack(numbers):
            free(self.frames.release(new, self.ownership.acked), out)


def policy_of(assignment: TaskAssignment, sender: Sender) -> DeliveryPolicy[Any]:
    """Return the policy of an attempt."""
    if assignment.grouped is not None:
        return RoundGroups(assignment, assignment.grouped, sender)
    if assignment.cached is not None:
        return SharedCache(assignment, assignment.cached, sender)
    if assignment.stride is not None:
        return Strided(assignment, assignment.stride, sender)
    return FirstCome(assignment, sender)
