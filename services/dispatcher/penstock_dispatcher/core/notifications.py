"""Workers and readers that must be notified: gathered for many events, notified once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from penstock.protocol.control import ReaderHeartbeat, SaveBarrier, WorkerHeartbeat
from penstock.protocol.types import IterationId, ReaderId, ReaderStatus, WorkerId
from penstock_dispatcher.core.facts import (
    AttemptEnded,
    AttemptStarted,
    Fact,
    IterationDeleted,
    IterationFinished,
    ReaderRemoved,
    RoundsAdvanced,
    SaveCompleted,
    TaskCounted,
    TaskCreated,
    TaskDone,
    TaskFailed,
    TrainerDone,
    WorkerLost,
    WorkerRegistered,
)
from penstock_dispatcher.core.recordings import (
    RecordingCancelled,
    RecordingEnded,
    RecordingPlaced,
)
from penstock_dispatcher.core.records import TaskRecord
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.task_views import IterationView, draw


@dataclass(frozen=True, slots=True)
class ViewRequest:
    """A reader that is to get a view: which heartbeat that answers, and at which barrier it is.

    It knows its tasks as of revision *known*.
    """

    iteration: IterationId
    reader: ReaderId
    status: ReaderStatus
    seq: int | None
    barrier: SaveBarrier | None
    known: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """The reasons why an iteration waits, in words; whether silent readers are among that."""

    words: str = ""
    on_readers: bool = False


@dataclass(frozen=True, slots=True)
class SeenWait:
    """The reasons why an iteration waited, as *view* has it; it may be shown *until* then."""

    until: float
    view: IterationView
    wait: Wait


@dataclass(slots=True)
class Notifications:
    """Changes since the last views of workers and readers."""

    workers: dict[WorkerId, None] = field(default_factory=dict)
    iterations: dict[IterationId, None] = field(default_factory=dict)
    released: dict[IterationId, int] = field(default_factory=dict)
    """Where rounds were released since: up to which there were some before."""
    view_requests: dict[str, ViewRequest] = field(default_factory=dict)
    """By the reader's session."""
    revisions: dict[WorkerId, int] = field(default_factory=dict)
    """As of which revision each worker's assignment is."""
    views: dict[IterationId, IterationView] = field(default_factory=dict)
    """As they were drawn last; those of *stale* are drawn again before they are shown."""
    stale: set[IterationId] = field(default_factory=set)
    waits: dict[IterationId, SeenWait] = field(default_factory=dict)
    """Of iterations with many tasks."""

    def __bool__(self) -> bool:
        return bool(self.workers or self.iterations or self.released or self.view_requests)

    def answer(self, heartbeat: ReaderHeartbeat, reader: ReaderId, status: ReaderStatus) -> None:
        """Note that a reader waits for a view."""
        self.view_requests[heartbeat.session] = ViewRequest(
            heartbeat.iteration,
            reader,
            status,
            heartbeat.seq,
            heartbeat.barrier,
            heartbeat.tasks_as_of,
        )

    def view(self, state: DispatcherState, name: IterationId) -> IterationView:
        """Return what readers of an iteration that is not finished see of it."""
        known = self.views.get(name)
        if known is None or name in self.stale:
            known = self.views[name] = draw(state, state.iterations[name], known)
            self.stale.discard(name)
        return known

    def on_worker_heartbeat(self, heartbeat: WorkerHeartbeat, revision: int) -> None:
        """Note the revision of a worker's assignment: it gets a newer one if there is one.

        The first heartbeat of a stream is always answered. *revision* is the present one: the
        assignment of a worker that a restart restored is as new as the state.
        """
        if (
            heartbeat.revision < self.revisions.setdefault(heartbeat.worker, revision)
            or heartbeat.versions is not None
        ):
            self.workers[heartbeat.worker] = None

    def note(self, state: DispatcherState, fact: Fact) -> None:
        """Note which workers and readers *fact* concerns; *state* is the one before it."""
        match fact:
            case WorkerRegistered() | RecordingPlaced() | RecordingCancelled() | RecordingEnded():
                self._changed(state, _named(state, fact))
            case WorkerLost(worker):
                self._redraw(state.owners[task] for task in state.workers[worker].tasks)
                self.workers.pop(worker, None)
                self.revisions.pop(worker, None)
            case AttemptStarted() | TaskCounted() | AttemptEnded() | TaskDone():
                self._on_task(state, fact)
            case TaskFailed(task) | TrainerDone(task):
                self._redraw([state.owners[task]])
            case ReaderRemoved(iteration):
                self._changed(state, _workers(state.iterations[iteration].tasks.values()))
            case RoundsAdvanced():
                self._on_rounds(state, fact)
            case TaskCreated(_, iteration):
                self.stale.add(iteration)
            case SaveCompleted(iteration):
                self.iterations[iteration] = None
            case IterationFinished(iteration) | IterationDeleted(iteration):
                self._changed(state, _workers(state.iterations[iteration].tasks.values()))
                self.iterations[iteration] = None
                self.views.pop(iteration, None)
                self.waits.pop(iteration, None)
                self.stale.discard(iteration)
            case _:
                pass  # no assignment and no view shows it

    def _on_task(
        self, state: DispatcherState, fact: AttemptStarted | TaskCounted | AttemptEnded | TaskDone
    ) -> None:
        owner = state.owners[fact.task]
        tasks = state.iterations[owner].tasks
        match fact:
            case AttemptStarted(_, _, worker):
                self._changed(state, [worker])
                self._redraw([owner])
            case TaskCounted(task):
                behind = tasks[task].index + 1  # its place is known now
                self._changed(state, _workers(t for t in tasks.values() if t.index == behind))
            case AttemptEnded(task) | TaskDone(task):
                self._changed(state, _workers([tasks[task]]))
                self._redraw([owner])
            case _:
                assert_never(fact)

    def _on_rounds(self, state: DispatcherState, fact: RoundsAdvanced) -> None:
        self.stale.add(fact.iteration)
        rounds = state.iterations[fact.iteration].rounds
        if rounds is None:
            return
        if fact.last is not None and rounds.last is None:
            self.iterations[fact.iteration] = None
        elif fact.entries:  # a floor can wait
            self.released.setdefault(fact.iteration, rounds.released)

    def clear(self) -> None:
        """Clear all: it was sent."""
        self.workers.clear()
        self.iterations.clear()
        self.released.clear()
        self.view_requests.clear()

    def _changed(self, state: DispatcherState, workers: Iterable[WorkerId]) -> None:
        for worker in workers:
            self.workers[worker] = None
            self.revisions[worker] = state.revision + 1

    def _redraw(self, iterations: Iterable[IterationId]) -> None:
        for iteration in iterations:
            self.iterations[iteration] = None
            self.stale.add(iteration)


def _named(
    state: DispatcherState,
    fact: WorkerRegistered | RecordingPlaced | RecordingCancelled | RecordingEnded,
) -> list[WorkerId]:
    """Return the workers that *fact* names, or that host its recording."""
    new = fact.worker if isinstance(fact, WorkerRegistered | RecordingPlaced) else None
    host = None if isinstance(fact, WorkerRegistered) else state.recordings[fact.save_id].worker
    return [worker for worker in (new, host) if worker is not None]


def _workers(tasks: Iterable[TaskRecord]) -> list[WorkerId]:
    return [task.worker for task in tasks if task.worker is not None]
