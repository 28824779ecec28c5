"""Coordinated reads: which groups become rounds, which rounds are settled, and where the pass ends.

A group is released when all consumers have their elements of it, made by the task's newest
attempt. Tasks take turns. One whose next group is not complete loses its turn while consumers have
few rounds in hand; if they have enough, it is waited for. After a restore the first rounds are
those that were released before, so operators behind readers continue exactly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from penstock.protocol.control import AttemptProgress
from penstock.protocol.ranges import AckedSet
from penstock.protocol.types import IterationId, TaskId
from penstock_dispatcher.core import consumers
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.facts import RoundsAdvanced, TaskDone
from penstock_dispatcher.core.records import IterationRecord
from penstock_dispatcher.core.rounds_record import RoundsRecord
from penstock_dispatcher.core.soft_state import ReaderLiveness

MOST_IN_HAND = 256
"""The most rounds that are released and not handed out by all: each view lists them."""


def advance(
    ctx: DecisionContext, name: IterationId, iteration: IterationRecord, now: float
) -> None:
    """Commit what follows from what consumers and workers reported."""
    rounds = iteration.rounds
    if rounds is None or iteration.finished:
        return
    least = min(consumers.taken(ctx, rounds, index) for index in range(rounds.consumers))
    # What operators behind a reader have is in nobody's hand: they may need more to go on.
    handed = min(consumers.handed(ctx, iteration, index) for index in range(rounds.consumers))
    walk = _Walk(ctx, name, iteration, rounds, now)
    end = walk.run(rounds.released - handed) if rounds.last is None else None
    last, failed = rounds.last, rounds.failed
    if end is not None:
        last, failed = rounds.released + len(walk.entries), end.failed
    totals = walk.totals()
    if walk.entries or totals or last != rounds.last or least != rounds.floor:
        ctx.commit(RoundsAdvanced(name, tuple(walk.entries), least, totals, last, failed))
        _finish_tasks(ctx, iteration, rounds)
        if last is not None:
            ctx.dirty[name] = None


def on_report(
    ctx: DecisionContext, name: IterationId, iteration: IterationRecord, now: float
) -> None:
    """Handle what a consumer reported."""
    advance(ctx, name, iteration, now)
    if consumers.waited(ctx, name, now).lost:
        consumers.note_lost(ctx, name, iteration, now)


def is_over(iteration: IterationRecord) -> bool:
    """Return whether all consumers have taken all rounds, and no task failed."""
    rounds = iteration.rounds
    if rounds is None or rounds.failed is not None:
        return False
    return rounds.floor == rounds.last


def group_count(
    iteration: IterationRecord, name: TaskId, progress: AttemptProgress | None
) -> int | None:
    """Return how many groups of a task there will be; None as long as that is not known.

    Of one that failed that is how many are complete: nothing fills up what failed.
    """
    rounds, task = iteration.rounds, iteration.tasks[name]
    if rounds is None or progress is None or progress.attempt != task.attempt:
        return None
    grouped = rounds.grouped(name)
    if task.failure is not None:
        ended = progress.ended or progress.failure is not None or bool(progress.lacking)
        return grouped.count(progress.head, ended=False) if ended else None
    return grouped.count(progress.head, ended=True) if progress.ended else None


def _finish_tasks(ctx: DecisionContext, iteration: IterationRecord, rounds: RoundsRecord) -> None:
    for name, grouped in rounds.tasks.items():
        if grouped.done and not iteration.tasks[name].done:
            acked, cost = AckedSet(rounds.element_floor(name)), ctx.totals_of(name)
            # Its worker may not have reported since a restart.
            ctx.task_over(TaskDone(name, acked, replace(cost, head=max(cost.head, acked.floor))))


@dataclass(frozen=True, slots=True)
class _End:
    """No round follows, because of *failed* or as all is released."""

    failed: TaskId | None = None


class _Turn(Enum):
    WAITS = auto()


@dataclass(slots=True)
class _Walk:
    """Goes round the tasks, and notes the *entries* that can be released."""

    ctx: DecisionContext
    name: IterationId
    iteration: IterationRecord
    rounds: RoundsRecord
    now: float
    entries: list[TaskId] = field(default_factory=list)
    _released: dict[TaskId, int] = field(init=False)
    _order: list[TaskId] = field(init=False)
    _counts: dict[TaskId, int | None] = field(init=False)
    _complete: dict[TaskId, int] = field(default_factory=dict)
    _holders: list[ReaderLiveness] | None = field(init=False)
    _lacking: dict[TaskId, int] = field(init=False)
    _turn: int = field(init=False)
    _planned: deque[TaskId] = field(init=False)

    def __post_init__(self) -> None:
        known, progress = self.rounds.tasks, self.ctx.soft_state.progress
        self._released = {name: task.released for name, task in known.items()}
        self._order = sorted(known, key=lambda name: known[name].index)
        self._counts = {
            name: task.released
            if task.total is not None
            else group_count(self.iteration, name, progress.get(name))
            for name, task in known.items()
        }
        self._holders = consumers.holders(self.ctx, self.iteration, self.now)
        self._lacking = consumers.waited(self.ctx, self.name, self.now).lacking
        self._turn, self._planned = self.rounds.turn, deque(self.rounds.planned)

    def run(self, in_hand: int) -> _End | None:
        """Take turns as long as there is something to release; return the end if it is reached."""
        while in_hand < MOST_IN_HAND:
            step = self._next(in_hand)
            if isinstance(step, _End):
                return step
            if isinstance(step, _Turn):
                return None
            self.entries.append(step)
            self._released[step] += 1
            self._turn = self.rounds.tasks[step].index
            in_hand += 1
        return None

    def totals(self) -> Mapping[TaskId, int]:
        """Return how many elements each task has of which all groups are released now."""
        return {
            name: self.ctx.soft_state.progress[name].head
            for name, task in self.rounds.tasks.items()
            if task.total is None
            and self._exhausted(name)
            and self.iteration.tasks[name].failure is None
        }

    def _next(self, in_hand: int) -> TaskId | _End | _Turn:
        if self._planned:
            name = self._planned[0]
            if self._is_complete(name):
                return self._planned.popleft()
            if not self._exhausted(name):
                return _Turn.WAITS
            self._planned.clear()  # there is less of it than before the restore
        waiting = not self._order
        for name in self._rotation():
            if self._exhausted(name):
                if self.iteration.tasks[name].failure is not None:
                    return _End(name)
                continue
            if self._is_complete(name):
                return name
            if in_hand >= self.rounds.patience:
                return _Turn.WAITS
            waiting = True
        return _Turn.WAITS if waiting else _End()

    def _rotation(self) -> Iterator[TaskId]:
        after = [name for name in self._order if self.rounds.tasks[name].index > self._turn]
        yield from after
        yield from self._order[: len(self._order) - len(after)]

    def _exhausted(self, name: TaskId) -> bool:
        count = self._counts[name]
        return count is not None and self._released[name] >= count

    def _is_complete(self, name: TaskId) -> bool:
        """Return whether all consumers have the next group of a task."""
        if self._holders is None:
            return False
        need, attempt = self._released[name] + 1, self.iteration.tasks[name].attempt
        if name not in self._complete:
            # Most reports complete nothing: whoever lacked it last is asked first.
            lacking = self._lacking.get(name, 0)
            if _groups(self._holders[lacking], name, attempt) < need:
                return False
            groups = [_groups(holder, name, attempt) for holder in self._holders]
            self._complete[name] = min(groups)
            self._lacking[name] = groups.index(min(groups))
        return self._complete[name] >= need


def _groups(holder: ReaderLiveness, name: TaskId, attempt: int) -> int:
    held = holder.held.get(name)
    return held.groups if held is not None and held.attempt == attempt else 0
