"""Frames on their way, as a trace that Perfetto and Chrome's `about:tracing` show.

Format: Trace Event Format, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from penstock.protocol.trace import FrameSent, FrameTaken, FrameTimes, TraceEvent

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


def trace_json(found: Iterable[Journey], readers: Mapping[int, str]) -> bytes:
    """Return *found* as a trace; *readers* says what each reader is called.

    A process of the trace is a worker, or a reader; a thread of a worker is a runner's task.

    >>> trace_json([], {})
    b'{"traceEvents":[],"displayTimeUnit":"ms"}'
    """
    tracks, spans = _Tracks(readers), list[Span]()
    for number, journey in enumerate(found):
        spans += _spans(journey, tracks, f"{number}")
    return msgspec.json.encode(
        {"traceEvents": [*tracks.names, *spans], "displayTimeUnit": "ms"},
    )


class _Tracks:
    """Where events are shown: a process for each worker and reader, a thread for each task."""

    def __init__(self, readers: Mapping[int, str]) -> None:
        self.names: list[Span] = []
        self._readers = readers
        self._pids: dict[str, int] = {}
        self._threads: set[tuple[int, int]] = set()

    def of_task(self, worker: str, task: int) -> tuple[int, int]:
        return self._track(f"worker {worker}", task, f"task {task}")

    def of_reader(self, reader: int) -> tuple[int, int]:
        return self._track(self._readers.get(reader, f"reader {reader}"), 1, "loop")

    def _track(self, process: str, tid: int, thread: str) -> tuple[int, int]:
        pid = self._pids.setdefault(process, len(self._pids) + 1)
        if (pid, tid) not in self._threads:
            self._threads.add((pid, tid))
            for name, said in (("process_name", process), ("thread_name", thread)):
                self.names.append(Span(name, "M", pid, tid, args={"name": said}))
        return pid, tid


def _spans(journey: Journey, tracks: _Tracks, number: str) -> Iterator[Span]:
    sent, times = journey.sent, journey.times
    about = {
        "task": sent.task,
        "attempt": sent.attempt,
        "first": sent.start,
        "elements": sent.elements,
        "bytes": sent.nbytes,
        "codec": sent.codec,
    }
    runner = tracks.of_task(journey.worker, sent.task)
    yield _work("make", runner, sent.began, sent.full, about)
    yield _work("wait for room", runner, sent.full, sent.placed, about)
    yield _work("encode", runner, sent.placed, sent.written, about)
    yield _arrow("s", runner, sent.placed, number)
    yield from _wait("buffered at the worker", runner, sent.arrived, sent.sent, number, about)
    if times is None:
        return
    loop = tracks.of_reader(sent.reader)
    yield from _wait("on its way", runner, sent.sent, times.received, number, about)
    yield from _wait("buffered at the reader", loop, times.received, times.wanted, number, about)
    yield _arrow("f", loop, times.wanted, number)
    yield _work("decode", loop, times.wanted, times.decoded, about)
    yield _work("hand out", loop, times.decoded, times.taken, about)


def _work(
    name: str, track: tuple[int, int], start: float, stop: float, about: Mapping[str, object]
) -> Span:
    lasts = max(0.0, stop - start) * MICROSECONDS
    return Span(name, "X", *track, ts=start * MICROSECONDS, dur=lasts, cat="frame", args=about)


def _wait(
    name: str,
    track: tuple[int, int],
    start: float,
    stop: float,
    number: str,
    about: Mapping[str, object],
) -> Iterator[Span]:
    """Yield both ends of a wait: unlike work, waits of one track are side by side."""
    begin, end = start * MICROSECONDS, max(start, stop) * MICROSECONDS
    yield Span(name, "b", *track, ts=begin, cat="frame", id=number, args=about)
    yield Span(name, "e", *track, ts=end, cat="frame", id=number)


def _arrow(ph: Literal["s", "f"], track: tuple[int, int], at: float, number: str) -> Span:
    ends = "e" if ph == "f" else ""
    return Span("frame", ph, *track, ts=at * MICROSECONDS, cat="way", id=number, bp=ends)
