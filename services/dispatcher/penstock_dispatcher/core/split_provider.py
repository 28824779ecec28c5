"""The source of an iteration's splits: a cursor over its units, and how many to give at once.

All tasks of an iteration draw from the same cursor, so a unit goes to exactly one of them. Pass
k + 1 is begun when pass k has been given out, never before; a task whose log lags behind gets
the empty splits that end the passes it missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.engine import seeds
from penstock.files import Order, order
from penstock.graph.node import INFINITE
from penstock.protocol.definition import Repeats, SplitProviderSpec
from penstock.protocol.mixture import encode
from penstock.protocol.splits import FilePattern, Split
from penstock.protocol.types import TaskId
from penstock_dispatcher.core.fact_values import WeightChange
from penstock_dispatcher.core.listings import ListingOutline
from penstock_dispatcher.core.mixture_record import MixtureRecord

END = Split(0, 0)
"""The split that ends a pass in a log."""

GRAIN = 1.0
"""About how many seconds of a task's work a split is."""

LEAST = 0.02
"""Splits do not shrink below this many seconds of work: a question costs a part of that."""

FIRST_SHARE = 32
FIRST_MOST = 256
FIRST_FILES = 4
GROWTH = 4


MANY = 10_000
"""Orders of at least this many files are computed off the event loop."""

ORDERS_KEPT = 3
"""Of this pass, of the next, and of the one before."""


class KnownFiles:
    """The names of a provider's files, and their orders, by seed.

    It is no part of the durable state: names are stored once a listing, for all its passes.
    """

    __slots__ = ("asked", "names", "orders")

    def __init__(self) -> None:
        self.names: tuple[str, ...] | None = None
        self.orders: dict[int, Order] = {}
        self.asked: int | None = None
        """The seed of an order that is being computed."""

    def add(self, orders: Mapping[int, Order]) -> None:
        """Add *orders*, and forget old ones."""
        for seed, made in orders.items():
            self.orders.pop(seed, None)
            self.orders[seed] = made
        while len(self.orders) > ORDERS_KEPT:
            del self.orders[next(iter(self.orders))]


class _WithKnownFiles:
    """What has an attribute that is no field: it is not written, read or compared."""

    __slots__ = ("known",)

    def __post_init__(self) -> None:
        self.known = KnownFiles()


@dataclass(slots=True)
class SplitProvider(_WithKnownFiles):
    """A split provider of an iteration; the next split begins at *offset* of pass *pass_number*."""

    units: int
    align: int
    passes: int
    files: FilePattern | None = None
    listing: ListingOutline | None = None
    """The outline of its files, if it has files. `set_names` sets their names."""
    seed: int = 0
    pass_number: int = 0
    offset: int = 0
    repeats: Repeats = ()
    """See `SplitProviderSpec.repeats`."""
    once_a_worker: bool = False
    """See `SplitProviderSpec.once_a_worker`."""
    mixture: MixtureRecord | None = None
    """The mixture whose turns are its units."""

    @classmethod
    def of(
        cls, spec: SplitProviderSpec, listing: ListingOutline | None, seed: int
    ) -> SplitProvider:
        """Return a provider at the start of *spec*; its files, if any, are those of *listing*."""
        listed = None if spec.files is None else listing or ListingOutline()
        units = spec.units if spec.files is None else _left(spec.files, listed)
        # Nothing, however often, is nothing: one pass, already handed out.
        passes, pass_number = (spec.passes, 0) if units else (1, 1)
        mixture = None if spec.mixture is None else MixtureRecord(spec.mixture)
        about = spec.repeats, spec.once_a_worker, mixture
        return cls(units, spec.align, passes, spec.files, listed, seed, pass_number, 0, *about)

    @property
    def changes(self) -> tuple[WeightChange, ...]:
        """The changes of the weights of its mixture."""
        return () if self.mixture is None else self.mixture.changes

    @property
    def left(self) -> bool:
        """Whether there is a unit that no task was granted."""
        return self.pass_number != self.passes

    def over(self, ended: int) -> bool:
        """Return whether a log in which *ended* passes end has all that it will ever have."""
        return ended == self.passes

    def draw(self, ended: int, size: int) -> tuple[Split, ...]:
        """Return the next splits of a log in which *ended* passes end: about *size* units.

        It ends with the empty split if it has the last units of a pass.
        """
        missed = (END,) * (self.pass_number - ended)
        if not self.left:
            return missed
        size = max(self.align, size // self.align * self.align)
        stop = min(self.offset + size, self.units)
        split = Split(self.offset, stop, self.named(self.pass_number, self.offset, stop))
        return (*missed, split, END) if stop == self.units else (*missed, split)

    def draw_last(self, size: int) -> tuple[Split, ...]:
        """Return all that a task of its own gets: about *size* units, and the end of its pass."""
        if not self.left:
            return (END,)
        return (*(split for split in self.draw(self.pass_number, size) if split), END)

    def grant(self, splits: Iterable[Split]) -> None:
        """Advance behind *splits*, which were granted."""
        for split in splits:
            if split:
                self.offset = split.stop
        if self.offset == self.units and self.units:
            self.pass_number, self.offset = self.pass_number + 1, 0
            self._count_units()

    def reweigh(self, changes: Iterable[WeightChange]) -> None:
        """Let the weights of its mixture have *changes*: a pass may have other units then."""
        if self.mixture is not None:
            self.mixture = self.mixture.plus(*changes)
            self._count_units()

    def _count_units(self) -> None:
        if self.mixture is not None and self.mixture.changes:
            turn = self.mixture.turn_at(self.offset)
            self.units = len(self.mixture.units(self.pass_number, turn))

    @property
    def reading(self) -> int:
        """The pass that was begun last."""
        return self.pass_number if self.left else max(0, self.pass_number - 1)

    @property
    def soon(self) -> tuple[int, ...]:
        """The passes that the next splits are of: this one, at its end the next one too."""
        if not self.left:
            return ()
        ends = self.remaining <= self.units // 10 and self.pass_number + 1 != self.passes
        return (self.pass_number, self.pass_number + 1) if ends else (self.pass_number,)

    def make_orders(self) -> None:
        """Compute now the orders that are needed soon: later the event loop would wait for that."""
        for pass_number in self.soon:
            self.named(pass_number, 0, 1)

    def set_names(self, names: tuple[str, ...], orders: Mapping[int, Order]) -> None:
        """Set the *names* of the listing, and the *orders* of them that are there."""
        self.known.names = names
        self.known.add(orders)

    def learn_from(self, other: SplitProvider) -> None:
        """Copy names and orders from *other*, which has the same files."""
        self.known.names = other.known.names
        self.known.add(other.known.orders)

    def missing_orders(self, passes: Iterable[int]) -> tuple[int, ...]:
        """Return the seeds of missing orders of *passes* that take long to compute."""
        if self.files is None or not self.files.shuffle or self.listing is None:
            return ()
        if self.listing.count < MANY:
            return ()
        wanted = dict.fromkeys(order_seed(self.files, self.seed, self.repeats, n) for n in passes)
        return tuple(seed for seed in wanted if seed not in self.known.orders)

    def ask_ahead(self) -> int | None:
        """Return the seed of the next pass's order, once, if it should be computed now."""
        if self.pass_number + 1 == self.passes or not self.left:
            return None
        for seed in self.missing_orders([self.pass_number + 1]):
            if seed != self.known.asked:
                self.known.asked = seed
                return seed
        return None

    def named(self, pass_number: int, start: int, stop: int) -> tuple[str, ...]:
        """Return the names of a split of units *start* to *stop* of pass *pass_number*.

        Those are its files; or the stages of a mixture, if its weights have changed.
        """
        if start == stop:
            return ()
        if self.mixture is not None:
            stages = self.mixture.changed_stages(pass_number, start, stop)
            return (encode(stages),) if stages else ()
        if self.files is None:
            return ()
        names = self.known.names
        if names is None:
            raise LookupError(f"the names of listing {self.listing} are not known")
        if not self.files.shuffle:
            return tuple(names[i] for i in self.files.cut(range(len(names)))[start:stop])
        seed = order_seed(self.files, self.seed, self.repeats, pass_number)
        if seed not in self.known.orders:  # they are few, or the pass ended very soon
            self.known.add({seed: order(names, seed)})
        return tuple(names[i] for i in self.files.cut(self.known.orders[seed])[start:stop])

    @property
    def remaining(self) -> int:
        """How many units are left of this pass; the next pass shrinks by itself."""
        return self.units - self.offset


def order_seed(pattern: FilePattern, seed: int, repeats: Repeats, pass_number: int) -> int:
    """Return the seed of a pass's order of files: with a user's seed as in a local run."""
    seed = seed if pattern.seed is None else pattern.seed
    within = pass_number_of(repeats, pass_number)
    return seeds.derive(seed, "turn", within) if within else seed


def _left(pattern: FilePattern, listing: ListingOutline | None) -> int:
    return len(pattern.cut(range(0 if listing is None else listing.count)))


@dataclass(slots=True)
class DrawRate:
    """How fast a task uses splits of a provider up, from when it asks.

    A task asks for the split behind the one that it begins: so between two requests it has used
    up the split before the last one granted.
    """

    drawn_at: float
    last: int
    before: int = 0

    def granted(self, units: int, now: float) -> None:
        """Record a grant."""
        self.drawn_at, self.before, self.last = now, self.last, units


def split_size(provider: SplitProvider, draw_rate: DrawRate | None, tasks: int, now: float) -> int:
    """Return how many units to grant to one of *tasks* tasks."""
    share = provider.remaining // (2 * tasks)
    if draw_rate is None:
        most = FIRST_FILES if provider.files is not None else FIRST_MOST
        return max(1, min(share, provider.units // (tasks * FIRST_SHARE), most))
    if not draw_rate.before:
        return max(1, min(share, draw_rate.last))
    rate = draw_rate.before / max(now - draw_rate.drawn_at, 1e-4)
    wanted = min(int(rate * GRAIN), GROWTH * draw_rate.last)
    return max(1, min(wanted, max(share, int(rate * LEAST))))


def pass_number_of(repeats: Repeats, number: int) -> int:
    """Return the key of pass *number* of a source, as `Context.pass_key` has it where that runs."""
    numbers = []
    for _, count in reversed(repeats):
        number, within = (0, number) if count == INFINITE else divmod(number, count)
        numbers.append(within)
    pass_key = 0
    for (path, _), within in zip(repeats, reversed(numbers), strict=True):
        pass_key = seeds.pass_key(pass_key, path, within)
    return pass_key


NEWEST = 0.5
"""The weight of the newest task: the cost of elements may change within a pass."""

LEAST_SECONDS = 1e-3
"""A task takes no less: messages do."""


@dataclass(slots=True)
class Pace:
    """How many units a second a task makes, as far as tasks have ended."""

    rate: float = 0.0
    """0 as long as none has ended."""
    last: int = 1
    """The units of the newest task."""
    _begun: dict[TaskId, tuple[int, float]] = field(default_factory=dict)

    def begin(self, task: TaskId, units: int, now: float) -> None:
        """Record that *task* was created with *units* units."""
        self.last = max(1, units)
        self._begun[task] = (units, now)

    def end(self, task: TaskId, now: float) -> None:
        """Record that all of *task* was made; an earlier record counts once."""
        units, at = self._begun.pop(task, (0, now))
        if not units:
            return
        rate = units / max(now - at, LEAST_SECONDS)
        self.rate = NEWEST * rate + (1 - NEWEST) * (self.rate or rate)
