"""A few calls of a function that are made together, and the positions of their inputs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.element import Element
from penstock.engine.iterator import ELEMENT_ERRORS, Mark
from penstock.engine.rows import Block, Rows, same
from penstock.engine.unacked import UnackedBySession, acked_between, joined, only_tags, unacked_in
from penstock.executors.batch_memory import Room, cut
from penstock.executors.function import FunctionCaller


@dataclass(frozen=True, slots=True)
class InputRange:
    """Input elements *number* to *stop*, and the input's state before them: *mark* at *back*."""

    number: int
    stop: int
    mark: Mark
    back: int

    def part(self, start: int, stop: int) -> InputRange:
        """Return elements *start* to *stop* of these."""
        first = self.number
        return InputRange(first + start, first + stop, self.mark, self.back - start)


@dataclass(slots=True, eq=False)
class CallBatch:
    """An entry of the window: inputs, and then what became of them; or an error of the input."""

    position: InputRange
    inputs: list[Element]
    rooms: list[Room] = field(default_factory=list)
    """Where outcomes may be written, if that was told."""
    parts: list[Block] = field(default_factory=list)
    """The outcomes: elements, or rows; None in the place of an error."""
    count: int = 0
    """How many there are."""
    failed: dict[int, BaseException] = field(default_factory=dict)
    """The errors, by their positions among the outcomes."""
    made: bool = False
    dropped: bool = False
    consumed: int = 0

    @property
    def over(self) -> bool:
        """Whether all outcomes are returned."""
        return self.consumed >= (self.count if self.made else len(self.inputs))

    @property
    def rest(self) -> InputRange:
        """The inputs whose outcomes are not returned."""
        return self.position.part(min(self.consumed, len(self.inputs)), len(self.inputs))

    def make(self, call: FunctionCaller) -> float:
        """Make the calls; return how long one took."""
        first, seconds, step = self.position.number, 0.0, len(self.inputs)
        while (done := self.count) < len(self.inputs):
            began = time.perf_counter()
            try:
                call.prepare()
                began = time.perf_counter()
                rooms = list(cut(self.rooms, done, done + step))
                more, failed = call.call_into(self.inputs[done : done + step], first + done, rooms)
            except BaseException as exc:  # noqa: BLE001  SystemExit ends no thread: an outcome too
                if step == 1:
                    self.fail(exc)
                step = 1  # to find the element that the error belongs to
                continue
            finally:
                seconds += time.perf_counter() - began
            for part in more:
                self._add(part)
            if failed is not None:
                self.fail(failed)
            del failed  # or the error would keep this frame, and with it itself, forever
        return seconds / self.count

    def fail(self, exc: BaseException) -> None:
        """Let the next outcome be an error."""
        self.failed[self.count] = exc
        self._add([None])

    def take(self, n: int) -> Block:
        """Return the next outcomes, up to *n*, ahead of the next error: elements, or rows."""
        start = self.consumed
        part, first = self._part(start)
        stop = min([start + n, first + len(part), *(i for i in self.failed if i >= start)])
        self.consumed = stop
        return part[start - first : stop - first]

    def joins(self, block: Block) -> bool:
        """Return whether the next outcomes can follow *block* without being converted."""
        part, _ = self._part(self.consumed)
        if isinstance(block, Rows) and isinstance(part, Rows):
            return same(block.table, part.table)
        return not block or type(block) is type(part)

    def take_error(self) -> BaseException:
        """Return the error that is the next outcome."""
        self.consumed += 1
        return self.failed.pop(self.consumed - 1)

    def drop(self, n: int) -> int:
        """Skip up to *n* of the rest; return how many. Errors that are known do not count."""
        if not self.made:
            dropped = min(n, len(self.inputs) - self.consumed)
            self.consumed += dropped
            return dropped
        dropped = len(self.take(n))
        if dropped < n and not self.over:
            error = self.take_error()
            try:
                if not isinstance(error, ELEMENT_ERRORS):
                    raise error
            finally:
                del error  # or it would hold this frame, and with it itself, forever
        return dropped

    def _add(self, part: Block) -> None:
        last = self.parts[-1] if self.parts else None
        if isinstance(part, list) and isinstance(last, list):
            last += part
        elif part:
            self.parts.append([*part] if isinstance(part, list) else part)
        self.count += len(part)

    def _part(self, position: int) -> tuple[Block, int]:
        """Return the part that the outcome at *position* is in, and the position it begins with."""
        first = 0
        for part in self.parts:
            if position < first + len(part):
                return part, first
            first += len(part)
        return [], position


def tail(places: list[InputRange], back: int) -> list[InputRange]:
    """Return the last *back* inputs of *places*."""
    out: list[InputRange] = []
    for place in reversed(places):
        size = place.stop - place.number
        taken = min(back, size)
        back -= taken
        if taken:
            out.append(place.part(size - taken, size))
    return out[::-1]


def unacked_of(waiting: Sequence[InputRange], behind: InputRange) -> UnackedBySession:
    """Return the tags of the inputs in *waiting*, and all tags from the position *behind* on."""
    whole: list[InputRange] = []
    for place in sorted(waiting, key=lambda place: place.number):
        last = whole[-1] if whole else None
        if last is not None and last.mark is place.mark and last.stop == place.number:
            whole[-1] = InputRange(last.number, place.stop, last.mark, last.back)
        else:
            whole.append(place)
    spent = []
    for place in whole:
        after = place.back - (place.stop - place.number)
        spent.append(
            acked_between(unacked_in(place.mark(place.back)), unacked_in(place.mark(after)))
        )
    return joined((unacked_in(behind.mark(behind.back)), only_tags(spent)))
