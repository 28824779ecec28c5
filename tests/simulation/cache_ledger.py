"""What training loops of a cached job were given. Facts and the account are held against it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.protocol.cache import TrainerProgress
from penstock.protocol.control import ReaderHeartbeat, ReaderView
from penstock.protocol.types import IterationId, ReaderId, ReaderStatus, TaskId
from penstock_dispatcher.core.account import Account, TrainerAccount
from penstock_dispatcher.core.facts import (
    AttemptStarted,
    CheckpointSaved,
    Fact,
    IterationOpened,
    ReaderJoined,
    ReaderRemoved,
    TaskCreated,
    TrainerDone,
    TrainersReported,
    WorkerLost,
)
from penstock_dispatcher.core.state import DispatcherState
from simulation.cache_pass import Task, check_once
from simulation.cache_plan import CachePlan
from simulation.pipeline import Element
from simulation.world import LawBroken, World

Placed = Callable[[TaskId], set[str]]
"""Of a task: the trainers that have a place, for the dispatcher."""


class CacheLedger:
    """All passes of a cached job."""

    def __init__(self, world: World, plan: CachePlan, placed: Placed) -> None:
        self.world, self.plan, self._placed = world, plan, placed
        self.tasks: dict[TaskId, Task] = {}
        self.passes: dict[int, IterationId] = {}
        """The iterations, by repetition."""
        self.trainers: dict[str, str] = {}
        """The trainer of each session."""
        self.expired: set[ReaderId] = set()
        self.ever_expired: set[ReaderId] = set()
        self._readers: dict[ReaderId, str] = {}
        self._reads: dict[str, IterationId] = {}
        """What each session reads."""
        self._moved = False
        """Whether a worker may have died with something that it had not reported."""
        self._told_end: dict[IterationId, set[str]] = {}

    def tasks_of(self, iteration: IterationId) -> dict[TaskId, Task]:
        """Return the tasks of a pass."""
        return {name: task for name, task in self.tasks.items() if task.iteration == iteration}

    # --- training loops ---

    def consume(
        self, session: str, reader: ReaderId | None, task: TaskId, number: int, element: Element
    ) -> None:
        """Note that a loop was given an element."""
        known, trainer = self.tasks[task], self.trainers[session]
        self.world.stats["takes"] += 1
        if self.world.lines:
            self.world.note(session, f"takes {number} of task {task} for {trainer} as {reader}")
        if known.contents.setdefault(number, element) != element:
            raise LawBroken(f"law 5: number {number} of task {task} stands for two elements")
        if reader in self.expired:
            raise LawBroken("law 1: a reader that expired hands out an element")
        place = known.place(trainer)
        place.takes.setdefault(number, []).append(reader)
        if number in place.gone:
            place.gone.discard(number)
            place.again = True
            self.world.stats["taken though given up"] += 1
            if known.attempts == 1:
                raise LawBroken(f"law 2: {trainer} takes {number} of task {task}, and skipped it")

    def comes_to_barrier(self, iteration: IterationId, session: str, number: int) -> None:
        """Cached jobs are not saved."""

    # --- what a dispatcher hears and says ---

    def heard(self, heartbeat: ReaderHeartbeat) -> None:
        """See `Witness.heard`: what readers say is known here before they say it."""
        self._reads[heartbeat.session] = heartbeat.iteration

    def told(self, view: ReaderView) -> None:
        """See `Witness.told`."""
        trainer = self.trainers[view.session]
        iteration = self._reads[view.session]
        tasks = self.tasks_of(iteration)
        if view.cache is not None:
            told = view.cache.skipped + view.cache.before
            places = [task.place(trainer) for task in tasks.values()]
            most = sum(len(one.gone) + one.doubts(self.ever_expired) for one in places)
            if told > most and not any(one.again for one in places):
                raise LawBroken(f"law 2: {trainer} is told of {told} left out, and {most} were")
        if view.finished:
            if view.reader not in self._readers:
                return  # a pass that was over before it came
            self._told_end.setdefault(iteration, set()).add(trainer)
            if left := [name for name, task in tasks.items() if not task.has_all(trainer)]:
                raise LawBroken(f"law 8: {trainer} is told the end, and lacks some of {left}")

    # --- facts ---

    def restarted(self, state: DispatcherState) -> None:
        """See `Witness.restarted`: what else was decided is void."""
        for name, iteration in state.iterations.items():
            if not iteration.finished:
                for task in self.tasks_of(name).keys() - iteration.tasks.keys():
                    del self.tasks[task]
            for task, known in iteration.tasks.items():
                done = {trainer for trainer, one in known.trainers.items() if one.done}
                self.tasks[task].done, self.tasks[task].attempts = done, known.attempt
            removed = {
                reader
                for reader, one in iteration.readers.items()
                if one.status is ReaderStatus.EXPIRED
            }
            self.expired = (self.expired - iteration.readers.keys()) | removed

    def decided(self, fact: Fact) -> None:
        """See `Witness.decided`."""
        match fact:
            case IterationOpened(iteration, _, repetition):
                self.passes[repetition] = iteration
            case TaskCreated(task, iteration, index):
                if self._told_end.get(iteration):
                    raise LawBroken("law 8: a task is created when a trainer was told the end")
                self.tasks[task] = Task(iteration, index)
            case AttemptStarted(task, attempt):
                self.world.stats["attempts again"] += attempt > 1
                self.tasks[task].attempts = attempt
                self._moved |= attempt > 1
                self._check(task, fact.trainers)
            case TrainersReported(task, trainers):
                self._check(task, trainers)
            case CheckpointSaved(task, checkpoint):
                self._kept(task, checkpoint.number)
            case TrainerDone(task, trainer, progress):
                self._check(task, {trainer: progress})
                known = self.tasks[task]
                known.done.add(trainer)
                if known.total != progress.acked.floor or not known.has_all(trainer):
                    raise LawBroken(f"law 8: task {task} is done for {trainer}, which lacks some")
            case WorkerLost():
                self._moved = True
            case ReaderJoined(_, reader, session):
                self._readers[reader] = self.trainers[session]
            case ReaderRemoved(_, reader, status, acked):
                trainer = self._readers[reader]
                for task, numbers in acked.items():
                    self._check(task, {trainer: TrainerProgress(numbers)})
                if status is ReaderStatus.EXPIRED:
                    self.expired.add(reader)
                    self.ever_expired.add(reader)
                    self.world.stats["expired"] += 1

    def _check(self, task: TaskId, trainers: object) -> None:
        assert isinstance(trainers, dict)
        for trainer, known in trainers.items():
            who = f"{trainer} of task {task}"
            self.tasks[task].place(trainer).check(who, known, self.ever_expired)

    def _kept(self, task: TaskId, number: int) -> None:
        """Law 6: what is before a kept state was had by all that have a place, or skipped."""
        placed = self._placed(task)
        for trainer, place in self.tasks[task].places.items():
            if trainer not in placed:
                place.forgone = max(place.forgone, number)
            elif place.floor < number:
                where = f"{trainer} is at {place.floor} of task {task}"
                raise LawBroken(f"law 6: a state is kept at {number}, and {where}")

    def too_late(self, iteration: IterationId) -> set[str]:
        """Return the trainers that came when a pass was over, and were told so."""
        came = {self.trainers[session] for session, one in self._reads.items() if one == iteration}
        return came - self._told_end.get(iteration, set())

    # --- the end ---

    def check_end(self, iteration: IterationId, account: Account | None, who: set[str]) -> None:
        """Hold all that happened in a pass against what should, for those *who* read it all."""
        tasks = self.tasks_of(iteration)
        repeats = check_once(tasks.values(), self.ever_expired)
        self.world.stats["repeats"] += sum(repeats.values())
        for trainer in sorted(who):
            if left := [name for name, task in tasks.items() if not task.has_all(trainer)]:
                raise LawBroken(f"law 8: {trainer} is at the end, and lacks some of {left}")
        made = sum(task.total or 0 for task in tasks.values())
        whole = self.plan.made * (1 if self.plan.dynamic else len(tasks))
        if who and made != whole:
            raise LawBroken(f"law 2: {made} elements were made of {whole}")
        if account is None:
            return
        if faults := account.faults():
            raise LawBroken(f"account: {'; '.join(faults)}")
        self.world.stats["doubted"] += account.in_doubt
        # Where it is not over, workers that are lost may have had more to tell of readers.
        if account.finished and account.bounded and sum(repeats.values()) > account.in_doubt:
            raise LawBroken(f"law 1: {repeats} repeats, and only {account.in_doubt} are in doubt")
        for one in account.trainers:
            if one.trainer in who:
                self._check_trainer(one, list(tasks.values()), made, repeats[one.trainer])

    def _check_trainer(
        self, one: TrainerAccount, tasks: list[Task], made: int, repeats: int
    ) -> None:
        """Laws 2 and 3."""
        places, stats = [task.place(one.trainer) for task in tasks], self.world.stats
        took = sum(len(place.takes) for place in places)
        left_out, doubts = (
            one.skipped + one.before,
            sum(p.doubts(self.ever_expired) for p in places),
        )
        stats["elements"] += took
        stats["skipped"] += one.skipped
        stats["before"] += one.before
        stats["not counted as left out"] += max(0, made - took - left_out)
        if one.acked != made:
            raise LawBroken(f"law 2: {one.acked} of {made} are acked for {one.trainer} at the end")
        if not self._moved and not doubts and took + left_out != made:
            raise LawBroken(f"law 2: {one.trainer} took {took} of {made}, {left_out} are left out")
        if took + left_out > made + doubts and not any(place.again for place in places):
            raise LawBroken(f"law 2: {one.trainer} took {took} of {made}, {left_out} are left out")
        # What it was given again counts as consumed: so much may hide what it never had.
        if not left_out and made - took > one.unexplained + repeats:
            raise LawBroken(f"law 3: {one.trainer} took {took} of {made}, and is told of none")


@dataclass(frozen=True, slots=True)
class TrainerTaken:
    """See `simulation.reader.Taken`: the ledger as a reader of *trainer* has it."""

    ledger: CacheLedger
    trainer: str

    def consume(
        self, session: str, reader: ReaderId | None, task: TaskId, number: int, element: Element
    ) -> None:
        """See `CacheLedger.consume`."""
        self.ledger.consume(session, reader, task, number, element)

    def comes_to_barrier(self, iteration: IterationId, session: str, number: int) -> None:
        """See `CacheLedger.comes_to_barrier`."""
        self.ledger.comes_to_barrier(iteration, session, number)

    def is_acked(self, task: TaskId, number: int) -> bool:
        """Return whether a number is not given to the trainer any more."""
        return number in self.ledger.tasks[task].place(self.trainer).over
