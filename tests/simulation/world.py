"""Virtual time, processes that stop and end, and who can reach whom: one seed decides it all."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

PEACE = 30.0
"""From then on nothing is cut off any more."""

BREAKS = 0.004


class LawBroken(Exception):
    """A run that must not be."""


class World:
    """A queue of what happens next. Nothing here reads a real clock."""

    def __init__(self, seed: int, *, trace: bool = False) -> None:
        self.now = 0.0
        self.chance = Random(seed)
        self.stats: Counter[str] = Counter()
        self.processes: dict[str, Process] = {}
        """Who is alive, by address."""
        self.rates: dict[str, float] = {}
        self.walls: list[tuple[set[str], set[str], float]] = []
        self.never: dict[tuple[str, str], float] = {}
        """Which readers never reach which workers, and after how many seconds they notice."""
        self.rough = False
        """Whether lines break by themselves, and messages take their time."""
        self.breaks = BREAKS
        """How likely a message breaks its line, in a rough world."""
        self.lines = trace
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0

    def at(self, delay: float, act: Callable[..., None], *args: Any) -> None:
        """Have *act* happen in *delay* seconds."""
        self.when(self.now + delay, act, *args)

    def when(self, moment: float, act: Callable[..., None], *args: Any) -> None:
        """Have *act* happen at *moment*, behind all else that happens then."""
        self._count += 1
        heappush(self._queue, (moment, self._count, act, args))

    def step(self) -> bool:
        """Let the next thing happen; say whether there was one."""
        if not self._queue:
            return False
        self.now, _, act, args = heappop(self._queue)
        act(*args)
        return True

    @property
    def events(self) -> int:
        """How many things were to happen so far."""
        return self._count

    def is_walled(self, one: str, other: str) -> float:
        """Return until when two addresses cannot reach each other; 0 if they can."""
        until = 0.0
        for left, right, end in self.walls:
            apart = (one in left and other in right) or (one in right and other in left)
            if apart and self.now < end:
                until = max(until, end)
        return until

    def never_up(self, one: str, other: str) -> float:
        """Return how long a caller tries in vain; 0 if two addresses may reach each other."""
        if not self.never:
            return 0.0
        return self.never.get((one, other), 0.0) or self.never.get((other, one), 0.0)

    def cut_off(self, left: set[str], right: set[str], seconds: float) -> None:
        """Keep *left* and *right* apart for a while."""
        self.walls = [wall for wall in self.walls if wall[2] > self.now]
        self.walls.append((left, right, min(self.now + seconds, PEACE)))

    def delay(self) -> float:
        """Draw how long a message takes."""
        chance = self.chance
        if self.rough and chance.random() < 0.03:
            return chance.uniform(0.2, 4)
        return 0.005 + 0.1 * chance.random()

    def gone(self, process: Process) -> None:
        """Note that a process has ended."""

    def decided(self, process: Process) -> None:
        """Look at a worker whose core has decided something, before that is done."""

    def note(self, who: str, text: object) -> None:
        """Tell what happened, if anybody wants to know."""
        if self.lines:
            print(f"{self.now:8.3f} {who:6} {text}")


class Process:
    """One life of a process at an address. What it has still to do ends with it."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.dead = False
        self.doomed = False
        """Whether it dies in the middle of what it does next."""
        self.asleep_until = 0.0
        self.ends: list[Any] = []
        """Its ends of lines."""
        self._backlog: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    @property
    def now(self) -> float:
        """The time by this process's own clock."""
        return self.world.now * self.world.rates[self.name]

    def at(self, delay: float, act: Callable[..., None], *args: Any) -> None:
        """Do something later, if alive and awake then."""
        self.world.at(delay, self.run, act, *args)

    def run(self, act: Callable[..., None], *args: Any) -> None:
        """Do something now; when it wakes up, if it stands still."""
        if self.dead:
            return
        if self.asleep_until > self.world.now or self._backlog:
            self._backlog.append((act, args))
            return
        act(*args)

    def pause(self, seconds: float) -> None:
        """Stand still for a while."""
        self.asleep_until = self.world.now + seconds
        self.world.at(seconds + 1e-6, self._wake)

    def _wake(self) -> None:
        if self.asleep_until > self.world.now:
            return
        waiting, self._backlog = self._backlog, deque()
        for act, args in waiting:
            if not self.dead:
                act(*args)

    def cut(self, effects: list[Any]) -> list[Any]:
        """Return what of *effects* is still done: all, unless this process is about to die."""
        if not self.doomed:
            return effects
        return effects[: self.world.chance.randint(0, len(effects))]

    def end(self, why: str) -> None:
        """Die: nothing more is done, and all lines break."""
        if self.dead:
            return
        self.world.note(self.name, f"ends: {why}")
        self.dead = True
        if self.world.processes.get(self.name) is self:
            del self.world.processes[self.name]
        for end in list(self.ends):
            end.orphan()
        self.ends.clear()
        self._backlog.clear()
        self.world.gone(self)
