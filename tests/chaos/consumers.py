"""Consumers of coordinated reads: killed and back again, at a round that the others agree on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaos.acts import Act, Undo, nothing
from chaos.mesh import Mesh, Reader, Role
from chaos.plan import Back, Fault, Life, Rounds


@dataclass
class Agreement:
    """Those who are left stand still, and say where; then all go on with one round."""

    number: int
    left: list[Reader]
    lost: set[int] = field(default_factory=set)


class ConsumersAct(Act):
    """See `Act`. Each index has one process at a time, but for one that another supersedes.

    Until the other one has joined, the first one reads on; to the end, if the other one is killed
    before.
    """

    def __init__(self, mesh: Mesh, sharing: Rounds) -> None:
        super().__init__(mesh)
        self.newest: dict[int, Reader] = {}
        self._consumers = sharing.consumers
        self._away: set[int] = set()
        """Who is to be back after a while."""
        self._lost: set[int] = set()
        """Who is to be back at the round that is agreed on next."""
        self._agreement: Agreement | None = None
        self._agreements = 0

    def begin(self, life: Life, restore: Path | None) -> None:
        """Start all consumers."""
        for index in range(self._consumers):
            self._start(index)

    @property
    def at_end(self) -> bool:
        """Whether the newest process of each consumer saw the end."""
        if any(r.process.alive for r in self.mesh.readers):
            return False
        return all(r.saw_end for r in self.newest.values())

    def settle(self) -> None:
        """Agree on a round, when somebody is to be back at it."""
        for index, reader in self.newest.items():
            # The process that was to supersede it joined, and was killed then.
            if not reader.process.alive and reader.has("u", 0) and not self._is_awaited(index):
                self._lost.add(index)
        agreement = self._agreement
        if agreement is None:
            if self._lost:
                self._agree()
        elif not any(r.process.alive and not r.has("w", agreement.number) for r in agreement.left):
            self._go_on(agreement)

    def restore_readers(self) -> None:
        """Have all consumers read, or have read."""
        for index, reader in self.newest.items():
            if not reader.process.alive and not reader.saw_end and not self._is_awaited(index):
                self._lost.add(index)

    def _is_awaited(self, index: int) -> bool:
        return index in self._away or index in self._lost

    def _agree(self) -> None:
        self._agreements += 1
        # Those that others are to supersede, too: they may be the ones that read on.
        left = [r for r in self.mesh.readers if r.process.alive]
        self._agreement = Agreement(self._agreements, left)
        for reader in left:
            reader.process.say(f"where {self._agreements}")

    def _go_on(self, agreement: Agreement) -> None:
        self._agreement = None
        # Of those that are gone, too: what they took is gone as soon as the others took it.
        number = max(map(_place, self.mesh.readers))
        for reader in agreement.left:
            reader.process.say(f"go {number}")
        lost, self._lost = self._lost, set()
        for index in lost:
            # Who came back alone meanwhile reads, and need not be started again.
            if not self._reads(index):
                self._start(index, number)

    def _readers(self) -> Iterable[Reader]:
        return self.newest.values()

    def _may_leave(self, reader: Reader, live: Sequence[Reader]) -> bool:
        return True

    def _add(self, fault: Fault, reader: Reader | None) -> Undo | None:
        if reader is None:
            return None
        self._start(reader.role.consumer)
        return nothing

    def _gone(self, fault: Fault, reader: Reader) -> Undo:
        index = reader.role.consumer
        self._away.add(index)
        return lambda: self._back(index, reader, fault.back)

    def _back(self, index: int, reader: Reader, back: Back) -> float | None:
        if reader.process.alive:  # told to leave, it waits for its next element
            return 0.2
        self._away.discard(index)
        if self.newest[index] is not reader or reader.saw_end or self._reads(index):
            return None
        if back is Back.ALONE:
            self._start(index)
        else:
            self._lost.add(index)
        return None

    def _reads(self, index: int) -> bool:
        """Return whether a process of the consumer lives; the newest of them is its reader now."""
        alive = [r for r in self.mesh.readers if r.role.consumer == index and r.process.alive]
        self.newest.update({index: r for r in alive[-1:]})
        return bool(alive)

    def _start(self, index: int, start: int | None = None) -> None:
        role = Role(consumer=index, start=start)
        self.newest[index] = self.mesh.add_reader(role=role)


def _place(reader: Reader) -> int:
    """Return the round that comes next, as its loop wrote down."""
    found = [number for kind, number in reader.records() if kind in "brgaz"]
    return found[-1] if found else reader.role.start or 0
