"""Scenarios: a run of the dispatcher's mind as a text that people can read.

Lines starting with ``>`` are what the mind answered; all others are what happened. Run
``python tests/dispatcher/scenario.py --rewrite`` to rewrite the answers, and read the diff before
you commit it. ``= fact`` is written, ``-> peer`` is told.
"""

import re
import sys
from dataclasses import replace
from pathlib import Path

from penstock.graph import FilePattern
from penstock.messages import (
    Assignment,
    Codec,
    Failure,
    Holding,
    Mode,
    Opened,
    OpenRequest,
    Progress,
    ReaderBeat,
    SplitGrant,
    SplitRequest,
    Versions,
    WorkerBeat,
    WorkerRefused,
)
from penstock.numbers import EngineState, Runs, Standing, Taken, TaskId
from penstock.sharding import UNLISTED, Stream
from penstock_dispatcher.core import Books, Core, Settings
from penstock_dispatcher.core import facts as f
from penstock_dispatcher.core.signals import (
    Answer,
    Begin,
    HangUp,
    LineBroken,
    ListFiles,
    OpenIteration,
    Register,
    Send,
    Show,
    Tick,
    Write,
)

VERSIONS = Versions(1, "3.11.7", "0.1.0")


class Player:
    """Reads what happens, tells the mind, and writes down what it answers."""

    def __init__(self):
        self.now = 1000.0
        self.core = Core(Books(), Settings(), self.now)
        self.core.desk.address = "here:1"
        self.core.handle(Begin(0), self.now)
        self.settings = Settings()
        self.incarnation, self.orders, self.ended = {}, {}, {}
        self.progress = {}
        self.iteration, self.reader, self.beats = {}, {}, {}
        self.holdings = {}
        self.files = {}
        self.calls = 0

    def play(self, script):
        out = []
        for line in script.splitlines():
            if line.startswith(">"):
                continue
            out.append(line)
            if line and not line.startswith("#"):
                out += [f"> {said}" for signal in self.read(line) for said in self.tell(signal)]
                out += [f"> {said}" for said in self.shown(self.core.push(self.now))]
        return "\n".join(out) + "\n"

    def tell(self, signal):
        return list(self.shown(self.core.handle(signal, self.now)))

    def shown(self, effects):
        for effect in effects:
            yield self.show(effect)
            if isinstance(effect, ListFiles):
                names = {i: self.files[p.patterns[0]] for i, p in effect.patterns.items()}
                again = OpenIteration(
                    effect.signal.call, effect.signal.request, effect.signal.seed, names
                )
                yield from self.tell(again)

    # --- what happened ---

    def read(self, line):
        for pattern, method in self.WORDS.items():
            if found := re.fullmatch(pattern, line):
                yield from method(self, **found.groupdict())
                return
        raise ValueError(f"cannot read {line!r}")

    def dataset(self, name, streams):
        plans = []
        for text in streams.split(" + "):
            words = re.fullmatch(
                r"(?:(\d+) units|files ([\w ]+?))( shuffled)?"
                r"(?:, (-?\d+) passes)?(?:, align (\d+))?",
                text,
            )
            units, names, shuffle, passes, align = words.groups()
            pattern = None
            if names:
                pattern = FilePattern((f"{name}/*",), bool(shuffle), 7 if shuffle else None)
                self.files[f"{name}/*"] = tuple(names.split())
            size = UNLISTED if names else int(units)
            plans.append(Stream((".0",), size, pattern, int(passes or 1), int(align or 1)))
        yield Register(1, VERSIONS, name, tuple(plans), "")

    def unsplittable(self, name, why):
        yield Register(1, VERSIONS, name, (), why)

    def opens(self, reader, job, dataset, mode, repetition, protocol, codec):
        request = OpenRequest(
            Versions(int(protocol or 1), "3.11.7", "0.1.0"),
            dataset,
            Mode(mode),
            job,
            int(repetition or 1),
            Codec(codec or "none"),
        )
        self.calls += 1
        self.opening = reader
        yield OpenIteration(self.calls, request, seed=5)

    def beat(self, worker, draining=False, first=False):
        return WorkerBeat(
            worker,
            self.incarnation[worker],
            self.orders[worker].as_of if worker in self.orders else -1,
            dict(self.progress.get(worker, {})),
            frozenset(self.ended.get(worker, ())),
            draining,
            VERSIONS if first else None,
        )

    def worker_comes(self, worker):
        self.incarnation[worker] = self.incarnation.get(worker, 0) + 1
        self.orders.pop(worker, None)
        self.progress.pop(worker, None)
        yield self.beat(worker, first=True)

    def worker_beats(self, worker, draining):
        yield self.beat(worker, bool(draining))

    def late_beat(self, worker):
        yield WorkerBeat(worker, self.incarnation[worker] - 1, 0)

    def line_breaks(self, worker):
        yield LineBroken(worker, self.incarnation[worker])

    def stray_beat(self, worker, as_of):
        yield WorkerBeat(worker, self.incarnation[worker], int(as_of))

    def tells(self, worker, task, made, taken, state, end, as_of):
        attempt = self.attempt(worker, int(task))
        failure = end and end.startswith("failed") and Failure("TransformError", ("map", 3, "no"))
        at = EngineState(int(state), (1,)) if state else None
        told = Progress(attempt, int(made), Taken(int(taken)), at, end == "done", failure or None)
        self.progress.setdefault(worker, {})[TaskId(int(task))] = told
        beat = self.beat(worker)
        yield beat if as_of is None else replace(beat, as_of=int(as_of))

    def attempt(self, worker, task):
        return next((r.attempt for r in self.orders[worker].runs if r.task == task), 1)

    def stops(self, worker, task):
        attempt = self.attempt(worker, int(task))
        self.progress.get(worker, {}).pop(TaskId(int(task)), None)
        self.ended.setdefault(worker, set()).add((TaskId(int(task)), attempt))
        yield self.beat(worker)

    def asks(self, worker, task, stream, position):
        yield SplitRequest(
            worker, self.incarnation[worker], TaskId(int(task)), 1, int(stream or 0), int(position)
        )

    def reader_beats(self, reader, leaving):
        self.beats[reader] = self.beats.get(reader, 0) + 1
        yield ReaderBeat(
            self.iteration[reader],
            reader,
            self.reader.get(reader),
            self.beats[reader],
            dict(self.holdings.get(reader, {})),
            leaving=bool(leaving),
        )

    def takes(self, reader, task, floor):
        self.holdings.setdefault(reader, {})[TaskId(int(task))] = Holding(
            1, Taken(int(floor)), Runs.of((int(floor), int(floor) + 2))
        )
        yield from self.reader_beats(reader, leaving=False)

    def reads_at(self, reader, iteration):
        self.iteration[reader] = int(iteration)
        return ()

    def passes(self, seconds, who):
        names = [name for name in re.split(r", | and ", who or "") if name]
        until, beat_at = self.now + float(seconds), self.now + 1.0
        while self.now < until:
            self.now = min(self.now + 0.25, until)
            if self.now >= beat_at:
                beat_at += 1.0
                for name in names:
                    if name in self.incarnation:
                        yield self.beat(name)
                    else:
                        yield from self.reader_beats(name, leaving=False)
            yield Tick()

    def away(self, seconds):
        self.now += float(seconds)
        yield Tick()

    WORDS = {
        r"dataset (?P<name>\w+) has (?P<streams>.+)": dataset,
        r"dataset (?P<name>\w+) cannot be split: (?P<why>.+)": unsplittable,
        r"(?P<reader>\w+) opens (?:job (?P<job>\w+) of )?(?P<dataset>\w+), (?P<mode>off|dynamic)"
        r"(?:, repetition (?P<repetition>\d+))?(?:, protocol (?P<protocol>\d+))?"
        r"(?:, codec (?P<codec>\w+))?": opens,
        r"(?P<worker>\w+) comes": worker_comes,
        r"(?P<worker>w\d) beats(?P<draining>, draining)?": worker_beats,
        r"a beat of (?P<worker>\w+)'s last life arrives": late_beat,
        r"(?P<worker>\w+)'s line breaks": line_breaks,
        r"(?P<worker>\w+) beats with orders as of (?P<as_of>\d+)": stray_beat,
        r"(?P<worker>\w+) made (?P<made>\d+) of task (?P<task>\d+), (?P<taken>\d+) taken"
        r"(?:, state (?P<state>\d+))?(?:, (?P<end>done|failed))?(?:, as of (?P<as_of>\d+))?": tells,
        r"(?P<worker>\w+) no longer runs task (?P<task>\d+)": stops,
        r"(?P<worker>\w+) asks for task (?P<task>\d+)(?:, stream (?P<stream>\d+))?"
        r" at (?P<position>\d+)": asks,
        r"(?P<reader>r\d) beats(?P<leaving>, leaving)?": reader_beats,
        r"(?P<reader>\w+) took (?P<floor>\d+) of task (?P<task>\d+)": takes,
        r"(?P<reader>\w+) reads iteration (?P<iteration>\d+)": reads_at,
        r"(?P<seconds>[\d.]+)s pass(?:, (?P<who>.+) beats?)?": passes,
        r"the dispatcher is away for (?P<seconds>[\d.]+)s": away,
    }

    # --- what was answered ---

    def show(self, effect):
        match effect:
            case Write(fact):
                return f"= {self.fact(fact)}"
            case Send(worker, _, Assignment() as order):
                self.orders[worker] = order
                if worker in self.progress:
                    runs = {run.task for run in order.runs}
                    kept = {t: p for t, p in self.progress[worker].items() if t in runs}
                    self.progress[worker] = kept
                return f"-> {worker}: {self.order(order)}"
            case Send(worker, _, SplitGrant(task, _, stream, position, splits)):
                where = f"stream {stream} of " if stream else ""
                return f"-> {worker}: {where}task {task} at {position}: {_splits(splits)}"
            case Send(worker, _, WorkerRefused(failure)):
                return f"-> {worker} is refused: {failure.error()}"
            case Show(view):
                if view.standing is Standing.LIVE:
                    self.reader[view.token] = view.reader
                else:
                    self.reader[view.token] = None
                return f"-> {view.token}: {self.view(view)}"
            case HangUp(token, failure):
                return f"-> {token} hears {failure.kind}: {failure.error()}"
            case Answer(_, Opened(iteration, job)):
                self.iteration[self.opening] = iteration
                return f"-> {self.opening}: job {job}, iteration {iteration}"
            case Answer(_, Failure() as failure):
                return f"-> {failure.kind}: {failure.error()}"
            case Answer(_, dataset):
                return f"-> dataset {dataset}"
            case ListFiles(_, patterns):
                return f"lists {', '.join(p.patterns[0] for p in patterns.values())}"

    def order(self, order):
        runs = [
            f"task {run.task} attempt {run.attempt}"
            + "".join(f" {_splits(log.splits)}" for log in run.logs if log.splits)
            + (f" from element {run.state.number}" if run.state.number else "")
            for run in order.runs
        ]
        parted = [f"reader {r} {s.value}" for r, s in order.readers.items() if s.value != "live"]
        return "; ".join([*runs, *parted]) or "nothing to run"

    def view(self, view):
        said = [f"reader {view.reader} {view.standing.value}"]
        for name, task in view.tasks.items():
            where = f"at {task.worker}" if task.worker else "nowhere"
            lost = f", lost with {task.lost}" if task.lost else ""
            failed = f", {task.failure.kind}" if task.failure else ""
            said.append(f"task {name} {where}{lost}{failed}")
        if view.finished:
            said.append("finished")
        if view.waiting_for:
            said.append(f"waits for {view.waiting_for}")
        return "; ".join(said)

    def fact(self, fact):
        match fact:
            case f.DatasetRegistered(dataset):
                return f"dataset {dataset} is registered"
            case f.JobMade(job, parameters):
                return f"job {job} is made of {parameters.dataset}, {parameters.mode.value}"
            case f.IterationOpened(iteration, job, repetition):
                return f"iteration {iteration} is repetition {repetition} of {job}"
            case f.Finished(iteration):
                return f"iteration {iteration} is finished"
            case f.IterationForgotten(iteration):
                return f"iteration {iteration} is forgotten"
            case f.WorkerSeen(worker, incarnation):
                return f"{worker} is there, life {incarnation}"
            case f.WorkerLost(worker):
                return f"{worker} is lost"
            case f.TaskMade(task, iteration, index):
                return f"task {task} of iteration {iteration}, number {index}"
            case f.AttemptStarted(task, attempt, worker):
                return f"task {task} runs on {worker}, attempt {attempt}"
            case f.AttemptEnded(task):
                return f"task {task} runs nowhere"
            case f.Settled(task):
                return f"task {task} is settled"
            case f.SplitsGranted(task, stream, splits):
                where = f"of stream {stream} " if stream else ""
                return f"task {task} gets {where}{_splits(splits)}"
            case f.StateSaved(task, state):
                return f"task {task} can go on from element {state.number}"
            case f.TaskDone(task):
                return f"task {task} is done"
            case f.TaskFailed(task, failure):
                return f"task {task} failed: {failure.error()}"
            case f.TaskLost(task, worker):
                return f"task {task} is lost with {worker}"
            case f.ReaderJoined(iteration, reader, token):
                return f"{token} is reader {reader} of iteration {iteration}"
            case f.ReaderParted(_, reader, standing, taken):
                known = "".join(f", took {t.floor} of task {n}" for n, t in taken.items())
                return f"reader {reader} {standing.value}{known}"


def _splits(splits):
    return " ".join(
        f"{split.start}-{split.stop}" + (f"({' '.join(split.names)})" if split.names else "")
        if split
        else "end"
        for split in splits
    )


def play(script):
    """Run *script*, and return it with the mind's true answers."""
    return Player().play(script)


if __name__ == "__main__":
    for path in sorted(Path(__file__).with_name("scenarios").glob("*.txt")):
        played = play(path.read_text())
        if "--rewrite" in sys.argv:
            path.write_text(played)
        elif played != path.read_text():
            print(f"{path.name} differs")
