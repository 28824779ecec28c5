"""Which workers a reader may read and prefers, and which of them do not answer it.

A worker is *tried* from when a stream is opened or breaks until one is answered. A worker that was
tried for a second in vain is *unreached*. The reader logs it, and its heartbeats say so, so that
the dispatcher may move the worker's tasks. The worker stays unreached for a while after its tasks
moved, longer each time; otherwise they would come back at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from penstock.protocol.control import UnreachableWorker
from penstock.protocol.nearness import TargetWorkers, WorkerProfile, distance, may_read
from penstock.protocol.types import TaskId, WorkerId
from penstock.reader.core.effects import AskWorker, ReaderEffect, TellLog
from penstock.reader.core.task_stream import LONG_AGO, TaskStream

SAY_AFTER = 1.0
"""Seconds without an answer after which a worker counts as unreached."""

KEPT, KEPT_LONGEST = 60.0, 600.0
"""Seconds that it counts so when nothing is read there any more: doubled each time."""


ASK_AFTER, ASK_AT_EASE = 3.0, 15.0
"""Seconds of silence after which a worker is asked whether it is there: while the loop has
nothing, and while it has. A network that drops packets does not break a stream for a long time."""


ANSWER_WITHIN = 3.0
"""Seconds that a worker gets to say that it is there."""


@dataclass(slots=True)
class AnswerTrial:
    """A worker that does not answer; *kept* is the seconds to remember it once it is left."""

    incarnation: int
    since: float
    why: str = "no answer yet"
    said: bool = False
    kept: float = KEPT
    until: float = inf
    """The time until which it is remembered, once it is left."""


class Reachability:
    """The workers of *streams* that are tried; adds actions to *effects*."""

    def __init__(self, streams: Mapping[TaskId, TaskStream], effects: list[ReaderEffect]) -> None:
        self._tasks, self._effects = streams, effects
        self._trials: dict[WorkerId, AnswerTrial] = {}
        self._asked: dict[WorkerId, float] = {}

    def tried(self, stream: TaskStream, now: float, why: str = "") -> None:
        """Note that *stream* is being opened, or broke and *why*."""
        worker = stream.worker
        if worker is None:
            return
        trial = self._trials.get(worker)
        if trial is None or trial.incarnation != stream.incarnation:
            trial = self._trials[worker] = AnswerTrial(stream.incarnation, now)
        elif now >= trial.until:
            kept = min(2 * trial.kept, KEPT_LONGEST)
            trial = self._trials[worker] = AnswerTrial(stream.incarnation, now, kept=kept)
        trial.until, trial.why = inf, why or trial.why

    def answered(self, stream: TaskStream, now: float) -> None:
        """Note that the worker of *stream* answered."""
        stream.answered, stream.heard_at = True, now
        if stream.worker is not None:
            self._there(stream.worker, now)

    def silent(self, worker: WorkerId, why: str, now: float) -> None:
        """Note that a worker was asked, and did not answer."""
        since = self._asked.get(worker, now)
        for stream in self._tasks.values():
            if stream.worker == worker and stream.flows and stream.heard_at <= since:
                stream.on_broken(now)
                self.tried(stream, since, why)

    def look(self, now: float, *, starved: bool) -> None:
        """Log which workers do not answer, and forget those that nothing is read from.

        Ask the workers whose streams are open and silent.
        """
        self._ask(now, ASK_AFTER if starved else ASK_AT_EASE)
        for worker, trial in list(self._trials.items()):
            streams = [s for s in self._tasks.values() if s.worker == worker and not s.ended]
            tasks = [stream.task for stream in streams]
            if any(stream.flows for stream in streams):
                self._there(worker, now)  # the other attempts were closed before the answer
            elif tasks and not trial.said and now >= trial.since + SAY_AFTER:
                trial.said = True
                self._effects.append(TellLog(_line(worker, trial, tasks, now)))
            elif not tasks and not trial.said:
                del self._trials[worker]
            elif not tasks and trial.until == inf:
                trial.until = now + trial.kept
            elif now >= trial.until + KEPT_LONGEST:
                del self._trials[worker]

    def due(self) -> float:
        """Return when `look` has something to log."""
        return min((t.since + SAY_AFTER for t in self._trials.values() if not t.said), default=inf)

    def misses(self, stream: TaskStream) -> bool:
        """Return whether the worker of *stream* is known to be unreached."""
        return self.missed_since(stream) < inf

    def missed_since(self, stream: TaskStream) -> float:
        """Return since when the worker of *stream* is unreached; infinity if it is not known so."""
        if not self._trials or stream.worker is None or stream.answered:
            return inf
        trial = self._trials.get(stream.worker)
        known = trial is not None and trial.said and trial.incarnation == stream.incarnation
        return trial.since if trial is not None and known else inf

    def awaited(self, worker: WorkerId) -> str:
        """Return what a wait for *worker* is called in messages."""
        trial = self._trials.get(worker) or AnswerTrial(0, 0.0)
        remedy = f", {REMEDY}" if trial.said else ""
        return f"worker {worker} to answer ({trial.why}{remedy})"

    def level(self, now: float) -> dict[WorkerId, UnreachableWorker]:
        """Return the unreached workers, as heartbeats list them."""
        return {
            worker: UnreachableWorker(trial.incarnation, now - trial.since)
            for worker, trial in self._trials.items()
            if trial.said and now < trial.until
        }

    def _ask(self, now: float, patience: float) -> None:
        heard: dict[WorkerId, float] = {}
        for stream in self._tasks.values():
            if stream.worker is not None and stream.flows:
                heard[stream.worker] = max(stream.heard_at, heard.get(stream.worker, LONG_AGO))
        self._asked = {worker: at for worker, at in self._asked.items() if worker in heard}
        for worker, at in heard.items():
            if now >= max(at, self._asked.get(worker, LONG_AGO) + ANSWER_WITHIN) + patience:
                self._asked[worker] = now
                self._effects.append(AskWorker(worker))

    def _there(self, worker: WorkerId, now: float) -> None:
        trial = self._trials.pop(worker, None)
        if trial is not None and trial.said:
            seconds = now - trial.since
            self._effects.append(TellLog(f"worker {worker} answers, after {seconds:.1f} s"))


class Vicinity:
    """The workers of *target*, as seen from a reader on *host*."""

    def __init__(self, target: TargetWorkers = TargetWorkers.ANY, host: str = "") -> None:
        self.in_process: Mapping[WorkerId, int] = {}
        """The workers in the reader's own process, with their incarnations."""
        self._target, self._host = target, host

    def see(self, in_process: Mapping[WorkerId, int]) -> None:
        """Note which workers are in this process now."""
        self.in_process = in_process

    def reads(self, worker: WorkerId, incarnation: int, profile: WorkerProfile) -> bool:
        """Return whether this reader may read a worker."""
        return may_read(self._target, profile, in_process=self._has(worker, incarnation))

    def rank(self, worker: WorkerId, incarnation: int, profile: WorkerProfile) -> int:
        """Return how far a worker is, where nearer ones are preferred; else 0."""
        if self._target is TargetWorkers.ANY:
            return 0
        return distance(profile, self._host, in_process=self._has(worker, incarnation))

    def _has(self, worker: WorkerId, incarnation: int) -> bool:
        return self.in_process.get(worker) == incarnation


def _line(worker: WorkerId, trial: AnswerTrial, tasks: list[TaskId], now: float) -> str:
    names = ", ".join(map(str, tasks))
    return (
        f"worker {worker} does not answer, for {now - trial.since:.1f} s now ({trial.why}): "
        f"task(s) {names} wait there; {REMEDY}"
    )


REMEDY = "if its address is not one that this host reaches, start it with --worker-address"
