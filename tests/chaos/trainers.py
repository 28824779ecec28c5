"""Trainers that share a cached job: each of several readers, which come back under its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from chaos.acts import Act, Undo, nothing, one
from chaos.mesh import Mesh, Reader, Role
from chaos.plan import Between, Cached, Fault, Kind, Life


class TrainersAct(Act):
    """See `Act`."""

    def __init__(self, mesh: Mesh, sharing: Cached) -> None:
        super().__init__(mesh)
        self.killed: Counter[str] = Counter()
        """How many loops of each trainer were killed."""
        self.disturbed: set[str] = set()
        """Trainers of which the dispatcher may have missed a reader for a while."""
        self.late: set[str] = set()
        """Trainers that came in mid-pass."""
        self._sharing = sharing
        self._first: list[Reader] = []
        self._roles: dict[str, Role] = {}
        self._away: Counter[str] = Counter()

    def begin(self, life: Life, restore: Path | None) -> None:
        """Start all readers of all trainers."""
        for number, readers in enumerate(self._sharing.trainers):
            name = f"trainer {number}"
            self._roles[name] = Role(trainer=name, slower=self._sharing.slower**number)
            self._first += [self._start(name) for _ in range(readers)]

    @property
    def has_begun(self) -> bool:
        """Whether each trainer has got something: none comes late for the account."""
        began = {r.role.trainer for r in self.mesh.readers if r.written}
        return began >= {r.role.trainer for r in self._first}

    @property
    def at_end(self) -> bool:
        """Whether each trainer saw the end, and none reads on."""
        ended = {r.role.trainer for r in self.mesh.readers if r.saw_end}
        return ended >= self._roles.keys() and not any(r.process.alive for r in self.mesh.readers)

    def readers_of(self, trainer: str) -> Iterator[Reader]:
        """Yield all readers of a trainer, also those that ended."""
        return (r for r in self.mesh.readers if r.role.trainer == trainer)

    @property
    def trainers(self) -> list[str]:
        """All of them."""
        return list(self._roles)

    def settle(self) -> None:
        """Do nothing: a cached job is not saved."""

    def restore_readers(self) -> None:
        """Have each trainer read, or have read."""
        for trainer in self._roles:
            readers = list(self.readers_of(trainer))
            if not self._away[trainer] and not any(r.process.alive or r.saw_end for r in readers):
                self._start(trainer)

    def _may_leave(self, reader: Reader, live: Sequence[Reader]) -> bool:
        return True

    def _touch(self, reader: Reader) -> None:
        self.disturbed.add(reader.role.trainer)

    def _gone(self, fault: Fault, reader: Reader) -> Undo:
        trainer = reader.role.trainer
        if fault.kind is Kind.LEAVE_READER:
            return nothing
        self.killed[trainer] += 1
        self._away[trainer] += fault.lasts is not None
        return lambda: self._back(trainer)

    def _to_link(self, fault: Fault) -> Undo | None:
        if fault.between is Between.READER_DISPATCHER:
            if (
                reader := one(fault, [r for r in self.mesh.readers if r.process.alive])
            ) is not None:
                self.disturbed.add(reader.role.trainer)
        return super()._to_link(fault)

    def _add(self, fault: Fault, reader: Reader | None) -> Undo | None:
        names = [*self._roles, f"trainer {len(self._roles)}"]
        name = names[fault.target % len(names)]
        if name not in self._roles:
            self._roles[name] = Role(trainer=name)
            self.late.add(name)
        self._start(name)
        return nothing

    def _back(self, trainer: str) -> None:
        self._away[trainer] -= 1
        if not any(r.saw_end for r in self.readers_of(trainer)):
            self._start(trainer)

    def _start(self, trainer: str) -> Reader:
        return self.mesh.add_reader(role=self._roles[trainer])
