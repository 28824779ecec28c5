"""Programs that run one at a time in virtual time, and fail at any call that changes a folder.

Each program has a thread of its own, and only one thread runs. So ordinary code, which waits and
calls a store, can be interrupted at each of its calls, the same way each time.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")


class Killed(BaseException):
    """This program was killed: nothing of it runs any more."""


@dataclass(frozen=True, slots=True)
class Weather:
    """How likely each fault is at a call of a store."""

    kill: float = 0.0
    """The program is killed, before or after the call."""
    refuse: float = 0.0
    """Nothing is done, and the call fails."""
    lose: float = 0.0
    """The call is carried out and fails. Only a store that is far away does that."""
    late: float = 0.0
    """The call fails, and is carried out later."""
    pause: float = 0.0
    """The program stands still for seconds."""


CALM = Weather()


class Program:
    """One life of a program."""

    def __init__(self, stage: Stage, name: str, act: Callable[[], None]) -> None:
        self.stage, self.name, self._act = stage, name, act
        self.dead = False
        """Whether it was killed."""
        self.ended = False
        self.error: BaseException | None = None
        self.is_safe = False
        """Whether no fault comes to it."""
        self.go = threading.Lock()
        self.go.acquire()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        self.go.acquire()
        try:
            if not self.dead:
                self._act()
        except Killed:
            pass
        except BaseException as exc:
            self.error = exc
        self.ended = True
        self.stage.back.release()

    def kill(self) -> None:
        """Have it do nothing more."""
        if not self.dead and not self.ended:
            self.dead = True
            self.stage.note(self.name, "is killed")


class Stage:
    """Runs programs, the one that waits for the earliest moment first."""

    def __init__(
        self, seed: object, weather: Weather, peace: float, *, trace: bool = False
    ) -> None:
        self.now = 0.0
        self.chance = Random(f"stage {seed}")
        self.weather, self.peace, self.trace = weather, peace, trace
        self.stats: Counter[str] = Counter()
        self.current: Program | None = None
        self.back = threading.Lock()
        self.back.acquire()
        self._queue: list[tuple[float, int, Program | Callable[[], None]]] = []
        self._count = 0
        self._programs: list[Program] = []

    def note(self, who: str, text: object) -> None:
        """Tell what happened, if anybody wants to know."""
        if self.trace:
            print(f"{self.now:8.3f} {who:10} {text}")

    def begin(self, name: str, act: Callable[[], None], delay: float = 0.0) -> Program:
        """Have a program begin in *delay* seconds."""
        program = Program(self, name, act)
        self._programs.append(program)
        program.thread.start()
        self._push(delay, program)
        return program

    def at(self, delay: float, act: Callable[[], None]) -> None:
        """Have something happen in *delay* seconds that is no program's."""
        self._push(delay, act)

    def _push(self, delay: float, what: Program | Callable[[], None]) -> None:
        self._count += 1
        heappush(self._queue, (self.now + delay, self._count, what))

    def run(self, is_over: Callable[[], bool], look: Callable[[], None], most: float) -> bool:
        """Go on until *is_over*, calling *look* after each step; return False after *most*."""
        while not is_over():
            if not self._queue or self.now > most:
                return False
            self.now, _, what = heappop(self._queue)
            if isinstance(what, Program):
                self._resume(what)
            else:
                what()
            look()
        return True

    def _resume(self, program: Program) -> None:
        self.current = program
        program.go.release()
        self.back.acquire()
        self.current = None

    def close(self) -> None:
        """End all programs."""
        for program in self._programs:
            program.dead = True
            while not program.ended:
                self._resume(program)
            program.thread.join()

    def sleep(self, seconds: float) -> None:
        """Let others run for *seconds*. In no program: do nothing."""
        me = self.current
        if me is None:
            return
        if me.dead:
            raise Killed
        self._push(seconds, me)
        self.back.release()
        me.go.acquire()
        if me.dead:
            raise Killed

    def call(self, what: str, perform: Callable[[], T], refused: Callable[[], Exception]) -> T:
        """Carry out a call, with the fault that comes to the running program in it."""
        me = self.current
        if me is None:
            return perform()
        self.sleep(0.001 + 0.02 * self.chance.random())
        if me.is_safe or self.now > self.peace:
            return perform()
        weather, some = self.weather, self.chance.random
        if some() < weather.pause:
            self.told("paused", what)
            self.sleep(self.chance.uniform(0.5, 4.0))
            if self.now > self.peace:
                return perform()
        if some() < weather.refuse:
            self.told("refused", what)
            raise refused()
        if some() < weather.late:
            self.told("carried out late", what)
            self.at(self.chance.uniform(0.01, 3.0), lambda: _try(perform))
            raise refused()
        if some() < weather.kill / 2:
            self.told("killed before a call", what)
            me.kill()
            raise Killed
        done = perform()
        if some() < weather.kill / 2:
            self.told("killed after a call", what)
            me.kill()
            raise Killed
        if some() < weather.lose:
            self.told("answer lost", what)
            raise refused()
        return done

    def told(self, fault: str, what: str) -> None:
        """Count a fault."""
        self.stats[f"fault: {fault}"] += 1
        self.note(self.current.name if self.current else "", f"{fault}: {what}")


def _try(perform: Callable[[], Any]) -> None:
    try:
        perform()
    except Exception:
        pass  # nobody waits for the answer


class StageClock:
    """What `time` is to programs."""

    def __init__(self, stage: Stage, step: float = 0.0) -> None:
        self._stage, self._step = stage, step

    def monotonic(self) -> float:
        """Return the time; looking takes a little of it, if there is a step."""
        if self._step:
            self._stage.sleep(self._step * self._stage.chance.random())
        return self._stage.now

    def time(self) -> float:
        """Return the time."""
        return self._stage.now

    def sleep(self, seconds: float) -> None:
        """Let others run."""
        self._stage.sleep(seconds)


class StageSecrets:
    """What `secrets` is to programs."""

    def __init__(self, stage: Stage) -> None:
        self._chance = stage.chance

    def randbits(self, bits: int) -> int:
        """Draw a number."""
        return self._chance.getrandbits(bits)

    def token_hex(self, nbytes: int) -> str:
        """Draw a text."""
        return f"{self._chance.getrandbits(8 * nbytes):0{2 * nbytes}x}"
