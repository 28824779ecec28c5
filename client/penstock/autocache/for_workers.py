"""Chooses the cut of a pipeline that workers run: once, for all its readers, workers and passes.

The first reader measures some elements in its own process, and creates a file with the choice below
the path. Other readers, and later jobs, find that file, so they all have one pipeline.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import msgspec

from penstock.analysis import auto_shard
from penstock.analysis.ordering import check_snapshots
from penstock.autocache.checked import bytes_of
from penstock.autocache.measured import SizedTimes
from penstock.autocache.plan import NOT_SAME, CutPlan
from penstock.autocache.run import MOST, is_enough
from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS
from penstock.errors import DatasetError, PenstockError
from penstock.graph.node import Node
from penstock.graph.run import open_root
from penstock.graph.traversal import options_of, rewritten
from penstock.protocol.malformed import MALFORMED
from penstock.protocol.types import Mode
from penstock.runtime.interrupts import is_interrupt
from penstock.saved.folder import folder_of
from penstock.serialization.fingerprint import fingerprint

_FORMAT = "choice 1"
"""Another text here makes all choices invalid."""

_TWICE = 3
"""How many elements are made twice and compared, before a cut is chosen."""


class CommonChoice(msgspec.Struct, frozen=True):
    """The choice of all readers: the number of the chosen place, or None, and the table of cuts."""

    place: int | None
    table: tuple[str, ...]


def with_chosen_cut(root: Node, mode: Mode) -> tuple[Node, tuple[str, ...]]:
    """Return the pipeline that workers run for *root* with autocache, and the table of its cuts.

    It has a snapshot at the chosen cut, if there is one.

    Raises:
        DatasetError: when this process cannot measure the pipeline, or not use the folder.
    """
    options = options_of(root).autocache
    text = f"{_FORMAT} {fingerprint(root)} {mode} {options.max_bytes} {options.passes}"
    name = f"choice-{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}.json"
    folder, plan = folder_of("autocache", str(options.path)), _WorkersPlan(root, mode)
    with folder.reading("autocache", name):
        found = folder.read(name)
    if found is None:
        found = msgspec.json.encode(plan.choose())
        with folder.writing(name):
            is_first = folder.create(name, found)
        if not is_first:  # another reader has chosen meanwhile
            found = folder.read(name) or found
    try:
        choice = msgspec.json.decode(found, type=CommonChoice)
    except MALFORMED as exc:
        raise DatasetError(
            f"autocache: the choice in {folder.file(name)} cannot be read ({exc}): delete it"
        ) from exc
    return plan.with_snapshot(choice.place), choice.table


class _WorkersPlan(CutPlan):
    """The cuts of *root*, of which workers make the elements in *mode*."""

    def __init__(self, root: Node, mode: Mode) -> None:
        super().__init__(root, mode.value)
        self._mode = mode

    def with_snapshot(self, number: int | None) -> Node:
        """Return the pipeline with a snapshot at place *number*."""
        if number is None:
            return self._root
        place = self.places[number]
        kept = self._snapshot(place)
        return rewritten(self._root, lambda node: kept if node is place.node else node)

    def choose(self) -> CommonChoice:
        """Measure the pipeline, and choose the cut with the least time.

        Raises:
            DatasetError: when it cannot be measured, or the store cannot be written.
        """
        self._memory.begun = 1
        for cut in self._allowed():
            self._known[cut].refusal = self._why_not_divided(cut)
        try:
            self._measure()
            number = self.decide()
            while number is not None and not self._is_same(number):
                self._known[number].refusal = NOT_SAME
                number = self.decide()
        except PenstockError as exc:
            if is_interrupt(exc):
                raise
            raise DatasetError(
                f"autocache: this process cannot measure the pipeline that workers run: {exc}. "
                "Leave autocache out, and put snapshot(path) after the expensive operators"
            ) from exc
        return CommonChoice(number, self.table)

    def _why_not_divided(self, number: int) -> str:
        """Return why workers cannot keep elements at cut *number*; empty if they can."""
        graph = self.with_snapshot(number)
        try:
            auto_shard.check(graph, self._mode)
            if self._mode is Mode.DYNAMIC:
                check_snapshots(graph)
        except DatasetError as exc:
            return str(exc)
        return ""

    def _measure(self) -> None:
        times, began = SizedTimes(), time.perf_counter()
        context, made = replace(Context.local(0), times=times), 0
        for block in _blocks(self._root, context):
            made += block
            if is_enough(made, time.perf_counter() - began):
                break
        if not made:
            raise DatasetError("it has no element")
        self.learn(times, time.perf_counter() - began, self.way(None), whole=False)

    def _is_same(self, number: int) -> bool:
        """Return whether the first elements are the same if they are made twice."""
        node = self.places[number].node
        first, again = ([*map(bytes_of, islice(_elements(node), _TWICE))] for _ in range(2))
        return first == again


def _blocks(root: Node, context: Context) -> Iterator[int]:
    """Make elements of *root*; yield the number of each block, of which each is larger."""
    running, size = open_root(root, context), 1
    try:
        for _ in range(MOST):
            try:
                block = running.rows(size)
            except ELEMENT_ERRORS:
                continue  # the job raises it, or leaves the element out
            if not len(block):
                return
            yield len(block)
            size = min(2 * size, MOST)
    finally:
        running.close()


def _elements(node: Node) -> Iterator[Element]:
    running = open_root(node, Context.local(0))
    try:
        for _ in range(MOST):
            try:
                block = running.block(1)
            except ELEMENT_ERRORS:
                continue
            if not block:
                return
            yield from block
    finally:
        running.close()
