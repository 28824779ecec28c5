"""One task as a consumer reads it: its buffered elements, by group."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.rounds import GroupsHeld
from penstock.protocol.types import TaskId
from penstock.reader.core.task_stream import FrameSlice, TaskStream


class GroupBuffer:
    """The buffered elements of one task that are not handed out, and its stream."""

    def __init__(self, task: TaskId) -> None:
        self.stream = TaskStream(task)
        self.released = 0
        """How many of its groups are rounds."""
        self.refetched = False
        """Whether released groups came again, which may be needed or not."""
        self._next = 0
        """The group that comes next on the stream; all that is needed of those before is here."""
        self._groups: dict[int, FrameSlice] = {}

    def __contains__(self, group: int) -> bool:
        return group in self._groups

    def get(self, group: int) -> FrameSlice | None:
        """Return the element of *group*, if it is here."""
        return self._groups.get(group)

    @property
    def held(self) -> GroupsHeld:
        """The report of this task."""
        return GroupsHeld(self.stream.task, self.stream.attempt, self._next)

    def put(self, piece: FrameSlice) -> bool:
        """Keep an element, if it is needed; return whether more is held than before."""
        group = piece.frame.group
        self.refetched = self.refetched or group < self.released
        if group >= self._next:
            known = self._groups.setdefault(group, piece)
            self.stream.slices.append(known)
            self.stream.nbytes += known.nbytes
        more = group + 1 > self._next
        self._next = max(self._next, group + 1)
        return more

    def discard(self, group: int) -> None:
        """Drop the element of *group*, if it is here: its bytes are free."""
        piece = self._groups.pop(group, None)
        if piece is not None and piece in self.stream.slices:
            self.stream.deliver(piece)

    def let_go(self) -> None:
        """Drop all elements."""
        self._groups.clear()
        self.stream.clear()

    def keep(self, wanted: Iterable[int]) -> None:
        """Drop released groups that are not *wanted*: they were handed out, or are skipped."""
        needed, self.refetched = set(wanted), False
        for group in [g for g in self._groups if g < self.released and g not in needed]:
            self.discard(group)

    def renew(self) -> None:
        """Drop groups that are not released: another attempt makes all of these groups again."""
        for group in [g for g in self._groups if g >= self.released]:
            self.discard(group)

    def seek(self, wanted: Iterable[int]) -> int:
        """Return the first group to be sent: of released groups those *wanted*, then all others.

        The worker sends buffered groups again only if they follow a gap. Until then they use no
        room, because the groups that fill the gap may need it.
        """
        gaps = (group for group in wanted if group not in self._groups)
        first = min(gaps, default=self.released)
        if first >= self.released:
            first = self.released
            while first in self._groups:
                first += 1
        self._next = first
        before = [piece for piece in self.stream.slices if piece.frame.group < first]
        self.stream.slices, self.stream.nbytes = before, sum(piece.nbytes for piece in before)
        return first

    def missing(self, wanted: Iterable[int]) -> bool:
        """Return whether the stream, as it continues, leaves out some group of *wanted*."""
        return any(group < self._next and group not in self._groups for group in wanted)

    def settle(self, floor: int) -> None:
        """Pass on that all consumers have taken all elements below *floor*."""
        if floor > self.stream.acked.floor:
            self.stream.acked = AckedSet(floor)
            self.stream.unsent_acks = RangeSet(((0, floor),))
