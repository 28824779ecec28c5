"""Decides at which step all trainers of a group stop.

A trainer reports how many steps it has made, and the dispatcher allows it some more. It makes no
step beyond these before the next answer. So every trainer can still stop at the largest allowed
step, and no trainer waits for another in the middle of a collective operation. After a restart, the
dispatcher agrees on no step before each known trainer has reported its allowed steps or is given
up. A trainer that continues without an answer for too long is ignored until it waits again. It may
be beyond the agreed step: unless another trainer has stopped there, all stop at a later step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import assert_never

import msgspec

from penstock.errors import Refused
from penstock.protocol.calls import PreemptionReport, PreemptionVerdict

LEASE = 15.0
"""Seconds without a report after which a trainer is given up."""

ASIDE = 1.0
"""Seconds of steps that a trainer may be ahead of its report."""

LEAST_AHEAD = 2
"""Steps that it may be ahead in any case."""


class GroupFact(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A final decision for a *group*."""

    group: str


class TrainerKnown(GroupFact, frozen=True):
    """A trainer reports."""

    trainer: str


class TrainerGone(GroupFact, frozen=True):
    """A trainer has left, or is given up."""

    trainer: str


class Noticed(GroupFact, frozen=True):
    """A machine of the group is to be taken away."""


class Agreed(GroupFact, frozen=True):
    """All stop at *step*, and *fixed* says that one of them has."""

    step: int
    fixed: bool = False


class TrainerSaved(GroupFact, frozen=True):
    """A trainer has saved at the agreed step."""

    trainer: str


Fact = TrainerKnown | TrainerGone | Noticed | Agreed | TrainerSaved


@dataclass(slots=True)
class _Member:
    saved: bool = False
    heard_at: float | None = None
    """When it was heard of in this life of the dispatcher."""
    allowed: int = 0
    alone: bool = False
    """It continues without an answer, so *allowed* does not bound it."""


class _Group:
    """The trainers of one name."""

    def __init__(self) -> None:
        self.trainers: dict[str, _Member] = {}
        self.noticed = False
        self.agreed = 0
        self.fixed = False


class Agreements:
    """The agreements of groups of trainers. *keep* receives each fact, in order."""

    def __init__(self, known: Iterable[Fact], keep: Callable[[GroupFact], None]) -> None:
        self._groups: dict[str, _Group] = {}
        self._keep = keep
        self._began: float | None = None
        for fact in known:
            self._apply(fact)

    def facts(self) -> list[Fact]:
        """Return the facts that a restart needs."""
        out: list[Fact] = []
        for name, group in self._groups.items():
            out += [TrainerKnown(name, trainer) for trainer in group.trainers]
            out += [Noticed(name)] if group.noticed else []
            out += [Agreed(name, group.agreed, group.fixed)] if group.agreed else []
            out += [TrainerSaved(name, t) for t, one in group.trainers.items() if one.saved]
        return out

    def report(self, said: PreemptionReport, now: float) -> PreemptionVerdict:
        """Return what a trainer is told that has *said* this.

        Raises:
            Refused: when its group has agreed on a step that it is beyond.
        """
        self._began = now if self._began is None else self._began
        group = self._group(said, now)
        if said.leaving:
            if said.trainer in group.trainers:
                self._commit(TrainerGone(said.group, said.trainer))
            return PreemptionVerdict(
                said.steps, noticed=group.noticed, agreed=group.agreed, all_saved=True
            )
        if said.trainer not in group.trainers:
            self._commit(TrainerKnown(said.group, said.trainer))
        mine = group.trainers[said.trainer]
        mine.heard_at, mine.alone = now, said.alone
        # A restarted dispatcher does not know the steps that were allowed before.
        mine.allowed = max(mine.allowed, said.allowed)
        if (group.agreed or said.saved) and not mine.saved:
            self._keep_to(group, said)
        if said.noticed and not group.noticed:
            self._commit(Noticed(said.group))
        if said.saved and not mine.saved:
            self._commit(TrainerSaved(said.group, said.trainer))
        if not group.noticed:
            ahead = max(LEAST_AHEAD, int(said.rate * ASIDE))
            mine.allowed = max(mine.allowed, said.steps + ahead)
        elif not group.agreed:
            mine.allowed = max(mine.allowed, said.steps + LEAST_AHEAD)
            self._agree(said.group, group)
        return self._verdict(group, mine)

    def _group(self, said: PreemptionReport, now: float) -> _Group:
        """Return the group of a trainer, without those that are given up."""
        group = self._groups.get(said.group)
        if group is not None:
            for name, one in list(group.trainers.items()):
                since = self._began if one.heard_at is None else one.heard_at
                if name != said.trainer and now > (since or 0.0) + LEASE:
                    self._commit(TrainerGone(said.group, name))
        return self._groups.setdefault(said.group, _Group())

    def _keep_to(self, group: _Group, said: PreemptionReport) -> None:
        """Have a trainer stop where was agreed, or all stop later if it is beyond that."""
        if group.fixed:
            if said.steps > group.agreed:
                raise Refused(
                    f"trainers of {said.group!r} have stopped at step {group.agreed}, and "
                    f"{said.trainer} has made {said.steps}: it continued while the dispatcher, or "
                    "the network to it, failed for long"
                )
        elif said.saved:
            if said.steps != group.agreed:  # it heard of no later step
                self._commit(Agreed(said.group, said.steps, fixed=True))
        elif said.alone:
            pass  # where it will be when it hears of this is not known
        elif max(said.steps, said.allowed) > group.agreed:
            # It is beyond the step, or is making one that ends there.
            self._commit(Agreed(said.group, max(said.steps + LEAST_AHEAD, said.allowed)))
        elif said.steps == group.agreed:
            self._commit(Agreed(said.group, group.agreed, fixed=True))

    def _agree(self, name: str, group: _Group) -> None:
        """Agree, once all have been heard of since a restart, and wait for leave."""
        trainers = group.trainers.values()
        if all(one.heard_at is not None and not one.alone for one in trainers):
            self._commit(Agreed(name, max(one.allowed for one in trainers)))

    def _verdict(self, group: _Group, mine: _Member) -> PreemptionVerdict:
        if not group.noticed:
            return PreemptionVerdict(mine.allowed)
        saved = bool(group.agreed) and all(one.saved for one in group.trainers.values())
        return PreemptionVerdict(
            group.agreed or mine.allowed, noticed=True, agreed=group.agreed, all_saved=saved
        )

    def _commit(self, fact: Fact) -> None:
        self._apply(fact)
        self._keep(fact)

    def _apply(self, fact: Fact) -> None:
        group = self._groups.setdefault(fact.group, _Group())
        match fact:
            case TrainerKnown():
                group.trainers[fact.trainer] = _Member()
            case TrainerGone():
                group.trainers.pop(fact.trainer, None)
                if not group.trainers:
                    del self._groups[fact.group]  # later trainers begin again
            case Noticed():
                group.noticed = True
            case Agreed():
                group.agreed, group.fixed = fact.step, fact.fixed
            case TrainerSaved():
                group.fixed = True
                if (one := group.trainers.get(fact.trainer)) is not None:
                    one.saved = True
            case _:
                assert_never(fact)
