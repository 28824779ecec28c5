"""Finds the costs of operators in the times of a run, and in the sizes of some elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.element import Element
from penstock.engine.iterator import OpIterator
from penstock.engine.op_times import OpTimeNow, OpTimes
from penstock.engine.rows import Block, elements_of
from penstock.errors import ElementError
from penstock.saved.layout import SavedLayout

_SAMPLE = 64
"""Elements of each operator whose sizes are measured."""

_A_BLOCK = 16
"""Elements of a block whose sizes are measured."""


@dataclass(slots=True)
class Sizes:
    """The sizes of some elements of an operator: *nbytes* in all *count*."""

    count: int = 0
    nbytes: int = 0
    refusal: str = ""
    """Why an element cannot be saved; empty if each can."""

    @property
    def each(self) -> float:
        """The bytes of an element, on average."""
        return self.nbytes / self.count if self.count else 0.0

    def add(self, elements: Sequence[Element]) -> None:
        """Measure *elements*."""
        self.count += len(elements)
        try:
            layout = SavedLayout.of(elements[0])
            self.nbytes += int(layout.sizes(layout.columns(elements), len(elements)).sum())
        except ElementError as exc:
            self.refusal = str(exc)


class SizedTimes(OpTimes):
    """Times of operators, and the sizes of the first elements of each."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[str, Sizes] = {}

    def watch(self, running: OpIterator, path: str, label: str) -> None:
        """See `OpTimes.watch`."""
        super().watch(running, path, label)
        if "/" in path:
            return  # an inner dataset
        sizes = self.sizes.setdefault(path, Sizes())
        for name in ("block", "rows"):
            if name in vars(running):
                setattr(running, name, _sized(getattr(running, name), sizes))

    def replace_by(self, other: SizedTimes) -> None:
        """Have the times of *other* from now on."""
        self.operators, self._calls, self.sizes = other.operators, other._calls, other.sizes


def _sized(method: Callable[[int], Block], sizes: Sizes) -> Callable[[int], Block]:
    def sized(n: int) -> Block:
        out = method(n)
        if sizes.count < _SAMPLE and len(out):
            sizes.add(elements_of(out[:_A_BLOCK]))
        return out

    return sized


@dataclass(frozen=True, slots=True)
class ChainStep:
    """An operator of the chain from the source to the end, which is at *path* in the pipeline."""

    path: str
    row: str
    """The path under which its time is measured: that of `with_options` directly after it, if
    there is one."""
    alike: bool
    """Whether it has as many elements as its input."""
    is_source: bool
    """Whether the work of all operators that it reads counts as its own."""

    def moved(self, cut: str | None) -> ChainStep:
        """Return where it runs if two operators are put in after the one at the path *cut*."""
        if cut is None or not self.path.startswith(cut):
            return self
        row = cut if self.path == cut else self.row
        path, row = (f"{cut}.0.0{each.removeprefix(cut)}" for each in (self.path, row))
        return ChainStep(path, row, self.alike, self.is_source)


@dataclass(frozen=True, slots=True)
class OperatorWork:
    """The work of an operator for one element of the pipeline.

    It takes *seconds* by itself, and makes *count* elements.
    """

    seconds: float
    count: float


def work_of(
    times: Sequence[OpTimeNow], steps: Sequence[ChainStep], elapsed: float
) -> Mapping[str, OperatorWork]:
    """Return what each of *steps* does, by the path of its row, as far as it made elements.

    Calls that ran at the same time count in proportion: all operators together take *elapsed*
    seconds at most.
    """
    rows = {row.path: row for row in times}
    worked = sum(row.worked for row in times)
    scale = min(1.0, elapsed / worked) if worked > 0 else 1.0
    found: dict[str, OperatorWork] = {}
    count, alike, after = 1.0, True, 0
    for step in reversed(steps):
        row = rows.get(step.row)
        if row is None or not row.elements:
            break
        if not alike:
            count *= row.elements / after
        below = f"{step.path}."
        beside = [one.worked for one in times if step.is_source and one.path.startswith(below)]
        seconds = scale * (row.worked + sum(beside)) / row.elements
        found[step.row] = OperatorWork(count * seconds, count)
        alike, after = step.alike, row.elements
    return found
