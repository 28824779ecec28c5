"""A job that reads a mixture in order, as its dispatcher sees it: turns are units."""

from penstock.protocol.definition import ENDLESS, MixtureOutline, SplitProviderSpec
from penstock.protocol.mixture import WeightStage, decode
from penstock.protocol.turns import Turns
from penstock.protocol.types import Failure, Mode, SourceSlice
from penstock_dispatcher.core.events import SetWeights
from penstock_dispatcher.core.facts import SplitsGranted, WeightsChanged
from tests.dispatcher.core.one_order import World

NAMES = ("web", "code")


def outline(length=None, **changed):
    """Return a mixture of two sources, each endless, in equal parts; of *length* turns."""
    if length is not None:
        changed["cuts"] = (SourceSlice(0, length), *changed.get("cuts", ()))
    plain = {"names": NAMES, "stages": (WeightStage(0, (1, 1)),), "sizes": (None, None)}
    return MixtureOutline(**{**plain, **changed})


def source_of(mixture, passes=1, grid=10):
    rules = (mixture.sizes, mixture.stop, mixture.max_epochs or None, mixture.seed)
    known = Turns(mixture.stages, *rules).length
    turns = range(ENDLESS if known is None else known)
    for cut in mixture.cuts:
        turns = cut.of(turns)
    return SplitProviderSpec(
        (".0",), len(turns), None, passes, grid=grid, mixture=mixture, repeats=((".", passes),)
    )


class Mixed(World):
    """One reader of an ordered job whose tasks have ten turns each."""

    def __init__(self, mixture=None, workers=1, passes=1, **asked):
        self.mixture = outline(length=200) if mixture is None else mixture
        self.source = source_of(self.mixture, passes)
        super(World, self).__init__(
            self.source, workers, Mode.DYNAMIC, **{"ordered": True, **asked}
        )

    def sets(self, at=None, job="j", **weights):
        """Set weights; return the turn from which they hold, or the error."""
        answer = self.reply(SetWeights(5, job, weights, at))
        return str(answer.error()) if isinstance(answer, Failure) else answer

    def finishes_first(self):
        """Let the first task be made and read: there is room for another."""
        self.finishes(next(iter(self.tasks)))

    @property
    def granted(self):
        """The splits that tasks were granted, without those that end a pass."""
        facts = [fact.splits for fact in self.facts if isinstance(fact, SplitsGranted)]
        return [split for splits in facts for split in splits if split]

    @property
    def next_turn(self):
        return self.iteration.providers[0].offset if self.iteration.providers else 0

    @property
    def changes(self):
        return [fact.change for fact in self.facts if isinstance(fact, WeightsChanged)]

    @property
    def changes_of_the_pass(self):
        """The changes without those of the next pass, which are made when all is granted."""
        facts = [fact for fact in self.facts if isinstance(fact, WeightsChanged)]
        return [fact.change for fact in facts if fact.iteration is not None]

    def turns(self, split):
        """Return the turns of a split, as a worker computes them."""
        stages = decode(split.names[0]) if split.names else self.mixture.stages
        it = self.mixture
        return Turns(stages, it.sizes, it.stop, it.max_epochs or None, it.seed)

    @property
    def sources(self):
        """The sources of all turns that were granted, as workers compute them."""
        found = []
        for split in self.granted:
            found += self.turns(split).sources(split.start, split.stop)
        return found
