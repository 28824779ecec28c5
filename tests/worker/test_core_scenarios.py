"""Scenarios: a run of the worker's mind as a text that people can read.

Lines starting with ``>`` are what the mind wanted done; all others are what happened. Run
``python tests/worker/test_core_scenarios.py`` to rewrite the answers, and read the diff before
you commit it.
"""

import re
from pathlib import Path

import pytest

from penstock.messages import Ack, Assignment, Codec, Failure, Open, Run, SplitGrant
from penstock.numbers import (
    DatasetId,
    EngineState,
    IterationId,
    ReaderId,
    Runs,
    Split,
    SplitLog,
    Standing,
    Taken,
    TaskId,
    WorkerId,
)
from penstock_worker.core.events import (
    Acked,
    Asked,
    AskSplits,
    Beat,
    Break,
    Complain,
    Connected,
    Hung,
    Opened,
    RunnerLost,
    SendEnd,
    SendFrame,
    SendRecall,
    StartRun,
    StopRun,
    StreamId,
    Tell,
    Tick,
)
from penstock_worker.core.mind import Core
from penstock_worker.runner.orders import Ended, Failed, Free, Grant, Made, Need, Reached, Want

SCENARIOS = sorted(Path(__file__).with_name("scenarios").glob("*.txt"))


class Player:
    """Reads what happens, tells the mind, and writes down what it wants."""

    def __init__(self):
        self.core = Core(WorkerId("host:1"), 1, None)
        self.now = 0.0
        self.as_of = 0
        self.runs = {}
        self.standing = {}
        self.openings = {}
        self.stream = {}
        self.names = {}
        self.head = 0

    def play(self, script):
        out = []
        for line in script.splitlines():
            if line.startswith(">"):
                continue
            out.append(line)
            if line and not line.startswith("#"):
                out += [f"> {said}" for event in self.read(line) for said in self.tell(event)]
        return "\n".join(out) + "\n"

    def tell(self, event):
        for effect in self.core.apply(event, self.now):
            yield self.show(effect)
            if isinstance(effect, SendFrame):
                yield from self.tell(Asked(effect.stream))

    def read(self, line):
        for pattern, method in self.PATTERNS:
            if found := re.fullmatch(pattern, line):
                return method(self, *found.groups())
        raise ValueError(f"cannot read {line!r}")

    # --- what happens ---

    def assigned(self, task, attempt, streams):
        task = TaskId(int(task))
        self.runs[task] = Run(
            task, 0, int(attempt), IterationId(1), DatasetId("d"), 0, Codec.NONE,
            logs=(SplitLog(),) * int(streams or 0),
        )  # fmt: skip
        return self.order()

    def stopped(self, task):
        del self.runs[TaskId(int(task))]
        return self.order()

    def order(self):
        self.as_of += 1
        return [Assignment(self.as_of, 1, tuple(self.runs.values()), dict(self.standing), 1.0)]

    def late_order(self, back):
        return [Assignment(self.as_of - int(back), 1, (), {}, 1.0)]

    def parts(self, reader, how):
        self.standing[ReaderId(int(reader))] = Standing.LEFT if how == "left" else Standing.GONE
        return self.order()

    def made(self, numbers, nbytes):
        first, stop = span(numbers)
        self.head += 1
        nbytes = int(nbytes or 100)
        return [Made(1, first, stop - first, self.head, nbytes, b"", Codec.NONE, nbytes)]

    def ended(self, number):
        return [Ended(1, int(number))]

    def failed(self, number, why):
        fields = ("map(f)", int(number), why, None, "")
        return [Failed(1, int(number), Failure("TransformError", fields))]

    def lost(self, how):
        return [RunnerLost(1, f"the process died of {how}")]

    def reached(self, number):
        return [Reached(1, EngineState(int(number)))]

    def needs(self, position):
        return [Need(1, 0, int(position))]

    def granted(self, position, numbers):
        split = Split(*span(numbers)) if numbers else Split(0, 0)
        return [SplitGrant(TaskId(1), 1, 0, int(position), (split,))]

    def opens(self, reader, credit, taken, buffered):
        reader = ReaderId(int(reader))
        self.openings[reader] = self.openings.get(reader, 0) + 1
        return self._open(reader, self.openings[reader], credit, taken, buffered)

    def opens_late(self, reader, opening):
        return self._open(ReaderId(int(reader)), int(opening), None, None, None)

    def _open(self, reader, number, credit, taken, buffered):
        name = StreamId(len(self.names) + 1)
        self.names[name] = f"reader {reader}" + (f" ({number})" if number > 1 else "")
        self.stream[reader] = name
        opening = Open(
            reader, TaskId(1), 1, number, Taken(0, runs(taken)), runs(buffered), int(credit or 1000)
        )
        return [Opened(name, opening)]

    def takes(self, reader, numbers, credit):
        stream = self.stream[ReaderId(int(reader))]
        return [Acked(stream, Ack(runs(numbers), int(credit or 0)))]

    def hangs(self, reader):
        return [Hung(self.stream[ReaderId(int(reader))])]

    def passes(self, seconds):
        self.now += float(seconds)
        return [Tick()]

    PATTERNS = (
        (r"task (\d+) is to run as attempt (\d+)(?:, with (\d+) split logs?)?", assigned),
        (r"task (\d+) is not to run any more", stopped),
        (r"an order that is (\d+) facts? old asks for nothing", late_order),
        (r"reader (\d+) has (left|been given up)", parts),
        (r"the runner makes (\S+?)(?:, (\d+) bytes)?", made),
        (r"the runner ends at (\d+)", ended),
        (r"the runner fails at (\d+): (.*)", failed),
        (r"the runner dies of (\w+)", lost),
        (r"the runner's state reaches (\d+)", reached),
        (r"the runner needs what stands at (\d+)", needs),
        (r"at (\d+) stands (?:the end|(\S+))", granted),
        (
            r"reader (\d+) opens(?: with credit (\d+))?(?:, took (\S+?))?(?:, has (\S+?))?",
            opens,
        ),
        (r"opening (\d+) of reader (\d+) arrives late", lambda self, n, r: self.opens_late(r, n)),
        (r"reader (\d+) takes (\S+?)(?:, frees (\d+))?", takes),
        (r"reader (\d+)'s stream breaks", hangs),
        (r"(\S+)s pass", passes),
        (r"the line to the dispatcher is new", lambda self: [Connected()]),
    )

    # --- what the mind wants ---

    def show(self, effect):
        match effect:
            case StartRun(run, order):
                return f"run {run} starts: task {order.task}, attempt {order.attempt}"
            case StopRun(run):
                return f"run {run} stops"
            case Tell(Free(offsets=offsets)):
                return f"the places of frames {', '.join(map(str, offsets))} are free"
            case Tell(Want()):
                return "the runner shall not fill its frame"
            case Tell(Grant(position=position, splits=splits)):
                return f"the runner gets {show_splits(splits)} at {position}"
            case AskSplits(request):
                return f"what stands at {request.position} of task {request.task}?"
            case SendFrame(stream, header, made):
                whole = len(header.part) == made.count
                of = "" if whole else f" of {made.first}-{made.first + made.count - 1}"
                return f"{self.names[stream]} gets {show(header.part)}{of}"
            case SendRecall(stream, _):
                return f"{self.names[stream]} is asked to give back"
            case SendEnd(stream, end):
                why = f": {end.failure.error()}" if end.failure else ""
                return f"{self.names[stream]} has all{why}"
            case Break(stream, why):
                return f"{self.names[stream]} may try again: {why}"
            case Beat():
                return f"beat: {self.beat()}"
            case Complain(text):
                return f"complaint: {text}"

    def beat(self):
        beat = self.core.beat()
        parts = []
        for task, progress in beat.progress.items():
            words = [f"task {task} made {progress.made}, taken {show(progress.taken.runs) or '-'}"]
            if progress.state:
                words.append(f"state {progress.state.number}")
            words += ["done"] * progress.done
            if progress.failure:
                words.append(progress.failure.kind)
            parts.append(", ".join(words))
        return "; ".join(parts) or "idle"


def span(text):
    first, _, last = text.partition("-")
    return int(first), int(last or first) + 1


def runs(text):
    return Runs.of(*(span(part) for part in text.split(","))) if text else Runs()


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
