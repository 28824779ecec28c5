"""The durable record of coordinated reads: the log of rounds, its consumers, and their progress.

Facts are applied here and nothing is decided; see `rounds` for that. The log begins at the *floor*,
the first round that not all consumers have taken: what lies before it is only counted.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from penstock.protocol.rounds import Grouped, Remainder, RoundEntry
from penstock.protocol.types import ReaderId, TaskId

FIRST = -1
"""Stands for the task before all others, where the rotation begins."""

PATIENCE = 4
"""How many rounds consumers have in hand, at least, while a task is waited for."""


@dataclass(slots=True)
class ConsumerRecord:
    """The newest process of a consumer: it began with round *start*.

    All rounds below *taken* are known to be taken by that consumer, as far as that is written down.
    """

    reader: ReaderId
    stamp: int
    start: int
    taken: int


@dataclass(frozen=True, slots=True)
class Displaced:
    """A process in whose place another is, from round *start* on.

    The account contains the rounds below *taken*, which it was known to have taken then.
    """

    start: int
    taken: int


@dataclass(slots=True)
class GroupedTask:
    """How far a task is, in groups: *released* are in the log or before it, *settled* before it.

    Its groups begin at element *base*. *total* is how many elements there are, once all its groups
    are released.
    """

    index: int
    base: int = 0
    settled: int = 0
    released: int = 0
    total: int | None = None

    @property
    def done(self) -> bool:
        """Whether all consumers have taken all of it."""
        return self.total is not None and self.settled == self.released


@dataclass(frozen=True, slots=True)
class RoundsAccount:
    """Elements and rounds that were not taken exactly once.

    *left_out* elements were too few for a group, or *padding* filled it up. Consumers that joined
    again began with rounds that they had taken (*repeated*), or behind some that they had not
    (*missed*).
    """

    left_out: int = 0
    padding: int = 0
    repeated: int = 0
    missed: int = 0

    def plus(self, other: RoundsAccount) -> RoundsAccount:
        """Return the sums of both."""
        return RoundsAccount(*map(operator.add, rounds_of(self), rounds_of(other)))


rounds_of = attrgetter(*RoundsAccount.__slots__)
"""Returns the four counts of an account of rounds, in order."""


@dataclass(slots=True)
class RoundsRecord:
    """The log of rounds of an iteration, and its consumers.

    *turn* is the task of the last round that was released, *floor_turn* that of the last one below
    the floor, both as numbers of tasks within the iteration. *last* is where the pass ends; with
    *failed* that is because of this task.
    """

    consumers: int
    remainder: Remainder
    ordered: bool
    patience: int
    floor: int = 0
    turn: int = FIRST
    floor_turn: int = FIRST
    log: list[TaskId] = field(default_factory=list)
    planned: list[TaskId] = field(default_factory=list)
    """The tasks of the next rounds, where these were released before a restore."""
    tasks: dict[TaskId, GroupedTask] = field(default_factory=dict)
    members: dict[int, ConsumerRecord] = field(default_factory=dict)
    displaced: dict[str, Displaced] = field(default_factory=dict)
    """By sessions: those that may still say that they took more."""
    last: int | None = None
    failed: TaskId | None = None
    account: RoundsAccount = field(default_factory=RoundsAccount)

    @property
    def released(self) -> int:
        """The first round that is not released."""
        return self.floor + len(self.log)

    @property
    def is_closed(self) -> bool:
        """Whether it gets no more tasks than it has."""
        return self.ordered or self.last is not None

    def entries(self) -> list[RoundEntry]:
        """Return what the rounds from the floor on are made of."""
        groups = {name: task.settled for name, task in self.tasks.items()}
        out = []
        for name in self.log:
            out.append(RoundEntry(name, groups[name]))
            groups[name] += 1
        return out

    def grouped(self, name: TaskId) -> Grouped:
        """Return how the elements of a task are cut."""
        return Grouped(self.consumers, self.tasks[name].base, self.remainder)

    def element_floor(self, name: TaskId) -> int:
        """Return the element of a task below which all are settled."""
        task = self.tasks[name]
        if task.done and task.total is not None:
            return task.total
        return self.grouped(name).floor(task.settled)

    def index_of(self, reader: ReaderId) -> int | None:
        """Return which consumer *reader* is, unless another process is that now."""
        found = (index for index, member in self.members.items() if member.reader == reader)
        return next(found, None)

    # --- transitions ---

    def add_task(self, name: TaskId, index: int, base: int = 0) -> None:
        """Add a task whose groups begin at element *base*."""
        self.tasks[name] = GroupedTask(index, base)

    def join(
        self, index: int, reader: ReaderId, stamp: int, start: int, *, again: bool = False
    ) -> None:
        """Let *reader* be consumer *index* from round *start* on.

        The rounds that the consumer took stay recorded, without a change, until *reader* reports.
        With *again* that is the process that it was before, which knows best where it is.
        """
        before = self.members.get(index)
        taken = self.floor
        if before is not None:
            taken = max(taken, before.taken)
        if before is not None and not again:
            had = max(taken, before.start)  # what lies before it is in the account, or was taken
            known = RoundsAccount(repeated=max(0, had - start), missed=max(0, start - had))
            self.account = self.account.plus(known)
        self.members[index] = ConsumerRecord(reader, stamp, start, min(taken, start))

    def remove(self, reader: ReaderId, taken: int) -> None:
        """Record how far a consumer was that is removed."""
        index = self.index_of(reader)
        if index is not None:
            member = self.members[index]
            member.taken = max(member.taken, min(taken, self.released))

    def end(self, reader: ReaderId) -> None:
        """Record that a consumer took all rounds of the pass."""
        index = self.index_of(reader)
        if index is not None and self.last is not None:
            self.members[index].taken = self.last

    def correct(self, session: str, taken: int) -> None:
        """Count what a process had *taken* that is displaced, if that is more than was known."""
        before = self.displaced.get(session)
        if before is None or taken <= before.taken:
            return
        now = Displaced(before.start, taken)
        self.displaced[session] = now
        repeated = max(0, now.taken - now.start) - max(0, before.taken - now.start)
        missed = max(0, now.start - now.taken) - max(0, now.start - before.taken)
        self.account = self.account.plus(RoundsAccount(repeated=repeated, missed=missed))

    def advance(
        self, entries: Sequence[TaskId], floor: int, totals: Mapping[TaskId, int]
    ) -> list[TaskId]:
        """Append *entries* to the log, cut it at *floor*, and return the tasks of rounds cut off.

        Of the tasks in *totals* all groups are released now.
        """
        self.log.extend(entries)
        for name in entries:
            self.tasks[name].released += 1
        as_planned = self.planned[: len(entries)] == list(entries)[: len(self.planned)]
        self.planned = self.planned[len(entries) :] if as_planned else []
        for name, total in totals.items():
            self.tasks[name].total = total
        settled, self.log = self.log[: floor - self.floor], self.log[floor - self.floor :]
        for name in settled:
            self.tasks[name].settled += 1
        if entries:
            self.turn = self.tasks[entries[-1]].index
        if settled:
            self.floor_turn = self.tasks[settled[-1]].index
        self.floor = floor
        return settled

    def finish_task(self, name: TaskId) -> None:
        """Count the elements left out of a task that is done, or its padding."""
        task = self.tasks[name]
        if task.total is not None:
            beyond = self.grouped(name).floor(task.released) - task.total
            rest = RoundsAccount(left_out=max(0, -beyond), padding=max(0, beyond))
            self.account = self.account.plus(rest)
