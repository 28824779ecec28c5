"""A pipeline in miniature: splits in, a seeded shuffle, elements out; its state is a value.

What comes out depends on the log alone, never on when its splits arrived: the buffer is filled
before anything leaves it.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import NamedTuple

from penstock.protocol.control import TaskAssignment
from penstock.protocol.definition import MixtureOutline
from penstock.protocol.mixture import decode
from penstock.protocol.splits import Split
from penstock.protocol.turns import Turns
from penstock.protocol.types import Checkpoint

DEPTH = 3


class Element(NamedTuple):
    """What an element stands for: unit *unit* of pass *turn* of a copy of the source.

    Of a mixture, *copy* is what `taken` returns.
    """

    copy: int
    turn: int
    unit: int


def taken(turns: Turns, turn: int) -> int:
    """Return a number for the source that *turn* of a mixture takes, and which element of it."""
    (source,) = turns.sources(turn, turn + 1)
    return 10 * turns.counts(turn)[source] + source


class Rest(Enum):
    """Why no element came."""

    DRY = "the log is used up"
    ENDED = "the log ends here, and nothing is left"


class Engine:
    """An engine that stands before element *number*."""

    def __init__(
        self, order: TaskAssignment, size: int, passes: int, mixture: MixtureOutline | None = None
    ) -> None:
        self.order, self.passes, self.mixture = order, passes, mixture
        state = order.checkpoint
        at = json.loads(state.state) or [0, 0, 0, []]
        self.offset, self.turn, self.place, buffer = at
        self.buffer = [tuple(one) for one in buffer]
        self.number = state.number
        self.dynamic = bool(order.logs)
        if order.logs:
            log = order.logs[0]
            self.start, self.log = log.start, list(log.splits)
            self.place = max((log.start, *state.positions))
        else:
            self.start, self.log = 0, [Split(0, size), Split(0, 0)] * passes
        self.seed = (order.seed * 31 + order.index * 7919) % (1 << 61)

    @property
    def stop(self) -> int:
        """The position behind the log."""
        return self.start + len(self.log)

    def grow(self, position: int, splits: tuple[Split, ...]) -> None:
        """Take in what stands from *position* on; some of it may be known."""
        known = self.stop - position
        if known >= 0:
            self.log.extend(splits[known:])

    def make(self) -> Element | Rest:
        """Make the next element."""
        while len(self.buffer) < DEPTH and self.turn < self.passes:
            if self.place >= self.stop:
                return Rest.DRY
            split = self.log[self.place - self.start]
            if not split:
                self.turn, self.place = self.turn + 1, self.place + 1
                continue
            unit = split.start + self.offset
            self.buffer.append((self._copy(split, unit), self.turn, unit))
            self.offset += 1
            if self.offset == len(split):
                self.place, self.offset = self.place + 1, 0
        if not self.buffer:
            return Rest.ENDED
        made = self.buffer.pop((self.seed + self.number * 104729) % len(self.buffer))
        self.number += 1
        return Element(*made)

    def _copy(self, split: Split, unit: int) -> int:
        """Return of which copy a unit is; of a mixture, what its turn takes."""
        it = self.mixture
        if it is None:
            return 0 if self.dynamic else self.order.index
        stages = decode(split.names[0]) if split.names else it.stages
        return taken(Turns(stages, it.sizes, it.stop, it.max_epochs or None, it.seed), unit)

    def state(self) -> Checkpoint:
        """Return where it stands."""
        place = 0 if self.dynamic else self.place
        text = json.dumps([self.offset, self.turn, place, self.buffer])
        return Checkpoint(self.number, (self.place,) if self.dynamic else (), text)
