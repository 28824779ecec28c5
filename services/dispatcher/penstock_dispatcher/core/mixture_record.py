"""A mixture whose weights change while it is read: recorded changes, and the stages they give.

A mixture has its own stages. A change replaces all that was planned from its turn on, also in later
passes, which begin with the newest weights. So the recorded changes and the definition give the
source of each turn, whoever asks, and whenever.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from operator import attrgetter

from penstock.protocol.definition import ENDLESS, MixtureOutline
from penstock.protocol.mixture import WeightStage, changed
from penstock.protocol.turns import Turns, turns_of
from penstock_dispatcher.core.fact_values import WeightChange


@dataclass(frozen=True, slots=True)
class MixtureRecord:
    """A mixture as a split provider hands out its turns, with the *changes* of its weights.

    Passes are those of the provider, and its units are turns.
    """

    outline: MixtureOutline
    changes: tuple[WeightChange, ...] = ()

    def plus(self, *changes: WeightChange) -> MixtureRecord:
        """Return it with *changes*; each replaces all changes from its turn on."""
        known = self.changes
        for change in changes:
            known = with_change(known, change)
        return replace(self, changes=known)

    def turn_at(self, unit: int) -> int:
        """Return the turn that is unit number *unit*."""
        left = self._left(ENDLESS)
        return left.start + unit * left.step

    def stages(self, pass_number: int, turn: int) -> tuple[WeightStage, ...]:
        """Return the stages of a pass that hold from *turn* on."""
        stages = self.outline.stages
        earlier = [each.stage for each in self.changes if each.pass_number < pass_number]
        if earlier:
            stages = (WeightStage(0, earlier[-1].parts),)
        later = [each.stage for each in self.changes if each.pass_number == pass_number]
        if later:
            stages = (*changed(stages, later[0]), *later[1:])
            known = bisect_right(later, turn, key=attrgetter("begin"))
            return tuple(later[known - 1 :]) if known else stages
        return stages

    def changed_stages(self, pass_number: int, start: int, stop: int) -> tuple[WeightStage, ...]:
        """Return the stages that units *start* to *stop* have by a change; empty if by none."""
        first, last = self.turn_at(start), self.turn_at(stop - 1)
        if all((each.pass_number, each.stage.begin) > (pass_number, last) for each in self.changes):
            return ()
        return tuple(each for each in self.stages(pass_number, first) if each.begin <= last)

    def turns(self, pass_number: int, turn: int) -> Turns:
        """Return the turns of a pass from *turn* on."""
        it = self.outline
        return turns_of(self.stages(pass_number, turn), it.sizes, it.stop, it.max_epochs, it.seed)

    def units(self, pass_number: int, turn: int) -> range:
        """Return the turns that are units of a pass, in order. All changes from *turn* on count."""
        length = self.turns(pass_number, turn).length
        return self._left(ENDLESS if length is None else length)

    def counts(self, pass_number: int, turn: int) -> tuple[int, ...]:
        """Return how many elements of each source the turns before *turn* of a pass take."""
        return self.turns(pass_number, turn).counts(turn)

    def _left(self, length: int) -> range:
        turns = range(length)
        for cut in self.outline.cuts:
            turns = cut.of(turns)
        return turns


def with_change(
    changes: tuple[WeightChange, ...], change: WeightChange
) -> tuple[WeightChange, ...]:
    """Return *changes* with *change*, in place of all from its turn on."""
    at = change.pass_number, change.stage.begin
    kept = (each for each in changes if (each.pass_number, each.stage.begin) < at)
    return (*kept, change)


def next_pass(changes: tuple[WeightChange, ...]) -> tuple[WeightChange, ...]:
    """Return the changes with which a pass of a job begins that follows one with *changes*."""
    return tuple(WeightChange(0, WeightStage(0, each.stage.parts)) for each in changes[-1:])
