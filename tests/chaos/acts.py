"""Faults, done to a mesh and undone."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, assert_never

from chaos import limits
from chaos.mesh import Mesh, Reader, Worker
from chaos.plan import LEASE, Between, Fault, Kind, Life, Whose
from chaos.processes import Process
from chaos.proxy import Link
from chaos.weights import Changes

T = TypeVar("T")
Undo = Callable[[], float | None]
"""Undo a fault; a number says that it cannot be done yet, and in how many seconds to try again."""

SAVE_WITHIN = 2 * LEASE + 2.0
"""Seconds that readers get to come to a barrier: one that was killed is noticed before."""

MOST_RUNNERS = 2
"""Runners killed in one life: three without progress are an error, rightly."""

MOST_WORKERS = 5

LATE = 0.7
"""Seconds by which connections come late when they come in another order."""


class Act:
    """What was done to *mesh*, and what is still to be undone."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.killed_readers = 0
        self.newest_save: tuple[int, Path] | None = None
        """Number and state of the newest save that all agreed on."""
        self._saves = 0
        self._savers: list[Reader] = []
        self._killed_runners = 0
        self._joining = 0
        self.changes = Changes(mesh.set_weights)

    @property
    def saving(self) -> bool:
        """Whether loops are at a barrier."""
        return bool(self._savers)

    @property
    def dispatcher_up(self) -> bool:
        """Whether the dispatcher answers."""
        return self.mesh.dispatcher.alive and not self.mesh.dispatcher.stopped

    def begin(self, life: Life, restore: Path | None) -> None:
        """Start the training loops of a life."""
        for _ in range(life.readers):
            self.mesh.add_reader(restore=restore)

    @property
    def progress(self) -> int:
        """How many elements came to somebody, roughly."""
        return self.mesh.logged

    @property
    def has_begun(self) -> bool:
        """Whether faults may come: some loop has got something."""
        return bool(self.mesh.logged)

    @property
    def at_end(self) -> bool:
        """Whether a loop saw the end, and none goes on."""
        readers = self.mesh.readers
        return not any(r.process.alive for r in readers) and any(r.saw_end for r in readers)

    def do(self, fault: Fault) -> Undo | None:
        """Do it, and return how to undo it; None if there is nobody to do it to."""
        kind = fault.kind
        match kind:
            case Kind.KILL_WORKER | Kind.STOP_WORKER | Kind.DRAIN_WORKER | Kind.CALL_DRAIN:
                return self._to_worker(fault)
            case Kind.ADD_WORKER:
                return self._add_worker()
            case Kind.KILL_RUNNER | Kind.STOP_RUNNER:
                return self._to_runner(fault)
            case Kind.KILL_DISPATCHER | Kind.STOP_DISPATCHER | Kind.END_DISPATCHER:
                return self._to_dispatcher(kind)
            case Kind.KILL_READER | Kind.STOP_READER | Kind.LEAVE_READER | Kind.ADD_READER:
                return self._to_reader(fault)
            case Kind.FLOW | Kind.RESET | Kind.HALF_CLOSE | Kind.REFUSE | Kind.REORDER:
                return self._to_link(fault)
            case Kind.FULL_DISK | Kind.FEW_FILES | Kind.FEW_THREADS:
                return self._take_room(fault)
            case Kind.GREEDY:
                return self._be_greedy()
            case Kind.CLOCK:
                return self._set_clock(fault)
            case Kind.SAVE:
                return self._save_job()
            case Kind.SET_WEIGHTS:
                self.changes.ask(fault.target)
                return nothing
            case Kind.STORE:
                return self._store(fault)
            case Kind.DIE_AT_WRITE:
                return self._die_at_write(fault)
            case _:
                assert_never(kind)

    def restore_dispatcher(self) -> None:
        """Have the dispatcher run."""
        dispatcher = self.mesh.dispatcher
        dispatcher.proceed()
        if not dispatcher.alive:
            self.mesh.lift_limits()  # somebody made room first
            dispatcher.start()
            dispatcher.wait_ready()

    def restore_all(self) -> None:
        """Have what the pass needs to end: a dispatcher, a worker, a reader."""
        self.restore_dispatcher()
        if not any(worker.process.alive for worker in self.mesh.workers):
            self.mesh.workers[0].start()
        self.restore_readers()

    def restore_readers(self) -> None:
        """Have a reader."""
        if not self._joining and not any(r.process.alive for r in self.mesh.readers):
            self._join()

    def settle(self) -> None:
        """See whether the save under way is judged, everywhere; then let in who waits to join."""
        number = self._saves
        if any(
            r.process.alive and not r.has("s", number) and not r.has("f", number)
            for r in self._savers
        ):
            return
        self._compare(number)
        for _ in range(self._joining):
            # Who joined during a save would be missed at its barrier, or take behind it.
            self.mesh.add_reader(after_save=self._saves)
        self._joining = 0

    def _compare(self, number: int) -> None:
        savers, self._savers = self._savers, []
        alive = [r for r in savers if r.process.alive or r.has("s", number)]
        if alive and all(r.has("s", number) for r in alive):
            paths = [Path(f"{r.log}.{number}.json") for r in alive]
            states = [json.loads(path.read_text()) for path in paths]
            if all(state == states[0] for state in states):
                self.newest_save = number, paths[0]

    def _to_worker(self, fault: Fault) -> Undo | None:
        live = [w for w in self.mesh.workers if w.process.alive and not w.process.stopped]
        worker = one(fault, [w for w in live if w.process.ready])
        if worker is None or (fault.kind is Kind.CALL_DRAIN and not self.dispatcher_up):
            return None
        if fault.kind is Kind.STOP_WORKER:
            worker.process.stop()
            return worker.process.proceed
        pid = worker.process.pid
        if fault.kind is Kind.KILL_WORKER:
            worker.kill()
        elif fault.kind is Kind.DRAIN_WORKER:
            worker.process.terminate()
        elif not self.mesh.drain(worker):
            return None
        return lambda: start_behind(worker, pid)

    def _add_worker(self) -> Undo | None:
        if len(self.mesh.workers) == MOST_WORKERS:
            return None
        self.mesh.add_workers(1)
        return nothing

    def _to_runner(self, fault: Fault) -> Undo | None:
        workers = [w for w in self.mesh.workers if w.process.alive]
        runner = one(fault, [pid for w in workers for pid in w.process.runners()])
        if runner is None:
            return None
        if fault.kind is Kind.STOP_RUNNER:
            _signal(runner, signal.SIGSTOP)
            return lambda: _signal(runner, signal.SIGCONT)
        if self._killed_runners == MOST_RUNNERS:
            return None
        self._killed_runners += 1
        _signal(runner, signal.SIGKILL)
        return nothing

    def _to_dispatcher(self, kind: Kind) -> Undo | None:
        dispatcher = self.mesh.dispatcher
        if not self.dispatcher_up:
            return None
        if kind is Kind.STOP_DISPATCHER:
            dispatcher.stop()
        elif kind is Kind.KILL_DISPATCHER:
            dispatcher.kill()
        else:
            dispatcher.terminate()
            dispatcher.wait(END_WITHIN)
        return self.restore_dispatcher

    def _to_reader(self, fault: Fault) -> Undo | None:
        live = [r for r in self._readers() if r.process.alive and not r.process.stopped]
        reader = one(fault, live)
        if fault.kind is Kind.ADD_READER:
            return self._add(fault, reader)
        leaves = fault.kind is Kind.LEAVE_READER
        if reader is None or (leaves and not self._may_leave(reader, live)):
            return None
        self._touch(reader)
        if fault.kind is Kind.STOP_READER:
            reader.process.stop()
            return reader.process.proceed
        if leaves:
            reader.leaving = True
            reader.process.say("leave")
        else:
            reader.process.kill()
            self.killed_readers += 1
        return self._gone(fault, reader)

    def _readers(self) -> Iterable[Reader]:
        """Return those that faults of readers are for."""
        return self.mesh.readers

    def _touch(self, reader: Reader) -> None:
        """Note that something is done to *reader*."""

    def _may_leave(self, reader: Reader, live: Sequence[Reader]) -> bool:
        """Return whether the pass comes to its end without *reader*."""
        return others_stay(reader, live)

    def _add(self, fault: Fault, reader: Reader | None) -> Undo | None:
        """Start one more, where that is wanted beside *reader*."""
        self._join()
        return nothing

    def _gone(self, fault: Fault, reader: Reader) -> Undo:
        """Return what has somebody read in the place of one that leaves, or was killed."""
        return nothing if fault.kind is Kind.LEAVE_READER else self._join

    def _join(self) -> None:
        self._joining += 1

    def _to_link(self, fault: Fault) -> Undo | None:
        link = one(fault, self._links(fault.between))
        if link is None:
            return None
        match fault.kind:
            case Kind.FLOW:
                link.set(fault.flow, fault.ways)
            case Kind.RESET:
                link.reset()
            case Kind.HALF_CLOSE:
                link.half_close(fault.ways[0])
            case Kind.REORDER:
                link.reorder(LATE)
            case _:
                link.refuse()
        return link.heal

    def _take_room(self, fault: Fault) -> Undo | None:
        restore = self._limit(fault)
        if restore is None:
            return None
        self.mesh.limits.append(restore)
        return restore

    def _limit(self, fault: Fault) -> limits.Restore | None:
        mesh, few = self.mesh, fault.target % 3
        match fault.kind:
            case Kind.FULL_DISK if not self.dispatcher_up:
                return None
            case Kind.FULL_DISK if mesh.disk is not None:
                return limits.fill(mesh.disk)
            case Kind.FULL_DISK:
                return limits.limit_file_size(mesh.dispatcher.pid, mesh.work_dir)
            case Kind.FEW_FILES:
                process = one(fault, self._processes(fault.whose))
                return None if process is None else limits.limit_files(process.pid, few)
            case _:
                worker = one(fault, self._processes(Whose.WORKER))
                if worker is None:
                    return None
                return limits.limit_threads([worker.pid, *worker.fork_servers()], few)

    def _be_greedy(self) -> Undo | None:
        """Have the next element that is made ask for more memory than its runner may have."""
        if self.mesh.greedy.exists() or not any(w.process.alive for w in self.mesh.workers):
            return None
        self.mesh.greedy.touch()
        return nothing

    def _set_clock(self, fault: Fault) -> Undo | None:
        process = one(fault, self._processes(fault.whose))
        if process is None:
            return None
        clock = process.clock
        clock.set(fault.hours)
        return lambda: clock.set(0)

    def _processes(self, whose: Whose) -> Sequence[Process]:
        """Return those that run, and have come to say where they are."""
        match whose:
            case Whose.DISPATCHER:
                found = [self.mesh.dispatcher]
            case Whose.WORKER:
                found = [worker.process for worker in self.mesh.workers]
            case Whose.READER:
                found = [reader.process for reader in self.mesh.readers if reader.written]
            case _:
                assert_never(whose)
        return [one for one in found if one.alive and (whose is Whose.READER or one.ready)]

    def _links(self, between: Between) -> Sequence[Link]:
        workers = [w for w in self.mesh.workers if w.process.alive]
        if between is Between.READER_DISPATCHER:
            return [r.up for r in self.mesh.readers if r.process.alive]
        return [w.up if between is Between.WORKER_DISPATCHER else w.read for w in workers]

    def _store(self, fault: Fault) -> Undo | None:
        """Have the store of a saved dataset fail."""
        return None

    def _die_at_write(self, fault: Fault) -> Undo | None:
        """Have somebody who saves be killed at a write."""
        return None

    def _save_job(self) -> Undo | None:
        if self.saving:
            return None
        self._savers = [r for r in self.mesh.readers if r.process.alive]
        self._saves += 1
        for reader in self._savers:
            reader.process.say(f"save {self._saves} {SAVE_WITHIN}")
        return nothing


END_WITHIN = 5.0


def start_behind(worker: Worker, pid: int) -> float | None:
    """Start a worker again when the process *pid* is gone, unless somebody was faster."""
    if not worker.process.alive:
        worker.start()
    elif worker.process.pid == pid:  # it takes its time to leave
        return 0.2
    return None


def others_stay(reader: Reader, live: Sequence[Reader]) -> bool:
    """Return whether somebody reads on when *reader* leaves: nobody comes back for who left."""
    return any(other is not reader and not other.leaving for other in live)


def one(fault: Fault, all_of: Sequence[T]) -> T | None:
    """Return whom a fault is for, of all these."""
    return all_of[fault.target % len(all_of)] if all_of else None


def _signal(pid: int, signum: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signum)


def nothing() -> None:
    """Undo what needs no undoing."""
