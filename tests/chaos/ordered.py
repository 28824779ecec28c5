"""Jobs that are read in one order: who takes part, and what must be true of what they wrote."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from chaos import counting
from chaos.acts import Act, Undo, nothing
from chaos.mesh import Mesh, Reader, Role
from chaos.plan import Fault, Life, Ordered, Plan

ASCENDING = frozenset({"range", "batch"})
"""The pipelines whose order is that of their ids."""


class StridedAct(Act):
    """Consumers of one order: each index is read to its end, by a process at a time or by more."""

    def __init__(self, mesh: Mesh, sharing: Ordered) -> None:
        super().__init__(mesh)
        self._indexes = range(sharing.consumers or 0)
        self._away: Counter[int] = Counter()

    def begin(self, life: Life, restore: Path | None) -> None:
        """Start all consumers."""
        for index in self._indexes:
            self._start(index)

    @property
    def at_end(self) -> bool:
        """Whether each consumer saw the end, and none reads on."""
        ended = {r.role.consumer for r in self.mesh.readers if r.saw_end}
        return len(ended) == len(self._indexes) and not any(
            r.process.alive for r in self.mesh.readers
        )

    def settle(self) -> None:
        """Do nothing: it is not saved."""

    def restore_readers(self) -> None:
        """Have each consumer read, or have read."""
        for index in self._indexes:
            if not self._away[index] and not self._is_read(index):
                self._start(index)

    def _may_leave(self, reader: Reader, live: Sequence[Reader]) -> bool:
        return True

    def _add(self, fault: Fault, reader: Reader | None) -> Undo | None:
        if reader is None:
            return None
        self._start(reader.role.consumer or 0)
        return nothing

    def _gone(self, fault: Fault, reader: Reader) -> Undo:
        index = reader.role.consumer or 0
        self._away[index] += 1
        return lambda: self._back(index, reader)

    def _back(self, index: int, reader: Reader) -> float | None:
        if reader.process.alive:  # told to leave, it waits for its next element
            return 0.2
        self._away[index] -= 1
        if not self._is_read(index):
            self._start(index)
        return None

    def _is_read(self, index: int) -> bool:
        mine = [r for r in self.mesh.readers if r.role.consumer == index]
        return any(r.process.alive or r.saw_end for r in mine)

    def _start(self, index: int) -> None:
        self.mesh.add_reader(role=Role(consumer=index))


def check(plan: Plan, readers: Iterable[Reader], stats: Any, first: int) -> Iterator[str]:
    """Yield which elements came to a wrong consumer, or in a wrong order."""
    assert isinstance(plan.sharing, Ordered)
    readers, consumers = list(readers), plan.sharing.consumers
    mine: dict[int | None, list[Reader]] = defaultdict(list)
    for reader in readers:
        mine[reader.role.consumer].append(reader)
    known = counting.readers_in(stats, first)
    for index, some in mine.items():
        if consumers and plan.pipeline == "range":
            wrong = [n for n in counting.everything(some) if n % consumers != index]
            if wrong:
                yield f"consumer {index} of {consumers} took {sorted(wrong)[:12]}"
        # What a process had that expired, or another one has, may come later than it should.
        if len(some) == 1 and known <= len(readers) and plan.pipeline in ASCENDING:
            taken = [number for kind, number in some[0].records() if kind == "t"]
            if taken != sorted(set(taken)):
                at = next(i for i in range(1, len(taken)) if taken[i] <= taken[i - 1])
                yield f"{some[0].process.name} took {taken[at]} behind {taken[at - 1]}"
