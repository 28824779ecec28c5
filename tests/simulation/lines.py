"""Streams between processes: in order, and they break; what is under way then is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulation.world import Process, World


def _nothing(*_: Any) -> None:
    pass


class End:
    """One end of a line, as its process has it."""

    def __init__(self, world: World, owner: Process | None, address: str) -> None:
        self.world, self.owner, self.address = world, owner, address
        self.peer: End
        self.hear: Callable[[Any], None] = _nothing
        self.lost: Callable[[], None] = _nothing
        self.open = True
        self.cut = self.failed = False
        """Whether what is on the way to here does not arrive; whether nothing more is sent."""
        self._last = 0.0
        self._stuck: list[Any] = []
        if owner is not None:
            owner.ends.append(self)

    def send(self, message: Any) -> None:
        """Send *message* behind those sent before."""
        world, peer = self.world, self.peer
        if not self.open or self.failed:
            return
        world.stats["messages"] += 1
        if world.rough and world.chance.random() < world.breaks:
            world.stats["line broken"] += 1
            self.fail()
            return
        at = max(world.now + world.delay(), peer._last)
        peer._last = at
        world.when(at, peer._arrive, message)

    def close(self) -> None:
        """Want nothing more; the other end hears of it behind what was sent."""
        if not self.open:
            return
        self._shut()
        peer, world = self.peer, self.world
        peer._last = max(world.now + world.delay(), peer._last)
        world.when(peer._last, peer._lose)

    def fail(self) -> None:
        """Break: both ends hear of it, each in its time."""
        chance, world = self.world.chance, self.world
        for end in (self, self.peer):
            end.failed = True
            end.cut = end.cut or chance.random() < 0.5
            silent = chance.random() < 0.2
            world.at(chance.uniform(0.5, 5) if silent else chance.uniform(0.0, 0.3), end._lose)

    def orphan(self) -> None:
        """Note that the process is dead: the other end hears of it, as a rule at once."""
        self.open = False
        world, chance, peer = self.world, self.world.chance, self.peer
        if chance.random() < 0.1:
            peer.cut = True
        silent = chance.random() < 0.1
        delay = chance.uniform(1, 6) if silent else chance.uniform(0.001, 0.2)
        peer._last = max(world.now + delay, peer._last)
        world.when(peer._last, peer._lose)

    def _shut(self) -> None:
        self.open = False
        if self.owner is not None and self in self.owner.ends:
            self.owner.ends.remove(self)

    def give_up(self) -> None:
        """Note that there is no answer: a connection that was never made."""
        self.cut = self.failed = self.peer.cut = True
        self._lose()

    def _arrive(self, message: Any) -> None:
        if not self.open or self.cut or self.world.never_up(self.address, self.peer.address):
            return
        if self._stuck or (wall := self._wall()):
            self._stuck.append(message)
            if len(self._stuck) == 1:
                self._wait(wall)
            return
        if self.owner is None:
            self._greet(message)
        else:
            self.owner.run(self._heard, message)

    def _wait(self, wall: float) -> None:
        """Wait for the wall to fall, or give the line up."""
        world = self.world
        if world.chance.random() < 0.2:
            self.cut = True
            self.fail()
        else:
            world.when(wall + 0.01, self._go_on)

    def _go_on(self) -> None:
        if wall := self._wall():
            self._wait(wall)
            return
        waiting, self._stuck = self._stuck, []
        for message in waiting:
            self._arrive(message)

    def _heard(self, message: Any) -> None:
        if self.open:
            self.hear(message)

    def _lose(self) -> None:
        if not self.open:
            return
        if (wall := self._wall()) and self.world.chance.random() < 0.5:
            self.world.when(wall + 0.02, self._lose)
            return
        if self.owner is None:
            self.open = False
        else:
            self.owner.run(self._lost)

    def _lost(self) -> None:
        if self.open:
            self._shut()
            self.lost()

    def _wall(self) -> float:
        world = self.world
        return world.is_walled(self.address, self.peer.address) if world.walls else 0.0

    def _greet(self, message: Any) -> None:
        """Come to whoever is at the address now: nobody, and the line is refused."""
        there = self.world.processes.get(self.address)
        if there is None:
            self.open = False
            self.world.at(self.world.chance.uniform(0.001, 0.1), self.peer._lose)
            return
        self.owner = there
        there.ends.append(self)
        there.run(self._greeted, message)

    def _greeted(self, message: Any) -> None:
        if self.open and self.owner is not None:
            self.owner.greet(self, message)  # type: ignore[attr-defined]
            self._heard(message)


def dial(caller: Process, address: str) -> End:
    """Begin a line to *address*; whoever is there hears its first message in `greet`."""
    world = caller.world
    near, far = End(world, caller, caller.name), End(world, None, address)
    near.peer, far.peer = far, near
    return near
