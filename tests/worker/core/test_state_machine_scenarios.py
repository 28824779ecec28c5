"""Scenarios: a run of the worker's core as readable text.

Lines starting with ``>`` are the core's effects; all others are what happened. Run
``python tests/worker/core/test_state_machine_scenarios.py`` to rewrite the answers,
and read the diff before you commit it.
"""

import re
from pathlib import Path

import pytest

from penstock.protocol.control import Assignment, SplitGrant, TaskAssignment
from penstock.protocol.data import Ack, Subscribe
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.splits import Split, SplitLog
from penstock.protocol.types import (
    Checkpoint,
    Codec,
    DatasetId,
    Failure,
    IterationId,
    ReaderId,
    ReaderStatus,
    TaskId,
    WorkerId,
)
from penstock_worker.core.events import (
    AbortStream,
    DispatcherConnected,
    Drained,
    DrainRequested,
    DrainStarted,
    HeartbeatDue,
    LogError,
    NondeterminismFound,
    RequestSplits,
    RetainFrames,
    RunnerLost,
    RunnerNotStarted,
    SendAllSent,
    SendEnd,
    SendFrame,
    SendRecall,
    SendToRunner,
    StartRunner,
    StopRunner,
    StreamAcked,
    StreamClosed,
    StreamId,
    StreamOpened,
    StreamWritable,
    Tick,
)
from penstock_worker.core.state_machine import WorkerCore
from penstock_worker.runner.messages import (
    AddSplits,
    ArenaFull,
    CheckpointTaken,
    ElementsSkipped,
    Flush,
    FrameReady,
    FreeFrames,
    PauseRun,
    RunEnded,
    RunFailed,
    RunPaused,
    SplitsNeeded,
)

COSTS = ("produced", "replayed", "sent", "requeued", "skipped", "nondeterministic")

BEFORE = r"(?:, from element (\d+))?(?:, acked (\S+?))?(?:, unacked at (.*))?"

SCENARIOS = sorted(Path(__file__).with_name("scenarios").glob("*.txt"))


class Player:
    """Reads what happens, passes it to the core, and writes down its effects."""

    def __init__(self):
        self.core = WorkerCore(WorkerId("host:1"), 1, None, 1000)
        self.now = 0.0
        self.revision = 0
        self.runs = {}
        self.status = {}
        self.subscriptions = {}
        self.stream = {}
        self.names = {}
        self.head = 0
        self.run = 0
        self.work = False
        """Whether heartbeats show what an attempt has cost."""

    def play(self, script):
        out = []
        for line in script.splitlines():
            if line.startswith(">"):
                continue
            out.append(line)
            if line and not line.startswith("#"):
                out += [f"> {effect}" for event in self.read(line) for effect in self.tell(event)]
        return "\n".join(out) + "\n"

    def tell(self, event):
        for effect in self.core.handle(event, self.now):
            if isinstance(effect, StartRunner):
                self.run = effect.run
            yield self.show(effect)
            if isinstance(effect, SendFrame):
                yield from self.tell(StreamWritable(effect.stream))

    def read(self, line):
        for pattern, method in self.PATTERNS:
            if found := re.fullmatch(pattern, line):
                return method(self, *found.groups())
        raise ValueError(f"cannot read {line!r}")

    # --- what happens ---

    def assigned(self, task, attempt, streams, state, acked, unacked):
        task = TaskId(int(task))
        owners = (part.split(": ") for part in (unacked or "").split("; ") if part)
        self.runs[task] = TaskAssignment(
            task, 0, int(attempt), IterationId(1), DatasetId("d"), 0, Codec.NONE,
            checkpoint=Checkpoint(int(state or 0)),
            logs=(SplitLog(),) * int(streams or 0),
            acked=AckedSet(0, runs(acked)),
            unacked={ReaderId(int(reader)): runs(numbers) for reader, numbers in owners},
        )  # fmt: skip
        return self.assignment()

    def stopped(self, task):
        del self.runs[TaskId(int(task))]
        return self.assignment()

    def assignment(self, drain=False):
        self.revision += 1
        runs = tuple(self.runs.values())
        return [Assignment(self.revision, 1, runs, dict(self.status), 1.0, drain)]

    def late_assignment(self, back):
        return [Assignment(self.revision - int(back), 1, (), {}, 1.0)]

    def removed(self, reader, how):
        self.status[ReaderId(int(reader))] = (
            ReaderStatus.LEFT if how == "left" else ReaderStatus.EXPIRED
        )
        return self.assignment()

    def produced(self, numbers, nbytes):
        first, stop = span(numbers)
        self.head += 1
        nbytes = int(nbytes or 100)
        return [
            FrameReady(self.run, first, stop - first, self.head, nbytes, b"", Codec.NONE, nbytes)
        ]

    def ended(self, number):
        return [RunEnded(self.run, int(number))]

    def failed(self, number, why):
        fields = ("map(f)", int(number), why, None, "")
        return [RunFailed(self.run, int(number), Failure("TransformError", fields))]

    def lost(self, how):
        return [RunnerLost(self.run, f"the process died of {how}")]

    def reached(self, number):
        return [CheckpointTaken(self.run, Checkpoint(int(number)))]

    def needs(self, position):
        return [SplitsNeeded(self.run, 0, int(position))]

    def granted(self, position, numbers):
        split = Split(*span(numbers)) if numbers else Split(0, 0)
        return [SplitGrant(TaskId(1), 1, 0, int(position), (split,))]

    def opens(self, reader, credit, acked, buffered):
        reader = ReaderId(int(reader))
        self.subscriptions[reader] = self.subscriptions.get(reader, 0) + 1
        return self._open(reader, self.subscriptions[reader], credit, acked, buffered)

    def opens_late(self, reader, subscription):
        return self._open(ReaderId(int(reader)), int(subscription), None, None, None, attempt=1)

    def _open(self, reader, number, credit, acked, buffered, attempt=None):
        name = StreamId(len(self.names) + 1)
        self.names[name] = f"reader {reader}" + (f" ({number})" if number > 1 else "")
        self.stream[reader] = name
        attempt = attempt or (self.runs[TaskId(1)].attempt if TaskId(1) in self.runs else 1)
        subscription = Subscribe(
            reader,
            TaskId(1),
            attempt,
            number,
            AckedSet(0, runs(acked)),
            runs(buffered),
            int(credit or 1000),
        )
        return [StreamOpened(name, subscription)]

    def acks(self, reader, numbers, credit):
        stream = self.stream[ReaderId(int(reader))]
        return [StreamAcked(stream, Ack(runs(numbers), int(credit or 0)))]

    def stream_breaks(self, reader):
        return [StreamClosed(self.stream[ReaderId(int(reader))])]

    def shows_work(self):
        self.work = True
        return []

    def passes(self, seconds):
        self.now += float(seconds)
        return [Tick()]

    PATTERNS = (
        (
            r"task (\d+) is to run as attempt (\d+)(?:, with (\d+) split logs?)?" + BEFORE,
            assigned,
        ),
        (r"task (\d+) is not to run any more", stopped),
        (r"an assignment that is (\d+) facts? old asks for nothing", late_assignment),
        (r"reader (\d+) has (left|expired)", removed),
        (r"the runner produces (\S+?)(?:, (\d+) bytes)?", produced),
        (r"the runner ends at (\d+)", ended),
        (r"the runner fails at (\d+): (.*)", failed),
        (r"the runner dies of (\w+)", lost),
        (r"no runner can be had: (.*)", lambda self, why: [RunnerNotStarted(self.run, why)]),
        (r"the runner's state reaches (\d+)", reached),
        (r"the runner leaves out (\d+)", lambda self, n: [ElementsSkipped(self.run, int(n))]),
        (r"the runner needs what stands at (\d+)", needs),
        (r"at (\d+) stands (?:the end|(\S+))", granted),
        (
            r"reader (\d+) opens(?: with credit (\d+))?(?:, acked (\S+?))?(?:, has (\S+?))?",
            opens,
        ),
        (
            r"subscription (\d+) of reader (\d+) arrives late",
            lambda self, n, r: self.opens_late(r, n),
        ),
        (r"reader (\d+) acks (\S+?)(?:, frees (\d+))?", acks),
        (r"reader (\d+)'s stream breaks", stream_breaks),
        (r"the runner has no room", lambda self: [ArenaFull(self.run)]),
        (r"the runner pauses", lambda self: [RunPaused(self.run)]),
        (r"the pipeline is nondeterministic", lambda self: [NondeterminismFound(self.run)]),
        (r"the worker is to drain", lambda self: [DrainRequested()]),
        (r"the dispatcher drains it", lambda self: self.assignment(drain=True)),
        (r"the work is shown", shows_work),
        (
            r"reader (\d+)'s loop waits",
            lambda self, r: [StreamAcked(self.stream[ReaderId(int(r))], Ack(RangeSet(), 0))],
        ),
        (r"(\S+)s pass", passes),
        (r"the stream to the dispatcher is new", lambda self: [DispatcherConnected()]),
    )

    # --- what the core wants done ---

    def show(self, effect):
        match effect:
            case StartRunner():
                return self.show_start(effect)
            case RetainFrames(run, frames):
                kept = ", ".join(str(frame.offset) for frame in frames)
                return f"of run {run} frames {kept} are kept"
            case StopRunner(run):
                return f"run {run} stops"
            case SendToRunner(FreeFrames(offsets=offsets)):
                return f"the places of frames {', '.join(map(str, offsets))} are free"
            case SendToRunner(PauseRun(run)):
                return f"run {run} is paused"
            case SendToRunner(Flush()):
                return "the runner shall not fill its frame"
            case SendToRunner(AddSplits(position=position, splits=splits)):
                return f"the runner gets {show_splits(splits)} at {position}"
            case RequestSplits(request):
                return f"what stands at {request.position} of task {request.task}?"
            case SendFrame(stream, header, frame):
                whole = len(header.ranges) == frame.count
                of = "" if whole else f" of {frame.first}-{frame.first + frame.count - 1}"
                return f"{self.names[stream]} gets {show(header.ranges)}{of}"
            case SendRecall(stream, _):
                asked = "make do with what it has" if effect.recall.flush else "requeue"
                return f"{self.names[stream]} is asked to {asked}"
            case SendAllSent(stream, _):
                return f"{self.names[stream]} knows that nothing waits for it"
            case SendEnd(stream, end):
                why = f": {end.failure.error()}" if end.failure else ""
                return f"{self.names[stream]} has all{why}"
            case AbortStream(stream, why):
                return f"{self.names[stream]} may try again: {why}"
            case HeartbeatDue():
                return f"heartbeat: {self.heartbeat()}"
            case DrainStarted():
                return "the worker drains"
            case Drained():
                return "the worker is drained"
            case LogError(text):
                return f"error: {text}"

    def show_start(self, start):
        assignment = start.assignment
        words = [f"run {start.run} starts: task {assignment.task}, attempt {assignment.attempt}"]
        words += [f"from element {assignment.checkpoint.number}"] * (
            assignment.checkpoint.number > 0
        )
        words += [f"known to {start.send_from}"] * (start.send_from > assignment.checkpoint.number)
        words += ["flushing each"] * start.flush_each
        words += [f"in {start.delay:g} s"] * (start.delay > 0)
        words += [f"the log is {show_splits(log.splits)}" for log in assignment.logs if log.splits]
        return ", ".join(words)

    def heartbeat(self):
        heartbeat = self.core.heartbeat()
        parts = []
        for task, progress in heartbeat.progress.items():
            words = [
                f"task {task} produced {progress.head}, acked {show(progress.acked.ranges) or '-'}"
            ]
            if progress.checkpoint:
                words.append(f"state {progress.checkpoint.number}")
            words += ["done"] * progress.done
            if progress.failure:
                words.append(progress.failure.kind)
            words += [f"in doubt {progress.in_doubt}"] * bool(progress.in_doubt)
            words += [f"lacks {progress.lacking}"] * bool(progress.lacking)
            words += ["over"] * ((task, progress.attempt) in heartbeat.ended)
            if self.work:
                spent = {name: getattr(progress.counts, name) for name in COSTS}
                words += [f"{name} {count}" for name, count in spent.items() if count]
            parts.append(", ".join(words))
        return ("draining; " if heartbeat.draining else "") + ("; ".join(parts) or "idle")


def span(text):
    first, _, last = text.partition("-")
    return int(first), int(last or first) + 1


def runs(text):
    return RangeSet.of(*(span(part) for part in text.split(","))) if text else RangeSet()


def show(numbers):
    parts = (f"{a}-{b - 1}" if b - a > 1 else str(a) for a, b in numbers.spans)
    return ",".join(parts)


def show_splits(splits):
    return ", ".join(f"{s.start}-{s.stop - 1}" if s else "the end" for s in splits)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path):
    assert Player().play(path.read_text()) == path.read_text()


def test_there_are_scenarios():
    assert SCENARIOS


if __name__ == "__main__":
    for path in SCENARIOS:
        path.write_text(Player().play(path.read_text()))
