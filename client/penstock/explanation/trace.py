"""Frames on their way, as a trace that Perfetto and Chrome's `about:tracing` show.

Format: Trace Event Format, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import msgspec

from penstock.protocol.data import FrameSent, FrameTaken, FrameTimes, TraceEvent

MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True)
class Journey:
    """A part of a frame from its runner to the loop; *times* is None while it is on its way."""

    worker: str
    sent: FrameSent
    times: FrameTimes | None


class Span(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event of the format; times in microseconds."""

    name: str
    ph: Literal["X", "b", "e", "s", "f", "M"]
    pid: int
    tid: int
    ts: float = 0.0
    dur: float = 0.0
    cat: str = ""
    id: str = ""
    bp: str = ""
    args: Mapping[str, object] = {}


def journeys(events: Mapping[str, Iterable[TraceEvent]]) -> list[Journey]:
    """Return the journeys that workers' *events* tell of, by worker, in the order of sending."""
    sent: dict[tuple[str, int, int, int, int], FrameSent] = {}
    taken: dict[tuple[str, int, int, int, int], FrameTimes] = {}
    for worker, told in events.items():
        for event in told:
            match event:
                case FrameSent():
                    sent[worker, event.task, event.attempt, event.reader, event.start] = event
                case FrameTaken(task, attempt, reader, times):
                    taken[worker, task, attempt, reader, times.start] = times
    found = [Journey(key[0], one, taken.get(key)) for key, one in sent.items()]
    return sorted(found, key=lambda one: one.sent.sent)


def trace_json(found: Sequence[Journey], readers: Mapping[int, str]) -> bytes:
    """Return *found* as a trace; *readers* says what each reader is called.

    A process of the trace is a worker, or a reader. A worker has a track for itself and one for
    each of its runners; a runner that takes another task stays on its track.

    >>> trace_json([], {})[:33]
    b'{"traceEvents":[],"displayTimeUni'
    """
    drawing = _Drawing(found, readers)
    spans = [span for number, one in enumerate(found) for span in drawing.spans(one, number)]
    names = (
        Span(kind, "M", track.pid, track.tid, args={"name": name})
        for track, both in drawing.tracks.named.items()
        for kind, name in zip(("process_name", "thread_name"), both, strict=True)
    )
    whole = {"traceEvents": [*names, *spans], "displayTimeUnit": "ms", "otherData": _CLOCKS}
    return msgspec.json.encode(whole)


_CLOCKS = {"clock": "seconds since 1970, by the clock of each host"}


class _Drawing:
    """Makes spans of journeys, each on its track."""

    def __init__(self, found: Sequence[Journey], readers: Mapping[int, str]) -> None:
        self.tracks = Tracks()
        self._readers = readers
        self._runners = _runner_lanes(found)
        self._loops = _loop_lanes(found)
        self._made: set[tuple[str, int, float]] = set()
        """Frames whose making is drawn: several readers may have parts of one."""

    def spans(self, journey: Journey, number: int) -> Iterator[Span]:
        sent, times, frame = journey.sent, journey.times, f"{number}"
        about = {
            "task": sent.task,
            "attempt": sent.attempt,
            "first": sent.start,
            "elements": sent.elements,
            "bytes": sent.nbytes,
            "codec": sent.codec,
        }
        process = f"worker {journey.worker}"
        runner = self.tracks.of(process, f"runner {1 + self._runners[_run(journey)]}")
        worker = self.tracks.of(process, "worker")
        if (made := (journey.worker, sent.run, sent.began)) not in self._made:
            self._made.add(made)
            yield _work("make", runner, sent.began, sent.full, about)
            yield _work("wait for room", runner, sent.full, sent.placed, about)
            yield _work("encode", runner, sent.placed, sent.written, about)
        yield _arrow("s", runner, sent.placed, frame)
        yield from _wait("buffered at the worker", worker, sent.arrived, sent.sent, frame, about)
        if times is None:
            return
        lane = self._loops[number]
        reader = self._readers.get(sent.reader, f"reader {sent.reader}")
        loop = self.tracks.of(reader, f"loop {1 + lane}" if lane else "loop")
        yield from _wait("on its way", worker, sent.sent, times.received, frame, about)
        yield from _wait("buffered at the reader", loop, times.received, times.wanted, frame, about)
        yield _arrow("f", loop, times.wanted, frame)
        yield _work("decode", loop, times.wanted, times.decoded, about)
        yield _work("hand out", loop, times.decoded, times.taken, about)


def _run(journey: Journey) -> tuple[str, int, int]:
    """Return which run of a pipeline made it."""
    return journey.worker, journey.sent.task, journey.sent.run


def _runner_lanes(found: Iterable[Journey]) -> dict[tuple[str, int, int], int]:
    """Return for each run a lane among those of its worker."""
    spans = around((_run(one), one.sent.began, one.sent.written) for one in found)
    lane: dict[tuple[str, int, int], int] = {}
    for worker in {run[0] for run in spans}:
        lane |= lanes({run: span for run, span in spans.items() if run[0] == worker})
    return lane


def _loop_lanes(found: Iterable[Journey]) -> dict[int, int]:
    """Return for each journey a lane among those of its reader: a loop may be in several frames."""
    spans: dict[int, dict[int, tuple[float, float]]] = {}
    for number, one in enumerate(found):
        if one.times is not None:
            mine = spans.setdefault(one.sent.reader, {})
            mine[number] = one.times.wanted, one.times.taken
    lane: dict[int, int] = {}
    for mine in spans.values():
        lane |= lanes(mine)
    return lane


def _work(name: str, track: Track, start: float, stop: float, about: Mapping[str, object]) -> Span:
    lasts = max(0.0, stop - start) * MICROSECONDS
    at = start * MICROSECONDS
    return Span(name, "X", track.pid, track.tid, ts=at, dur=lasts, cat="frame", args=about)


def _wait(
    name: str, track: Track, start: float, stop: float, frame: str, about: Mapping[str, object]
) -> Iterator[Span]:
    """Yield both ends of a wait: unlike work, waits of one track are side by side."""
    begin, end = start * MICROSECONDS, max(start, stop) * MICROSECONDS
    # Spans of one id are drawn in one process, so each wait of a frame has its own id.
    where, mine = (track.pid, track.tid), f"{frame} {name}"
    yield Span(name, "b", *where, ts=begin, cat="frame", id=mine, args=about)
    yield Span(name, "e", *where, ts=end, cat="frame", id=mine)


def _arrow(ph: Literal["s", "f"], track: Track, at: float, frame: str) -> Span:
    ends, at = ("e" if ph == "f" else ""), at * MICROSECONDS
    return Span("frame", ph, track.pid, track.tid, ts=at, cat="way", id=frame, bp=ends)


Key = TypeVar("Key", bound=Hashable)


def lanes(intervals: Mapping[Key, tuple[float, float]]) -> dict[Key, int]:
    """Return a lane for each interval, the first that is free: those of one do not overlap.

    There are as many lanes as there are intervals at one time, whatever runs one after another.

    >>> lanes({"first": (0.0, 2.0), "beside it": (1.0, 3.0), "behind it": (2.0, 4.0)})
    {'first': 0, 'beside it': 1, 'behind it': 0}
    """
    found: dict[Key, int] = {}
    ends: list[float] = []
    for key, (start, stop) in sorted(intervals.items(), key=lambda one: one[1]):
        lane = next((n for n, end in enumerate(ends) if end <= start), len(ends))
        ends[lane : lane + 1] = [max(start, stop)]
        found[key] = lane
    return found


def around(parts: Iterable[tuple[Key, float, float]]) -> dict[Key, tuple[float, float]]:
    """Return of each key when the first of its parts begins, and when the last ends.

    >>> around([("a", 1.0, 2.0), ("b", 5.0, 6.0), ("a", 3.0, 4.0)])
    {'a': (1.0, 4.0), 'b': (5.0, 6.0)}
    """
    found: dict[Key, tuple[float, float]] = {}
    for key, start, stop in parts:
        first, last = found.get(key, (start, stop))
        found[key] = min(first, start), max(last, stop)
    return found


@dataclass(frozen=True, slots=True)
class Track:
    """A track of a trace, by the numbers that the format has for it."""

    pid: int
    tid: int


class Tracks:
    """Numbers tracks as they are asked for; *named* says what each is called."""

    def __init__(self) -> None:
        self.named: dict[Track, tuple[str, str]] = {}
        """The process and the thread."""
        self._known: dict[tuple[str, str], Track] = {}
        self._pids: dict[str, int] = {}

    def of(self, process: str, thread: str) -> Track:
        """Return the track of a thread of a process, always the same."""
        known = self._known.get((process, thread))
        if known is None:
            pid = self._pids.setdefault(process, len(self._pids) + 1)
            known = self._known[process, thread] = Track(pid, len(self._known) + 1)
            self.named[known] = process, thread
        return known
