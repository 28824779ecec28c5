"""Scenarios: a run of the dispatcher's core as readable text.

Lines starting with ``>`` are what the core answered; all others are what happened. Run
``python -m tests.dispatcher.core.scenario --rewrite`` to rewrite the answers, and read the diff
before you commit it. ``= fact`` is committed, ``-> peer`` is sent.
"""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

from penstock.protocol.calls import Registration
from penstock.protocol.control import (
    AttemptProgress,
    ElementCounts,
    ReaderHeartbeat,
    SaveBarrier,
    SkippedError,
    SkippedErrors,
    SplitRequest,
    TaskReport,
    UnreachableWorker,
    WorkerHeartbeat,
)
from penstock.protocol.definition import UNLISTED, SplitProviderSpec
from penstock.protocol.loop_time import LinkTraffic, ReaderProcess
from penstock.protocol.nearness import WorkerProfile
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.splits import FilePattern
from penstock.protocol.types import PROTOCOL, Checkpoint, Codec, Failure, Mode, TaskId, Versions
from penstock_dispatcher.core.events import (
    DrainWorker,
    FindDataset,
    ListSourceFiles,
    OpenIteration,
    ReaderDisconnected,
    RegisterDataset,
    StartHistory,
    Tick,
    WorkerDead,
    WorkerDisconnected,
)
from penstock_dispatcher.core.listings import outline
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.state_machine import DispatcherCore
from tests.dispatcher.core.scenario_answers import DATE, Answers
from tests.openings import opening

VERSIONS = Versions(PROTOCOL, "3.11.7", "0.1.0")


class Player(Answers):
    """Reads what happens, passes it to the core, and writes down what it answers."""

    def __init__(self):
        super().__init__()
        self.now = 1000.0
        self.settings = CoreSettings()
        self.begin(DispatcherState())
        list(self.handle(StartHistory(0)))
        self.incarnation, self.ended, self.python = {}, {}, {}
        self.seqs, self.consumed, self.unreachable = {}, {}, {}
        self.hosts, self.links = {}, {}
        self.files, self.listed = {}, {}
        self.calls = 0
        self.errors = {}

    def begin(self, state):
        self.core = DispatcherCore(state, self.settings, self.now, DATE + self.now)
        self.core.ctx.address = "here:1"

    def play(self, script):
        out = []
        for line in script.splitlines():
            if line.startswith(">"):
                continue
            out.append(line)
            if line and not line.startswith("#"):
                self.account_text = None
                out += [f"> {answer}" for event in self.read(line) for answer in self.handle(event)]
                out += [f"> {self.account_text}"] if self.account_text else []
                out += [f"> {answer}" for answer in self.shown(self.core.take_views(self.now))]
        return "\n".join(out) + "\n"

    def handle(self, event):
        return list(self.shown(self.core.handle(event, self.now)))

    def shown(self, effects):
        for effect in effects:
            yield self.show(effect)
            if isinstance(effect, ListSourceFiles):
                names = {i: self.files[p.patterns[0]] for i, p in effect.patterns.items()}
                listings = {i: outline(found) for i, found in names.items()}
                self.listed.update((listings[i].digest, names[i]) for i in names)
                yield from self.handle(replace(effect.event, names=names, listings=listings))

    # --- what happened ---

    def read(self, line):
        for pattern, method in self.PATTERNS.items():
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
            count = int(passes or 1)
            repeats = (("", count),) if count > 1 else ()
            plans.append(SplitProviderSpec((".0",), size, pattern, count, int(align or 1), repeats))
        yield RegisterDataset(1, VERSIONS, name, tuple(plans), "")

    def registers(self, name, dataset_id, codec, spec):
        """Register a dataset again, to be read by an id."""
        asked = Registration(dataset_id or "", Codec(codec or "none"), (spec or "").encode())
        yield RegisterDataset(
            1, VERSIONS, name, (), "", outline=f"range({name})", registration=asked
        )

    def finds(self, dataset_id):
        yield FindDataset(1, dataset_id)

    def unsplittable(self, name, why):
        yield RegisterDataset(1, VERSIONS, name, (), why)

    def nondeterministic(self, name, units, why):
        stream = SplitProviderSpec((".0",), int(units))
        yield RegisterDataset(1, VERSIONS, name, (stream,), "", why)

    def made_by(self, name, units, python):
        stream = SplitProviderSpec((".0",), int(units))
        yield RegisterDataset(1, VERSIONS, name, (stream,), "", "", "", python)

    def opens(  # noqa: PLR0913
        self,
        reader,
        job,
        dataset,
        mode,
        repetition,
        protocol,
        codec,
        skips,
        most,
        saved=None,
        by=None,
        seed=None,
    ):
        request = opening(
            Versions(int(protocol or PROTOCOL), "3.11.7", "0.1.0"),
            dataset,
            Mode(mode),
            job,
            int(repetition or 1),
            Codec(codec or "none"),
            restore=self.states[saved] if saved else b"",
            dataset_id=by or "",
            on_error="skip" if skips else "raise",
            max_errors=None if most is None else int(most),
            seed=None if seed is None else int(seed),
        )
        self.calls += 1
        self.opener = reader
        yield OpenIteration(self.calls, request, seed=5)

    def heartbeat(self, worker, draining=False, first=False):
        return WorkerHeartbeat(
            worker,
            self.incarnation[worker],
            self.assignments[worker].revision if worker in self.assignments else -1,
            dict(self.progress.get(worker, {})),
            frozenset(self.ended.get(worker, ())),
            draining,
            replace(VERSIONS, python=f"{self.python[worker]}.7") if first else None,
        )

    def worker_comes(self, worker, python=None, slots=None):
        self.python[worker] = python or "3.11"
        self.incarnation[worker] = self.incarnation.get(worker, 0) + 1
        self.assignments.pop(worker, None)
        self.progress.pop(worker, None)
        profile = WorkerProfile(slots=int(slots)) if slots else None
        yield replace(self.heartbeat(worker, first=True), profile=profile)

    def worker_heartbeats(self, worker, draining):
        yield self.heartbeat(worker, bool(draining))

    def comes_by_another_clock(self, worker):
        self.incarnation[worker] -= 5
        self.assignments.pop(worker, None)
        self.progress.pop(worker, None)
        yield self.heartbeat(worker, first=True)

    def counted_heartbeat(self, worker, seq):
        yield replace(self.heartbeat(worker), seq=int(seq))

    def copy_heartbeats(self, worker, seq, revision):
        yield replace(self.heartbeat(worker, first=True), seq=int(seq), revision=int(revision))

    def late_heartbeat(self, worker):
        yield WorkerHeartbeat(worker, self.incarnation[worker] - 1, 0)

    def stream_breaks(self, worker):
        yield WorkerDisconnected(worker, self.incarnation[worker])

    def no_process_listens(self, worker):
        yield WorkerDead(worker, self.incarnation[worker])

    def drains(self, worker):
        yield DrainWorker(1, worker)

    def reader_stream_breaks(self, reader):
        yield ReaderDisconnected(self.iteration[reader], reader)

    def collects(self):
        self.settings = replace(self.settings, gc_dynamic=True)
        self.core.ctx.settings = self.settings
        return ()

    def lists(self, workers):
        entries = tuple(re.split(r", | and ", workers))
        self.settings = replace(self.settings, worker_addresses=entries)
        self.core.ctx.settings = self.settings
        return ()

    def reassigns(self):
        self.settings = replace(self.settings, reassign_static_tasks=True)
        self.core.ctx.settings = self.settings
        return ()

    def restarts(self):
        state = DispatcherState()
        for fact in self.facts:
            state.apply(fact)
        assert state == self.core.state
        for iteration in state.iterations.values():
            for source in iteration.providers:
                if source.listing is not None:
                    source.set_names(self.listed[source.listing.digest], {})
        self.begin(state)
        for worker in self.assignments:
            self.assignments[worker] = replace(self.assignments[worker], revision=-1)
        return ()

    def stray_heartbeat(self, worker, revision):
        yield WorkerHeartbeat(worker, self.incarnation[worker], int(revision))

    def reports_progress(self, worker, task, head, acked, state, place, in_doubt, end, revision):
        attempt = self.attempt(worker, int(task))
        failure = end and end.startswith("failed") and Failure("TransformError", ("map", 3, "no"))
        at = Checkpoint(int(state), (int(place or 1),)) if state else None
        progress = AttemptProgress(
            attempt,
            int(head),
            AckedSet(int(acked)),
            at,
            end == "done",
            failure or None,
            ElementCounts(int(head)),
            int(in_doubt or 0),
            errors=self.errors.get((worker, int(task))),
        )
        self.progress.setdefault(worker, {})[TaskId(int(task))] = progress
        heartbeat = self.heartbeat(worker)
        yield heartbeat if revision is None else replace(heartbeat, revision=int(revision))

    def leaves_out(self, worker, count, task, why):
        name = TaskId(int(task))
        told = {"id": f"{task} {why}", "source": "map", "element": 7, "message": why}
        known = self.errors.get((worker, name), SkippedErrors())
        first = (*known.first, SkippedError(int(count), json.dumps(told))) if why else known.first
        self.errors[worker, name] = SkippedErrors(int(count), first)
        mine = self.progress.setdefault(worker, {})
        before = mine.get(name) or AttemptProgress(self.attempt(worker, name), 0, AckedSet())
        mine[name] = replace(before, errors=self.errors[worker, name])
        yield self.heartbeat(worker)

    def attempt(self, worker, task):
        return next((r.attempt for r in self.assignments[worker].tasks if r.task == task), 1)

    def stops(self, worker, task):
        attempt = self.attempt(worker, int(task))
        self.progress.get(worker, {}).pop(TaskId(int(task)), None)
        self.ended.setdefault(worker, set()).add((TaskId(int(task)), attempt))
        yield self.heartbeat(worker)

    def refuses(self, worker, task, head, why):
        task, attempt = TaskId(int(task)), self.attempt(worker, int(task))
        progress = AttemptProgress(attempt, int(head or 0), AckedSet(), lacking=why)
        self.progress.setdefault(worker, {})[task] = progress
        self.ended.setdefault(worker, set()).add((task, attempt))
        yield self.heartbeat(worker)

    def lacks(self, worker, task, head, why):
        attempt = self.attempt(worker, int(task))
        progress = AttemptProgress(attempt, int(head or 0), AckedSet(), lacking=why)
        self.progress.setdefault(worker, {})[TaskId(int(task))] = progress
        yield self.heartbeat(worker)

    def asks(self, worker, task, provider, position):
        task = TaskId(int(task))
        attempt = self.attempt(worker, task)
        incarnation = self.incarnation[worker]
        yield SplitRequest(worker, incarnation, task, attempt, int(provider or 0), int(position))

    def reader_heartbeats(self, reader, leaving):
        self.seqs[reader] = self.seqs.get(reader, 0) + 1
        kept = self.reports.get(reader, {})
        reports = {
            task: replace(kept.get(task, TaskReport(0, AckedSet())), fence=fence)
            for task, fence in self.fences.get(reader, {}).items()
        }
        yield ReaderHeartbeat(
            self.iteration[reader],
            reader,
            self.reader.get(reader),
            self.seqs[reader],
            reports,
            self.barriers.get(reader),
            bool(leaving),
            self.consumed.get(reader, 0),
            process=self.hosts.get(reader),
            unreachable=self.unreachable.get(reader, {}),
            links=self.links.get(reader, ()),
        )

    def is_on(self, reader, host):
        self.hosts[reader] = ReaderProcess(host, 1)
        yield from ()

    def reads_from(self, reader, worker, transport):
        link = LinkTraffic(worker, transport or "grpc", 1, 100, 100, 10.0)
        self.links[reader] = (link,)
        yield from self.reader_heartbeats(reader, leaving=False)

    def misses(self, reader, workers, seconds):
        self.unreachable[reader] = {
            worker: UnreachableWorker(self.incarnation[worker], float(seconds))
            for worker in workers.split(" and ")
        }
        yield from self.reader_heartbeats(reader, leaving=False)

    def reaches(self, reader):
        del self.unreachable[reader]
        yield from self.reader_heartbeats(reader, leaving=False)

    def acks(self, reader, task, runs, buffered, consumed):
        report = TaskReport(1, AckedSet().union(_runs(runs)), _runs(buffered))
        self.reports.setdefault(reader, {})[TaskId(int(task))] = report
        acked = sum(len(report.acked.ranges) for report in self.reports[reader].values())
        self.consumed[reader] = int(consumed) if consumed else acked
        yield from self.reader_heartbeats(reader, leaving=False)

    def saves(self, reader, label, seconds, number, missing):
        next_save = self.core.state.iterations[self.iteration[reader]].next_save
        number = next_save if number is None else int(number)
        self.barriers[reader] = SaveBarrier(number, label or "", float(seconds), bool(missing))
        yield from self.reader_heartbeats(reader, leaving=False)

    def reads_on(self, reader):
        self.barriers.pop(reader, None)
        yield from self.reader_heartbeats(reader, leaving=False)

    def restores(self, reader, saved, job, dataset, mode, skips, most):
        yield from self.opens(reader, job, dataset, mode, None, None, None, skips, most, saved)

    def accounts(self, iteration):
        every = {i.iteration: i for i in self.core.stats(self.now).iterations}
        self.account_text = self.account(every[int(iteration)])
        return ()

    def reads_at(self, reader, iteration):
        self.iteration[reader] = int(iteration)
        return ()

    def has_id(self, reader, number):
        self.reader[reader] = int(number)
        return ()

    def passes(self, seconds, peers):
        names = [name for name in re.split(r", | and ", peers or "") if name]
        until, heartbeat_at = self.now + float(seconds), self.now + 1.0
        while self.now < until:
            self.now = min(self.now + 0.25, until)
            if self.now >= heartbeat_at:
                heartbeat_at += 1.0
                for name in names:
                    if name in self.incarnation:
                        yield self.heartbeat(name)
                    else:
                        yield from self.reader_heartbeats(name, leaving=False)
            yield Tick()

    def away(self, seconds):
        self.now += float(seconds)
        yield Tick()

    PATTERNS = {
        r"dataset (?P<name>\w+) cannot be split: (?P<why>.+)": unsplittable,
        r"dataset (?P<name>\w+) has (?P<units>\d+) units, made by Python (?P<python>.+)": made_by,
        r"dataset (?P<name>\w+) has (?P<units>\d+) units, nondeterministic: "
        r"(?P<why>.+)": nondeterministic,
        r"dataset (?P<name>\w+) has (?P<streams>.+)": dataset,
        r"(?P<reader>\w+) opens (?:job (?P<job>\w+) of )?(?P<dataset>\w+), "
        r"(?P<mode>off|dynamic|data)"
        r"(?:, repetition (?P<repetition>\d+))?(?:, protocol (?P<protocol>\d+))?"
        r"(?:, codec (?P<codec>\w+))?(?P<skips>, errors are skipped)?"
        r"(?:, at most (?P<most>\d+))?(?:, by (?P<by>\w+))?(?:, seed (?P<seed>\d+))?": opens,
        r"a client registers (?P<name>\w+)(?: as (?P<dataset_id>\w+))?"
        r"(?:, codec (?P<codec>\w+))?(?:, spec (?P<spec>\w+))?": registers,
        r"a client looks up (?P<dataset_id>\w+)": finds,
        r"(?P<worker>\w+) comes(?: with Python (?P<python>[\d.]+))?"
        r"(?: with (?P<slots>\d+) slots)?": worker_comes,
        r"(?P<worker>w\d) sends a heartbeat(?P<draining>, draining)?": worker_heartbeats,
        r"(?P<worker>w\d) comes again, by a clock that was set back": comes_by_another_clock,
        r"(?P<worker>w\d) sends heartbeat number (?P<seq>\d+)": counted_heartbeat,
        r"a copy of (?P<worker>w\d) sends heartbeat number (?P<seq>\d+), as of revision "
        r"(?P<revision>-?\d+)": copy_heartbeats,
        r"a heartbeat of (?P<worker>\w+)'s last incarnation arrives": late_heartbeat,
        r"(?P<worker>w\d)'s stream breaks": stream_breaks,
        r"(?P<reader>r\d)'s stream breaks": reader_stream_breaks,
        r"no process listens at (?P<worker>w\d)": no_process_listens,
        r"(?P<worker>w\d) is to drain": drains,
        r"(?P<worker>\w+) sends a heartbeat as of revision (?P<revision>\d+)": stray_heartbeat,
        r"(?P<worker>\w+) produced (?P<head>\d+) of task (?P<task>\d+), (?P<acked>\d+) acked"
        r"(?:, state (?P<state>\d+)(?: at (?P<place>\d+))?)?(?:, in doubt (?P<in_doubt>\d+))?"
        r"(?:, (?P<end>done|failed))?(?:, as of (?P<revision>\d+))?": reports_progress,
        r"(?P<worker>\w+) no longer runs task (?P<task>\d+)": stops,
        r"(?P<worker>w\d) has no room for task (?P<task>\d+)(?: after (?P<head>\d+))?"
        r", and tries again: (?P<why>.+)": lacks,
        r"(?P<worker>w\d) refuses task (?P<task>\d+)(?: after (?P<head>\d+))?"
        r": (?P<why>.+)": refuses,
        r"(?P<worker>\w+) asks for task (?P<task>\d+)(?:, provider (?P<provider>\d+))?"
        r" at (?P<position>\d+)": asks,
        r"(?P<reader>r\d) sends a heartbeat(?P<leaving>, leaving)?": reader_heartbeats,
        r"(?P<reader>\w+) acked (?P<runs>[\d -]+) of task (?P<task>\d+)"
        r"(?:, unacked (?P<buffered>[\d -]+))?(?:, consumed (?P<consumed>\d+))?": acks,
        r"(?P<reader>\w+) saves(?: (?P<label>\w+))? within (?P<seconds>\d+)s"
        r"(?:, number (?P<number>\d+))?(?P<missing>, without missing)?": saves,
        r"(?P<reader>\w+) reads on": reads_on,
        r"(?P<reader>r\d) is on host (?P<host>\w+)": is_on,
        r"(?P<reader>r\d) reads from (?P<worker>w\d)(?: by (?P<transport>\w+))?": reads_from,
        r"(?P<reader>r\d) tries (?P<workers>.+) in vain for (?P<seconds>[\d.]+)s": misses,
        r"(?P<reader>r\d) reaches all again": reaches,
        r"(?P<reader>\w+) restores what (?P<saved>\w+) saved"
        r" as (?:job (?P<job>\w+) of )?(?P<dataset>\w+), (?P<mode>off|dynamic|data)"
        r"(?P<skips>, errors are skipped)?(?:, at most (?P<most>\d+))?": restores,
        r"(?P<worker>w\d) left out (?P<count>\d+) of task (?P<task>\d+)"
        r"(?:, the first said (?P<why>.+))?": leaves_out,
        r"the account of iteration (?P<iteration>\d+)": accounts,
        r"the list of workers is (?P<workers>.+)": lists,
        r"static tasks go on elsewhere": reassigns,
        r"the dispatcher restarts": restarts,
        r"the dispatcher forgets unfinished jobs, too": collects,
        r"(?P<reader>\w+) is reader (?P<number>\d+)": has_id,
        r"(?P<reader>\w+) reads iteration (?P<iteration>\d+)": reads_at,
        r"(?P<seconds>[\d.]+)s pass(?:, (?P<peers>.+) sends? heartbeats)?": passes,
        r"the dispatcher is away for (?P<seconds>[\d.]+)s": away,
    }


def _runs(text):
    spans = [[int(n) for n in word.split("-")] for word in (text or "").split()]
    return RangeSet.of(*((span[0], span[1]) if span[1:] else (0, span[0]) for span in spans))


def play(script):
    """Run *script*, and return it with the core's true answers."""
    return Player().play(script)


if __name__ == "__main__":
    for path in sorted(Path(__file__).with_name("scenarios").glob("*.txt")):
        played = play(path.read_text())
        if "--rewrite" in sys.argv:
            path.write_text(played)
        elif played != path.read_text():
            print(f"{path.name} differs")
