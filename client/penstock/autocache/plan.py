"""Remembers the costs of a pipeline's cuts, and chooses how each pass reads it."""

from __future__ import annotations

import hashlib
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import WeakKeyDictionary

from penstock.autocache.checked import Checked, folder_below, kept_count
from penstock.autocache.cuts import Place, places_of
from penstock.autocache.decision import Choice, Cut, choose
from penstock.autocache.measured import OperatorWork, SizedTimes, Sizes, work_of
from penstock.autocache.store_speed import StoreSpeed, store_speed
from penstock.errors import PenstockError
from penstock.graph.node import INFINITE, Node
from penstock.graph.traversal import options_of, rewritten, structure_of
from penstock.ops.snapshot import Snapshot
from penstock.serialization.fingerprint import fingerprint

log = logging.getLogger("penstock")

_PASSES = 10
"""How often a dataset is read, unless the options say."""

_CHUNK_BYTES = 64 << 20

_DIFFERS = "_penstock/differs"
"""The file of a snapshot of which an element was not the same when it was made again."""


@dataclass(slots=True)
class Known:
    """The measurements of one place."""

    work: OperatorWork | None = None
    sizes: Sizes = field(default_factory=Sizes)
    read: float | None = None
    """The seconds to read an element here, as measured; None: not measured."""
    write: float | None = None
    count: int | None = None
    """How many elements there are; None: not known."""
    kept: int = -1
    """How many elements are in the store; -1: not all of them are there."""
    refusal: str = ""
    """Why the kept elements are no longer used; empty if they may be."""


@dataclass(slots=True)
class CutMemory:
    """The measurements of a pipeline, from all its runs in this process."""

    places: tuple[Known, ...]
    begun: int = 0
    """How many passes were begun."""
    choice: Choice | None = None
    checks: int = 0
    """How many elements were made again."""
    differences: int = 0
    """How many of these were not the same."""
    found: str = ""
    """The operator after which another process has kept the elements that are read."""
    trouble: str = ""
    """Why nothing is kept; empty if nothing is in the way."""


class Way(NamedTuple):
    """How a pass reads the pipeline: it runs *graph*, which has a snapshot at *cut*.

    If *kept*, the snapshot was complete when the pass began.
    """

    graph: Node
    cut: int | None
    kept: bool


class CutPlan:
    """How to read the pipeline that ends in *root*; *mode* is that of the workers that make it."""

    def __init__(self, root: Node, mode: str = "") -> None:
        self._root, options = root, options_of(root).autocache
        self._most, self._passes = options.max_bytes, options.passes or _PASSES
        self._path = str(options.path)
        self.places = places_of(root, self._passes)
        self._cuts = [number for number, place in enumerate(self.places) if place.is_cut]
        self._memory = _memory_of(root, mode, len(self.places))
        self._known = self._memory.places

    # --- passes ---

    def begin(self) -> tuple[Way, bool]:
        """Begin a pass; return how it reads, and whether it must be measured to decide.

        Raises:
            PenstockError: when the store cannot be read or written.
        """
        memory, plain = self._memory, Way(self._root, None, kept=False)
        first, memory.begun = not memory.begun, memory.begun + 1
        allowed = self._allowed()
        if memory.trouble or not allowed:
            return plain, False
        for number in allowed:
            # Other processes may keep elements, too, but to look for them in each pass takes time.
            if first or self._known[number].kept >= 0 or number == self._chosen:
                self._look(number)
        if all(known.work for known in self._known):
            return self.way(self.decide()), False
        kept = [number for number in self._allowed() if self._known[number].kept >= 0]
        if kept:  # by another process: the last one leaves least to do
            memory.found = self._label(kept[-1])
            return self.way(kept[-1]), False
        return plain, self._passes_left > 1 or any(place.visits > 1 for place in self.places)

    def take_back(self) -> None:
        """Count the pass that was begun as none: nothing was read in it."""
        self._memory.begun -= 1

    @property
    def _chosen(self) -> int | None:
        """The number of the place that was chosen, if there is one."""
        choice = self._memory.choice
        return None if choice is None or choice.chosen is None else self._cuts[choice.chosen]

    @property
    def _passes_left(self) -> int:
        if self._root.cardinality == INFINITE:
            return 1
        return max(1, self._passes - self._memory.begun + 1)

    def decide(self) -> int | None:
        """Return the number of the cut that this pass should keep or read, or None.

        Raises:
            PenstockError: when the store cannot be read or written.
        """
        before = self._memory.choice
        speed = store_speed(self._path)
        made = choose(
            [self._cut(number, speed) for number in self._cuts],
            self._passes_left,
            self._most,
            before.chosen if before else None,
            decided=before is not None,
        )
        self._memory.choice, self._memory.found = made, ""
        return self._chosen

    def way(self, number: int | None) -> Way:
        """Return how a pass reads that uses cut *number*."""
        if number is None:
            return Way(self._root, None, kept=False)
        place = self.places[number]
        checked = Checked(self._snapshot(place), _Judge(self, number))
        graph = rewritten(self._root, lambda node: checked if node is place.node else node)
        return Way(graph, number, kept=self._known[number].kept >= 0)

    def give_up(self, why: Exception) -> None:
        """Keep nothing from now on."""
        self._memory.trouble = f"autocache: nothing is kept: {why}"
        log.warning("%s", self._memory.trouble)

    # --- what was measured ---

    def learn(self, times: SizedTimes, elapsed: float, way: Way, *, whole: bool) -> None:
        """Note what a pass took; it read the *whole* pipeline or a part of it."""
        now = times.now()
        at = None if way.cut is None else self.places[way.cut].step.path
        steps = [place.step.moved(at) for place in self.places]
        found, rows = work_of(now, steps, elapsed), {row.path: row for row in now}
        for place, step, known in zip(self.places, steps, self._known, strict=True):
            known.work = found.get(step.row, known.work)
            known.sizes = times.sizes.get(step.row) or known.sizes
            if whole and step.row in rows:
                known.count = round(rows[step.row].elements / place.visits)
        if way.cut is not None and (row := rows.get(f"{at}.0")) and row.elements:
            known = self._known[way.cut]
            if way.kept:
                known.read = row.worked / row.elements
            else:
                known.write = row.worked / row.elements

    def _cut(self, number: int, speed: StoreSpeed) -> Cut:
        place, known = self.places[number], self._known[number]
        work, size = known.work, known.sizes.each
        below = [one.work for one in self._known[: number + 1]]
        kept_here = max((i for i, one in enumerate(self.places) if one.is_kept), default=-1)
        compute = sum(one.seconds for one in below[kept_here + 1 :] if one)
        count = work.count if work else 1.0
        read, write = known.read, known.write
        total = place.node.cardinality
        whole = total if total >= 0 else known.count
        return Cut(
            self._label(number),
            compute,
            count * size,
            count * (speed.read.seconds(size) if read is None else read),
            count * (speed.write.seconds(size) if write is None else write),
            place.visits,
            None if whole is None else whole * size,
            known.kept >= 0,
            known.refusal or place.refusal or known.sizes.refusal,
        )

    # --- the store ---

    def _allowed(self) -> list[int]:
        return [
            number
            for number in self._cuts
            if not self.places[number].refusal and not self._known[number].refusal
        ]

    def _look(self, number: int) -> None:
        """Look whether all elements of cut *number* are in the store."""
        snapshot, known = self._snapshot(self.places[number]), self._known[number]
        known.kept = kept_count(snapshot)
        if known.kept >= 0 and folder_below(snapshot).read(_DIFFERS) is not None:
            known.refusal = NOT_SAME

    def _snapshot(self, place: Place) -> Snapshot:
        digest = hashlib.blake2b(structure_of(place.node).encode(), digest_size=4).hexdigest()
        path = f"{self._path}/{place.node.op}-{digest}"
        return Snapshot(place.node, path, "zstd", _CHUNK_BYTES)

    # --- checks ---

    def is_refused(self, number: int) -> bool:
        """Return whether the kept elements of cut *number* are not used."""
        return bool(self._known[number].refusal)

    def note_check(self, number: int, element: int, *, same: bool) -> None:
        """Note that an *element* of cut *number* was made again, and whether it was the *same*."""
        self._memory.checks += 1
        if same:
            return
        self._memory.differences += 1
        if self._known[number].refusal:
            return
        self._known[number].refusal = NOT_SAME
        log.warning(
            "autocache: element %s of those kept after %s is another one when it is made again, so "
            "they are not used in later passes: %s, or an operator before it, depends on more than "
            "its input, such as chance, a clock or a file",
            f"{element:,}",
            self._label(number),
            self._label(number),
        )
        with suppress(OSError, PenstockError):  # other processes find the difference themselves
            folder_below(self._snapshot(self.places[number])).create(_DIFFERS, b"1")

    def _label(self, number: int) -> str:
        return self.places[number].node.label

    @property
    def table(self) -> tuple[str, ...]:
        """The cuts, as lines of text; one line before they are known."""
        memory = self._memory
        lines = memory.choice.table if memory.choice else (_UNDECIDED,)
        if memory.found:
            lines = (f"autocache: reads what another process kept after {memory.found}",)
        if memory.trouble:
            lines = (memory.trouble,)
        if memory.checks:
            said = f"{memory.checks:,} kept elements were made again, {memory.differences:,} differ"
            lines += (f"autocache: {said}",)
        return lines


@dataclass(frozen=True, slots=True)
class _Judge:
    plan: CutPlan
    cut: int

    @property
    def is_against(self) -> bool:
        """See `Judge.is_against`."""
        return self.plan.is_refused(self.cut)

    def compared(self, number: int, *, same: bool) -> None:
        """See `Judge.compared`."""
        self.plan.note_check(self.cut, number, same=same)


_UNDECIDED = "autocache: nothing is decided yet"
NOT_SAME = "an element was another one when it was made again"
_MOST_KNOWN = 64

_memories: dict[str, CutMemory] = {}
"""By the pipeline's fingerprint and options: a dataset that is built again is the same."""

_keys: WeakKeyDictionary[Node, str] = WeakKeyDictionary()
"""The keys of memories, as they were at first: functions may hold state."""


def _memory_of(root: Node, mode: str, places: int) -> CutMemory:
    key = _keys.get(root)
    if key is None:
        key = _keys[root] = f"{fingerprint(root)} {options_of(root).autocache}"
    key = f"{key} {mode}"
    if key not in _memories and len(_memories) >= _MOST_KNOWN:
        _memories.pop(next(iter(_memories)))
    return _memories.setdefault(key, CutMemory(tuple(Known() for _ in range(places))))
