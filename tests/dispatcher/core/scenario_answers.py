"""What the dispatcher's core answers in a scenario, as readable text."""

from dataclasses import replace

from penstock.protocol.calls import OpenIterationReply, RegisteredDataset
from penstock.protocol.control import Assignment, SplitGrant, WorkerRefused
from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import Failure, ReaderStatus
from penstock_dispatcher.core import datasets
from penstock_dispatcher.core import facts as f
from penstock_dispatcher.core.events import (
    AppendFact,
    CloseReaderStream,
    ListSourceFiles,
    ProbeWorker,
    ReplyToCall,
    ReportUncaught,
    SendCommand,
    SendView,
)

DATE = 1_800_000_000.0
"""What the calendar says at the start of the clock."""


class Answers:
    """Writes down what the core answers, and remembers what each peer was sent."""

    def __init__(self):
        self.facts = []
        self.assignments, self.progress = {}, {}
        self.iteration, self.reader = {}, {}
        self.reports, self.fences, self.barriers = {}, {}, {}
        self.states = {}
        self.opener = None

    def show(self, effect):
        match effect:
            case AppendFact(fact):
                self.facts.append(fact)
                return f"= {self.fact(fact)}"
            case ProbeWorker(worker):
                return f"probe {worker}"
            case SendCommand(worker, _, Assignment() as assignment):
                self.assignments[worker] = assignment
                if worker in self.progress:
                    tasks = {run.task for run in assignment.tasks}
                    kept = {t: p for t, p in self.progress[worker].items() if t in tasks}
                    self.progress[worker] = kept
                return f"-> {worker}: {self.assignment(assignment)}"
            case SendCommand(worker, _, SplitGrant(task, _, provider, position, splits)):
                where = f"provider {provider} of " if provider else ""
                return f"-> {worker}: {where}task {task} at {position}: {_splits(splits)}"
            case SendCommand(worker, _, WorkerRefused(failure)):
                return f"-> {worker} is refused: {failure.error()}"
            case SendView(view):
                self.see(view)
                return f"-> {view.session}: {self.view(view)}"
            case CloseReaderStream(session, failure):
                return f"-> {session} hears {failure.kind}: {failure.error()}"
            case ReplyToCall(_, OpenIterationReply(iteration, job, _, _, before)):
                self.iteration[self.opener] = iteration
                used = f"; {before}" if before else ""
                return f"-> {self.opener}: job {job}, iteration {iteration}{used}"
            case ReplyToCall(_, Failure() as failure):
                return f"-> {failure.kind}: {failure.error()}"
            case ReplyToCall(_, RegisteredDataset(dataset_id, dataset, codec, spec)):
                spec = f", spec {spec.decode()}" if spec else ""
                return f"-> {dataset_id} is {dataset} with codec {codec.value}{spec}"
            case ReplyToCall(_, None):
                return "-> it leaves"
            case ReplyToCall(_, dataset):
                return f"-> dataset {dataset}"
            case ReportUncaught(message):
                return f"! {message}"
            case ListSourceFiles(_, patterns):
                return f"lists {', '.join(p.patterns[0] for p in patterns.values())}"

    def see(self, view):
        live = view.status is ReaderStatus.LIVE
        self.reader[view.session] = view.reader if live else None
        fences = self.fences.setdefault(view.session, {})
        for name, task in view.tasks.items():
            fences[name] = task.attempt + (task.worker is None)
        for result in view.save_results:
            self.barriers.pop(view.session, None)
            if result.state:
                self.states[view.session] = result.state
        if not live and view.session in self.reports:
            kept = self.reports[view.session]
            self.reports[view.session] = {
                n: replace(h, buffered=RangeSet()) for n, h in kept.items()
            }

    def assignment(self, assignment):
        parts = [
            f"task {run.task} attempt {run.attempt}"
            + "".join(f" {_splits(log.splits)}" for log in run.logs if log.splits)
            + (f" from element {run.checkpoint.number}" if run.checkpoint.number else "")
            + (f" acked {_spans(run.acked.ranges)}" if run.attempt > 1 and run.acked.ranges else "")
            + "".join(
                f", reader {r} unacked {_spans(unacked)}" for r, unacked in run.unacked.items()
            )
            for run in assignment.tasks
        ]
        if assignment.drain:
            parts.append("drain")
        removed = [
            f"reader {r} {s.value}" for r, s in assignment.readers.items() if s.value != "live"
        ]
        return "; ".join([*parts, *removed]) or "nothing to run"

    def view(self, view):
        parts = [f"reader {view.reader} {view.status.value}"]
        for name, task in view.tasks.items():
            where = f"at {task.worker}" if task.worker else "nowhere"
            failed = f", {task.failure.kind}" if task.failure else ""
            parts.append(f"task {name} {where}{failed}")
        if view.finished:
            parts.append("finished")
        parts += [_result(result) for result in view.save_results]
        if view.waiting_for:
            readers = "silent readers, " if view.on_readers else ""
            parts.append(f"waits for {readers}{view.waiting_for}")
        parts += [view.held_by] if view.held_by else []
        return "; ".join(parts)

    def fact(self, fact):
        match fact:
            case datasets.DatasetRegistered(dataset):
                return f"dataset {dataset} is registered"
            case datasets.IdRegistered(dataset_id, dataset, codec, spec, explicit):
                chosen = "chosen" if explicit else "made"
                spec = f", spec {spec.decode()}" if spec else ""
                return f"{dataset_id}, {chosen}, is {dataset} with codec {codec.value}{spec}"
            case datasets.DatasetForgotten(dataset):
                return f"dataset {dataset} is forgotten"
            case f.JobCreated(job, parameters):
                return f"job {job} is made of {parameters.dataset}, {parameters.mode.value}"
            case f.IterationOpened(iteration, job, repetition):
                return f"iteration {iteration} is repetition {repetition} of {job}"
            case f.IterationRestored(iteration, job, repetition):
                tasks = "".join(
                    f", task {at.task} from element {at.checkpoint.number}" for at in fact.tasks
                )
                return f"iteration {iteration} is repetition {repetition} of {job} again{tasks}"
            case f.SaveCompleted(iteration, result):
                return f"iteration {iteration}: {_result(result)}"
            case f.IterationFinished(iteration):
                return f"iteration {iteration} is finished"
            case f.IterationDeleted(iteration, superseded, unfinished):
                how = "superseded" if superseded else "forgotten"
                left = f" after {unfinished.acked} were acked" if unfinished else ""
                return f"iteration {iteration} is {how}{left}"
            case f.WorkerRegistered(worker, incarnation):
                return f"{worker} is there, incarnation {incarnation}"
            case f.WorkerLost(worker):
                return f"{worker} {'is gone' if fact.drained else 'is lost'}"
            case f.TaskCreated(task, iteration, index):
                return f"task {task} of iteration {iteration}, number {index}"
            case f.AttemptStarted(task, attempt, worker, _, unacked, unknown):
                kept = "".join(f", reader {r} unacked {_spans(n)}" for r, n in unacked.items())
                doubt = "".join(f", reader {r} may have acked any" for r in unknown)
                return f"task {task} runs on {worker}, attempt {attempt}{kept}{doubt}"
            case f.AttemptEnded(task):
                return f"task {task} runs nowhere"
            case f.InDoubtResolved(task, _, in_doubt):
                return f"task {task} is resolved" + (f", in doubt {in_doubt}" if in_doubt else "")
            case f.SplitsGranted(task, provider, splits):
                where = f"of provider {provider} " if provider else ""
                return f"task {task} gets {where}{_splits(splits)}"
            case f.CheckpointSaved(task, state):
                return f"task {task} can go on from element {state.number}"
            case f.TaskDone(task):
                return f"task {task} is done"
            case f.TaskFailed(task, failure):
                return f"task {task} failed: {' / '.join(str(failure.error()).splitlines())}"
            case f.ErrorsSkipped(task, count, first):
                kept = f", {len(first)} dead letters" if first else ""
                return f"task {task} left out {count}{kept}"
            case f.ReaderJoined(iteration, reader, session):
                return f"{session} is reader {reader} of iteration {iteration}"
            case f.ReaderRemoved(_, reader, status, acked):
                known = "".join(f", acked {_spans(t.ranges)} of task {n}" for n, t in acked.items())
                doubt = "".join(
                    f", in doubt {_spans(runs)} of task {n}" for n, runs in fact.in_doubt.items()
                )
                return f"reader {reader} {status.value}{known}{doubt}"
            case f.ConsumptionReported(_, reader, consumed, last):
                return f"reader {reader} consumed {consumed}{' in all' if last else ''}"

    def account(self, stats):
        a = stats.account
        parts = (
            f"produced {a.produced}, replayed {a.replayed}, acked {a.acked} of {a.elements}, "
            f"consumed {a.consumed}, redelivered {a.redelivered}, in doubt {a.in_doubt}"
        )
        for doubt in a.doubt_records:
            if doubt.elements is None:
                readers, since = ", ".join(map(str, doubt.readers)), doubt.since - DATE
                parts += f"; unknown: reader {readers}, since {since:.1f}"
        if a.errors:
            parts += f"; left out {a.errors}"
        if a.unreported:
            parts += f"; {a.unreported} unreported"
        return "; ".join([parts, *stats.faults])


def _spans(runs):
    return " ".join(f"{start}-{stop}" for start, stop in runs.spans) or "nothing"


def _result(result):
    label = f" {result.label}" if result.label else ""
    if result.failure is not None:
        return f"save {result.number}{label} failed: {result.failure.error()}"
    return f"save {result.number}{label}: {result.state.decode()}"


def _splits(splits):
    return " ".join(
        f"{split.start}-{split.stop}" + (f"({' '.join(split.names)})" if split.names else "")
        if split
        else "end"
        for split in splits
    )
