"""One attempt of a task: what is made of it, and who has what.

Every number of an attempt is in one of four places:

    ahead ──made──▶ ready ──sent──▶ held by one reader ──handed out──▶ taken
                      ▲                   │
                      └───given back──────┘

Only a reader's own word (an opening that does not list it), or the dispatcher's that the reader
parted, frees what it holds. A frame is kept until all its numbers are taken; then its place goes
back to the runner, once.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.messages import (
    Ack,
    Failure,
    Frame,
    Open,
    Progress,
    Recall,
    Run,
    SplitGrant,
    StreamEnd,
)
from penstock.numbers import NO_RUNS, EngineState, ReaderId, Runs
from penstock_worker.core.events import (
    Beat,
    Complain,
    Effect,
    SendEnd,
    SendFrame,
    SendRecall,
    StopRun,
    StreamId,
    Tell,
)
from penstock_worker.core.stock import Kept, Stock
from penstock_worker.core.tally import Tally
from penstock_worker.runner.orders import Free, Grant, Made, Want

CHEAP = 64 * 1024
"""Payload bytes that may be sent to several readers, each taking a part, before a pass ends."""

EAGER = 4
"""A reader that holds fewer frames than this shall not wait for a frame to fill."""

STALL = 1.0
"""Seconds without a new frame after which a reader that has nothing is helped by the others."""


@dataclass(slots=True)
class Stream:
    """A reader's stream: what may be sent on it. Who opens one asks for a frame."""

    id: StreamId
    reader: ReaderId
    opening: int
    credit: int
    asking: bool = True
    recalled: bool = False

    @property
    def hungry(self) -> bool:
        """Whether it would take a frame now."""
        return self.asking and self.credit > 0


class Attempt:
    """A task being run here."""

    def __init__(self, order: Run, run: int, now: float, tally: Tally) -> None:
        self.order = order
        self.run: int | None = run
        self.taken = order.taken
        self.held: dict[ReaderId, Runs] = dict(order.held)
        self.ready = NO_RUNS
        self.head = order.state.number
        self.total: int | None = None
        self.failure: Failure | None = None
        self.streams: dict[ReaderId, Stream] = {}
        self.stock = Stock()
        self._openings: dict[ReaderId, int] = {}
        self._logs = list(order.logs)
        self._asked: dict[int, int] = {}
        self._states: list[EngineState] = []
        self._wanted = False
        self._made_at = now
        self._tally = tally

    @property
    def done(self) -> bool:
        """Whether all there is has been taken."""
        return self.total is not None and self.taken.floor >= self.total

    @property
    def state(self) -> str:
        """What it is at, in a word."""
        if self.failure is not None:
            return "failed"
        if self.total is not None:
            return "done" if self.done else "ended"
        return "waits for splits" if self._asked else "runs"

    def progress(self) -> Progress:
        """Return what the dispatcher should know."""
        behind = [state for state in self._states if state.number <= self.taken.floor]
        self._states = [*behind[-1:], *self._states[len(behind) :]]
        state = behind[-1] if behind else None
        return Progress(self.order.attempt, self.head, self.taken, state, self.done, self.failure)

    # --- what the runner says ---

    def made(self, made: Made, now: float, out: list[Effect]) -> None:
        """Keep a frame. What is taken already, or made before by another runner, is dropped."""
        self._wanted, self._made_at = False, now
        self._tally.made(made.count, made.nbytes)
        if made.first > self.head:
            text = f"the runner skipped from element {self.head} to {made.first}; this is a bug"
            self.fail(Failure("PenstockError", (text,)), out)
            return
        start, stop = max(made.first, self.head), made.first + made.count
        self.head = max(self.head, stop)
        numbers = Runs.of((max(start, self.taken.floor), stop)) - self.taken.more
        if not numbers:
            out.append(Tell(Free(made.run, (made.offset,))))
            return
        self.stock.put(Kept(start, stop, made))
        for held in self.held.values():
            numbers = numbers - held
        self.ready = self.ready | numbers

    def reached(self, state: EngineState) -> None:
        """Keep a state until everything before it is taken."""
        newest = self._states[-1] if self._states else self.order.state
        if state.number > newest.number:
            self._states.append(state)

    def ended(self, number: int, out: list[Effect]) -> None:
        """Know the end: there are *number* elements."""
        self.total = number
        self._finish(out)

    def fail(self, failure: Failure, out: list[Effect]) -> None:
        """Go no further: what was made is still served, then streams end with *failure*."""
        if self.failure is None and self.total is None:
            self.failure = failure
            out.append(Beat())

    def needs(self, stream: int, position: int) -> bool:
        """Note that the runner needs splits; say whether the dispatcher has to be asked."""
        known = stream < len(self._logs) and position == self._logs[stream].stop
        if not known or self._asked.get(stream) == position:
            return False
        self._asked[stream] = position
        return True

    @property
    def asked(self) -> tuple[tuple[int, int], ...]:
        """The (stream, position) of all splits that were asked for and did not come."""
        return tuple(self._asked.items())

    def granted(self, grant: SplitGrant, out: list[Effect]) -> None:
        """Add what was drawn to the log, and pass it on."""
        if not (0 <= grant.stream < len(self._logs)) or not grant.splits:
            return
        log = self._logs[grant.stream]
        if grant.position != log.stop:
            return
        self._logs[grant.stream] = log.plus(grant.splits)
        self._asked.pop(grant.stream, None)
        if self.run is not None:
            out.append(Tell(Grant(self.run, grant.stream, grant.position, grant.splits)))

    # --- what readers say ---

    def opened(self, name: StreamId, opening: Open, out: list[Effect]) -> Stream | None:
        """Settle what this reader holds, and put it last in line; None when it is refused."""
        if self._openings.get(opening.reader, 0) >= opening.opening:
            out.append(SendEnd(name, self._end()))
            return None
        self.take(opening.taken.runs, out)
        held = self.held.get(opening.reader, NO_RUNS)
        buffered = opening.buffered - self.taken.runs
        if stray := buffered - held:
            self._refuse(name, opening.reader, stray, out)
            return None
        self._openings[opening.reader] = opening.opening
        known = self.streams.pop(opening.reader, None)
        if known is not None:
            out.append(SendEnd(known.id, self._end()))
        back = held - buffered
        self._tally.given_back += len(back)
        self._give(back)
        self.held[opening.reader] = buffered
        stream = Stream(name, opening.reader, opening.opening, opening.credit)
        self.streams[opening.reader] = stream
        return stream

    def acked(self, stream: Stream, ack: Ack, out: list[Effect]) -> None:
        """Take what was handed out, and give the stream its room again."""
        stream.credit += ack.credit
        if ack.taken:
            stream.recalled = False
            self.take(ack.taken, out)

    def hung(self, stream: Stream) -> None:
        """Forget a stream, and nothing else."""
        if self.streams.get(stream.reader) is stream:
            del self.streams[stream.reader]

    def parted(self, reader: ReaderId, out: list[Effect]) -> Runs:
        """Free what *reader* held, and return it."""
        stream = self.streams.pop(reader, None)
        if stream is not None:
            out.append(SendEnd(stream.id, self._end()))
        freed = self.held.pop(reader, NO_RUNS)
        self._give(freed)
        return freed

    def take(self, numbers: Runs, out: list[Effect]) -> None:
        """Know that *numbers* are taken, by whomever. It is for ever."""
        new = numbers - self.taken.runs
        if not new:
            return
        self._tally.elements_taken += len(new)
        self.taken = self.taken.plus(new)
        self.ready = self.ready - new
        for reader, held in self.held.items():
            self.held[reader] = held - new
        freed = self.stock.release(new, self.taken)
        if freed and self.run is not None:
            out.append(Tell(Free(self.run, tuple(made.offset for made in freed))))
        self._finish(out)

    def stop(self, out: list[Effect]) -> None:
        """End every stream, and the run."""
        self._end_streams(out)
        self._stop_run(out)

    # --- who gets what ---

    def serve(self, now: float, out: list[Effect]) -> None:
        """Send what is ready to those who can take it, and see to those who go empty."""
        while self.ready:
            stream = self._next()
            if stream is None:
                return
            self._send(stream, out)
        if self.failure is not None or self.done:
            self._end_streams(out)
        elif self.total is None:
            self._want(out)
        if self.total is not None or now >= self._made_at + STALL:
            self._recall(out)

    def tick(self) -> None:
        """Let recalls be said again: a loop that asked then may not be asking now."""
        for stream in self.streams.values():
            stream.recalled = False

    def _next(self) -> Stream | None:
        hungry = (stream for stream in self.streams.values() if stream.hungry)
        return min(hungry, key=lambda stream: len(self.held[stream.reader]), default=None)

    def _send(self, stream: Stream, out: list[Effect]) -> None:
        frame = self.stock.at(self.ready.spans[0][0])
        made, part = frame.made, self._share(frame)
        header = Frame(
            self.order.task,
            self.order.attempt,
            stream.opening,
            made.first,
            made.count,
            self.taken.floor,
            part,
            made.layout,
            made.stored,
            made.raw_nbytes,
        )
        self.ready = self.ready - part
        self.held[stream.reader] = self.held[stream.reader] | part
        stream.asking = False
        stream.credit -= made.nbytes
        self._tally.sent(len(part), made.nbytes)
        out.append(SendFrame(stream.id, header, made))

    def _share(self, frame: Kept) -> Runs:
        """What of *frame* goes to one reader: all that is ready, unless others go empty."""
        part = self.ready & frame.span
        waiting = sum(1 for stream in self.streams.values() if self._empty(stream))
        if waiting < 2 or self.stock.touched(self.ready, waiting) >= waiting:
            return part
        if self.total is None and frame.made.nbytes > CHEAP:
            return part
        return _lowest(part, -(-len(self.ready) // waiting))

    def _empty(self, stream: Stream) -> bool:
        return stream.hungry and not self.held[stream.reader]

    def _want(self, out: list[Effect]) -> None:
        """Tell the runner, once a frame, that a reader shall not wait for a full one."""
        if self._wanted or self.run is None:
            return
        for stream in self.streams.values():
            if stream.hungry and self.stock.touched(self.held[stream.reader], EAGER) < EAGER:
                self._wanted = True
                out.append(Tell(Want(self.run)))
                return

    def _recall(self, out: list[Effect]) -> None:
        """Ask those who hold something to give it back, when another has nothing."""
        if not any(self._empty(stream) for stream in self.streams.values()):
            return
        for stream in self.streams.values():
            if self.held[stream.reader] and not stream.recalled:
                stream.recalled = True
                self._tally.recalls += 1
                recall = Recall(self.order.task, self.order.attempt)
                out.append(SendRecall(stream.id, recall))

    def _refuse(self, name: StreamId, reader: ReaderId, stray: Runs, out: list[Effect]) -> None:
        text = (
            f"law 5: reader {reader} buffers {stray.spans} of task {self.order.task}, attempt "
            f"{self.order.attempt}, which is not reserved for it; this is a bug"
        )
        out.append(Complain(text))
        out.append(SendEnd(name, self._end(Failure("PenstockError", (text,)))))

    def _give(self, numbers: Runs) -> None:
        """Make *numbers* ready again, as far as they are made and not taken."""
        self.ready = self.ready | ((numbers & Runs.of((0, self.head))) - self.taken.runs)

    def _finish(self, out: list[Effect]) -> None:
        if self.done and self.run is not None:
            out.append(Beat())
            self._stop_run(out)

    def _stop_run(self, out: list[Effect]) -> None:
        if self.run is not None:
            out.append(StopRun(self.run))
            self.run = None

    def _end_streams(self, out: list[Effect]) -> None:
        end = self._end(self.failure)
        out.extend(SendEnd(stream.id, end) for stream in self.streams.values())
        self.streams.clear()

    def _end(self, failure: Failure | None = None) -> StreamEnd:
        return StreamEnd(self.order.task, self.order.attempt, failure)


def _lowest(numbers: Runs, count: int) -> Runs:
    """The *count* lowest of *numbers*."""
    spans = []
    for start, stop in numbers.spans:
        if count <= 0:
            break
        spans.append((start, min(stop, start + count)))
        count -= stop - start
    return Runs(tuple(spans))
