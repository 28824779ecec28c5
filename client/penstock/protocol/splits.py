"""Units of source input: splits, a task's log of them, patterns of files, and fixed parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.protocol.types import Mode, SourceSlice

S = TypeVar("S", bound=Any)


PART_MARK = "\x1f"
"""Stands between a file's name and the rest of a part's name. It is a control character, so that
hardly any file has it in its name; only the last two count."""


@dataclass(frozen=True)
class FilePattern:
    """Files as units of splits: all that match *patterns*, in an order that the seed decides."""

    patterns: tuple[str, ...]
    shuffle: bool
    seed: int | None
    literal: bool = False
    """Whether the patterns are literal names, to be read in this order."""
    cuts: tuple[SourceSlice, ...] = ()
    """Slices to take from the ordered files, one after another."""
    part_bytes: int = 0
    """About how many bytes of a file are a unit. 0: each file is one unit."""

    def cut(self, ordered: S) -> S:
        """Return the part of the ordered files, or of their numbers, that the cuts leave."""
        for cut in self.cuts:
            ordered = cut.of(ordered)
        return ordered


@dataclass(frozen=True, slots=True)
class Split:
    """A unit of source input: the half-open range ``[start, stop)`` of a provider's units.

    An empty split ends a pass over the provider. For providers of files, *names* are the files.
    """

    start: int
    stop: int
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise ValueError(f"negative split: {self}")

    def __bool__(self) -> bool:
        return self.start < self.stop

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class SplitLog:
    """The splits that a task drew from one provider, from position *start* on.

    A log only grows at its end; its splits never change.
    """

    start: int = 0
    splits: tuple[Split, ...] = ()

    @property
    def stop(self) -> int:
        """The position after the last split."""
        return self.start + len(self.splits)

    def after(self, position: int) -> tuple[Split, ...]:
        """Return the splits from *position* on."""
        return self.splits[max(position - self.start, 0) :]

    def plus(self, splits: Iterable[Split]) -> SplitLog:
        """Return this log with *splits* at its end."""
        return SplitLog(self.start, (*self.splits, *splits))

    def forget(self, position: int) -> SplitLog:
        """Return this log without the splits before *position*."""
        return SplitLog(max(position, self.start), self.after(position))


@dataclass(frozen=True, slots=True)
class StaticShard:
    """Which fixed part of a pipeline a task has: one of *shards*, as *mode* cuts it."""

    mode: Mode
    shards: int
