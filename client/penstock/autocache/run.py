"""Reads a pipeline with autocache: measures it, and keeps elements at the cut that was chosen."""

from __future__ import annotations

import time
from collections.abc import Mapping
from operator import length_hint
from typing import Any, ClassVar

from penstock.autocache.measured import SizedTimes
from penstock.autocache.plan import CutPlan, Way
from penstock.engine.iterator import ELEMENT_ERRORS, OpIterator, State
from penstock.errors import PenstockError, StateError
from penstock.graph.node import Node
from penstock.graph.run import LocalRun, LoopBlock, PipelineRun, SaveWanted
from penstock.protocol.malformed import glimpse
from penstock.runtime.interrupts import is_interrupt

MOST, _LEAST = 300, 10
"""The most elements that are measured before the first decision, and the fewest."""

_SECONDS = 0.5
"""After this time, fewer than the most are enough."""


class AutocachedRun(LocalRun):
    """A pipeline that runs in this process, and may keep elements at one of its cuts.

    If nothing is known of the pipeline, a pass begins without a cut. After some elements, a cut is
    chosen. Then the operators begin again with that, and make the same elements again, because all
    elements are to be kept.

    A state has the number of the cut, so it can be restored after other choices.
    """

    reads_cuts: ClassVar[bool] = True

    def __init__(self, node: Node, shape: str, state: State, seed: int | None = None) -> None:
        super().__init__(node, shape, state, seed)
        self._sized = SizedTimes()
        self.times = self._sized
        self._plan = CutPlan(node)
        self._way = self._way_of(state)
        self._due = False
        """Whether a choice is due in this pass."""
        self._learns = True
        """Whether the plan has not learned from the newest elements."""
        self._began = 0.0
        self._counts = False
        """Whether the plan counts this pass."""

    def _way_of(self, state: State) -> Way:
        number = state.get("cut") if isinstance(state, Mapping) else None
        try:
            return self._plan.way(number)
        except (IndexError, TypeError) as exc:
            raise StateError(f"not a state of an iterator: its cut is {glimpse(number)}") from exc

    @property
    def cuts(self) -> tuple[str, ...]:
        """See `PipelineRun.cuts`."""
        return self._plan.table

    def start(self, before: PipelineRun | None = None) -> None:
        """See `PipelineRun.start`."""
        if self._at is None:
            try:
                self._counts = True
                self._way, self._due = self._plan.begin()
                return self._start(before)
            except (PenstockError, OSError) as exc:
                if is_interrupt(exc) or self._way.cut is None:
                    raise
                self._plan.give_up(exc)
                self._way = self._plan.way(None)
        return self._start(before)

    def _start(self, before: PipelineRun | None) -> None:
        self._graph, self._began = self._way.graph, time.perf_counter()
        super().start(before)

    def advance(self, n: int) -> LoopBlock:
        """See `PipelineRun.advance`."""
        if self._due and not self._torn and not length_hint(self._place[1]) and self._is_enough():
            self._due = False
            self._choose()
        block = super().advance(n)
        if not block.size and self._made:
            self._learn(whole=self._at is None)
        return block

    def state(self, wanted: SaveWanted) -> State:
        """See `PipelineRun.state`."""
        found: dict[str, Any] = super().state(wanted)
        return found if self._way.cut is None else {**found, "cut": self._way.cut}

    def close(self) -> None:
        """See `PipelineRun.close`."""
        if self._made >= _LEAST:
            self._learn(whole=False)
        if self._counts and not self._made:
            self._plan.take_back()
        self._counts = False
        super().close()

    @property
    def _made(self) -> int:
        """How many elements the last operator has made."""
        end = self._sized.operators.get("")
        return end.elements if end else 0

    def _is_enough(self) -> bool:
        return is_enough(self._made, time.perf_counter() - self._began)

    def _learn(self, *, whole: bool) -> None:
        if self._learns:
            elapsed = time.perf_counter() - self._began
            self._plan.learn(self._sized, elapsed, self._way, whole=whole)
            self._learns = not whole

    def _choose(self) -> None:
        """Choose a cut; if there is one, begin again with that."""
        self._learn(whole=False)
        try:
            number = self._plan.decide()
            if number is not None:
                self._begin_again(self._plan.way(number), self._made)
        except (PenstockError, OSError) as exc:
            if is_interrupt(exc):
                raise
            self._plan.give_up(exc)

    def _begin_again(self, way: Way, count: int) -> None:
        """Read *way* from now on, without the first *count* elements."""
        before, times, began = self._graph, SizedTimes(), time.perf_counter()
        self._graph, self.times = way.graph, times
        try:
            run = self._opened(None)
        finally:
            self._graph, self.times = before, self._sized
        try:
            _pass_over(run, count)
        except BaseException:
            run.close()
            raise
        self._run, last = run, self._run
        self._way, self._graph, self._place = way, way.graph, (run.mark(), iter(()))
        self._sized.replace_by(times)
        self._began = began
        last.close()


def is_enough(made: int, seconds: float) -> bool:
    """Return whether *made* elements, measured for *seconds*, are enough to decide."""
    return made >= (_LEAST if seconds > _SECONDS else MOST)


def _pass_over(run: OpIterator, count: int) -> None:
    """Let *run* make *count* elements again, with all its operators, so that their times count."""
    while count:
        try:
            block = run.block(count)
        except ELEMENT_ERRORS:
            continue  # it was raised before
        if not block:
            raise StateError(f"the pipeline ends {count:,} elements earlier when it is read again")
        count -= len(block)
