"""TensorFlow's jobs, passes, clients and tasks, by the numbers that its clients know them by.

To such a client a task is a worker that it takes elements from: each worker reads the pass for its
clients, as a reader of its own. Decisions are facts, and kept, because clients keep numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import assert_never

from penstock.errors import JobMismatch, Unavailable, UnknownIteration
from penstock.protocol.tensorflow import (
    LANES,
    FoundTask,
    HeartbeatReply,
    JobRequest,
    Task,
    TransferServer,
)
from penstock_dispatcher.tensorflow.client_facts import (
    ClientFact,
    ClientGone,
    ClientMade,
    ConsumerCounted,
    Fact,
    JobMade,
    PassMade,
    PassOver,
    ReaderChosen,
    TaskGivenUp,
    WorkerNumbered,
)
from penstock_dispatcher.tensorflow.in_step import CountedRound, InStep

WORKERS = 1 << 12
"""The low part of a task's number is below this: a worker's, times `LANES`. The last is nobody's.

Of coordinated reads it is `InStep.turn` instead.
"""

AUTO = 1
"""TensorFlow's number for target workers that are chosen by the client."""

COLOCATED = "COLOCATED"


@dataclass(slots=True)
class _Pass:
    made: PassMade
    step: InStep
    """Of coordinated reads."""
    over: bool = False

    def facts(self) -> list[Fact]:
        """Return the facts that restore this pass."""
        number, step = self.made.number, self.step
        out: list[Fact] = [self.made]
        out += [TaskGivenUp(number, who, start) for who, start in step.starts.items()]
        out += [ReaderChosen(number, step.worker, step.turn)] if step.worker else []
        out += [ConsumerCounted(number, c.consumer, c.asked, c.round) for c in step.counted()]
        out += [TaskGivenUp(number, who, step.starts[who]) for who in step.told]
        return [*out, PassOver(number)] if self.over else out


class TensorFlowClients:
    """The things that TensorFlow's clients know by numbers. *keep* is told of each fact, in order.

    Numbers are above *first*, so that none is used twice, whatever was kept. A client that sends no
    heartbeat for *lease* seconds is gone: a killed process never says so.
    """

    def __init__(
        self,
        known: Iterable[Fact],
        first: int,
        keep: Callable[[ClientFact], None],
        lease: float,
    ) -> None:
        self._lease, self._looked = lease, 0.0
        self._jobs: dict[int, JobMade] = {}
        self._named: dict[tuple[str, str], int] = {}
        self._passes: dict[int, _Pass] = {}
        self._repetitions: dict[tuple[int, int], int] = {}
        self._clients: dict[int, int] = {}
        self._heard: dict[int, float] = {}
        self._workers: dict[str, int] = {}
        self._next = first
        self._keep = keep
        for fact in known:
            self._apply(fact)

    def facts(self) -> list[Fact]:
        """Return the facts for a restart: the passes that somebody reads, and their jobs."""
        read = set(self._clients.values())
        jobs = {self._passes[one].made.job for one in read}
        out: list[Fact] = [WorkerNumbered(n, address) for address, n in self._workers.items()]
        out += [job for number, job in self._jobs.items() if number in jobs or not job.name]
        for number in read:
            out += self._passes[number].facts()
        return out + [ClientMade(client, reads) for client, reads in self._clients.items()]

    # --- calls ---

    def job(self, request: JobRequest, fresh_name: str) -> int:
        """Return the number of the job that is asked for; one without a name gets *fresh_name*.

        Raises:
            JobMismatch: when the job exists, and is read in another way.
        """
        name = fresh_name if request.job_name is None else _bare(request)
        known = self._named.get((request.dataset_id, name))
        wanted = JobMade(
            self._next if known is None else known,
            request.dataset_id,
            name,
            request.processing_mode.sharding_policy,
            request.num_consumers or 0,
            request.cached,
            request.target_workers,
        )
        if known is None:
            self._commit(wanted)
            return wanted.number
        if (differs := _difference(self._jobs[known], wanted)) is not None:
            raise JobMismatch(f"job {name!r} of dataset {request.dataset_id!r} exists: {differs}")
        return known

    def enter(self, job: int, repetition: int, now: float) -> int:
        """Return the number of a new client of a job's repetition.

        Raises:
            UnknownIteration: when there is no such job.
        """
        if job not in self._jobs:
            raise UnknownIteration(f"TensorFlow's job {job} is not known here: open it again")
        number = self._repetitions.get((job, repetition))
        if number is None:
            number = self._next
            self._commit(PassMade(number, job, repetition))
        client = self._next
        self._commit(ClientMade(client, number))
        self._heard[client] = now
        return client

    def tasks(
        self,
        client: int,
        workers: Iterable[tuple[str, int]],
        finished: Callable[[JobMade, int], bool],
        now: float,
    ) -> HeartbeatReply:
        """Return the tasks of a client's pass, one for each of *workers* by address and life.

        Of coordinated reads there is one, which stays when its worker is lost; see `remove`.
        *finished* says whether a repetition of a job is over.

        Raises:
            UnknownIteration: when there is no such client.
        """
        number = self._clients.get(client)
        if number is None:
            raise UnknownIteration(
                f"TensorFlow's client {client} is not known here: make a new iterator"
            )
        self._heard[client] = now
        one = self._passes[number]
        job = self._jobs[one.made.job]
        if not one.over and finished(job, one.made.repetition):
            self._commit(PassOver(number))
        if one.over:
            return HeartbeatReply((), finished=True)
        there = sorted(workers)
        if job.num_consumers:
            return HeartbeatReply(self._in_step(one, there), finished=False)
        lanes = LANES if len(there) == 1 else 1
        found = [
            task for address, life in there for task in self._tasks(number, address, life, lanes)
        ]
        if found and job.target_workers in (0, AUTO):
            found.append(_decoy(number, found[0]))
        return HeartbeatReply(tuple(found), finished=False)

    def release(self, client: int) -> None:
        """Forget a client."""
        if client in self._clients:
            self._commit(ClientGone(client))

    def forget_silent(self, now: float) -> None:
        """Forget clients whose lease is over.

        Time in which nobody asked counts as half a lease at most: this process may have stood still
        as long, and the heartbeats of its clients have waited with it.
        """
        if now > self._looked + self._lease / 2:
            least = now - self._lease / 2
            self._heard = {one: max(heard, least) for one, heard in self._heard.items()}
        self._looked = now
        for client in list(self._clients):
            if now > self._heard.setdefault(client, now) + self._lease:
                self._commit(ClientGone(client))

    def found(self, task: int, consumer: int | None = None, asked: int | None = None) -> FoundTask:
        """Return the pass of a task; for a *consumer*, also the round that it counts as *asked*.

        Raises:
            UnknownIteration: when there is none.
            Unavailable: when consumers are giving it up: there will be another.
        """
        number, one = self._pass_of(task)
        job = self._jobs[one.made.job]
        current = not job.num_consumers or (task % WORKERS == one.step.turn and not one.step.told)
        start = None
        if consumer is not None and asked is not None:
            if not current:
                raise Unavailable(f"task {task} of TensorFlow's clients runs on another worker")
            start = one.step.round_of(consumer, asked)
        return FoundTask(
            job.dataset_id,
            job.sharding_policy,
            job.name,
            one.made.repetition,
            job.num_consumers,
            job.cached,
            current and number in self._clients.values(),
            start,
        )

    def count(self, task: int, counted: CountedRound) -> None:
        """Know which round a consumer's client means.

        Raises:
            UnknownIteration: when there is no such task.
            Unavailable: when consumers are giving it up.
        """
        number, one = self._pass_of(task)
        self.found(task, counted.consumer, counted.asked)
        if counted not in one.step.counted():
            self._commit(ConsumerCounted(number, counted.consumer, counted.asked, counted.round))

    def remove(self, task: int, consumer: int, asked: int, live: Iterable[str]) -> bool:
        """Return whether a consumer is to give a task up, which it could not read.

        It is while the task's worker is not among *live*; then all consumers are to.

        Raises:
            UnknownIteration: when there is no such task.
        """
        number, one = self._pass_of(task)
        step = one.step
        if task % WORKERS != step.turn or consumer in step.told:
            return True
        if not step.told and step.worker in set(live):
            return False
        self._commit(TaskGivenUp(number, consumer, step.round_of(consumer, asked)))
        return True

    def dataset_of_job(self, job: int) -> str:
        """Return what a job reads; nothing if there is no such job."""
        return self._jobs[job].dataset_id if job in self._jobs else ""

    def dataset_of_client(self, client: int) -> str:
        """Return what a client reads; nothing if there is no such client."""
        one = self._passes.get(self._clients.get(client, -1))
        return "" if one is None else self.dataset_of_job(one.made.job)

    def dataset_of_task(self, task: int) -> str:
        """Return what a task reads; nothing if there is no such task."""
        one = self._passes.get(task // WORKERS)
        return "" if one is None else self.dataset_of_job(one.made.job)

    # --- inside ---

    def _pass_of(self, task: int) -> tuple[int, _Pass]:
        number = task // WORKERS
        one = self._passes.get(number)
        if one is None:
            raise UnknownIteration(f"task {task} of TensorFlow's clients is not known here")
        return number, one

    def _in_step(self, one: _Pass, there: list[tuple[str, int]]) -> tuple[Task, ...]:
        """Return the task that all consumers of a pass read, once there is a worker for it."""
        number, step = one.made.number, one.step
        if step.needs_worker and there:
            address, _ = there[number % len(there)]
            self._commit(ReaderChosen(number, address, (step.turn + 1) % (WORKERS - 1)))
        if not step.worker:
            return ()
        server, task = TransferServer("grpc", step.worker), number * WORKERS + step.turn
        return (Task(step.worker, task, number, (), dict(there).get(step.worker, 0), (server,)),)

    def _tasks(self, number: int, address: str, life: int, lanes: int) -> Iterator[Task]:
        at = self._workers.get(address)
        if at is None:
            at = len(self._workers) % (WORKERS // LANES - 1)
            self._commit(WorkerNumbered(at, address))
        first, server = number * WORKERS + at * LANES, TransferServer("grpc", address)
        for lane in range(lanes):
            yield Task(address, first + lane, number, (), life, (server,))

    def _commit(self, fact: Fact) -> None:
        self._apply(fact)
        self._keep(fact)

    def _apply(self, fact: Fact) -> None:
        match fact:
            case JobMade():
                self._jobs[fact.number] = fact
                self._named[fact.dataset_id, fact.name] = fact.number
            case PassMade():
                consumers = self._jobs[fact.job].num_consumers
                self._passes[fact.number] = _Pass(fact, InStep(consumers))
                self._repetitions[fact.job, fact.repetition] = fact.number
            case ClientMade(number, reads):
                self._clients[number] = reads
            case ClientGone(number):
                self._clients.pop(number, None)
                self._heard.pop(number, None)
            case PassOver(number):
                self._passes[number].over = True
            case WorkerNumbered(number, address):
                self._workers[address] = number
                return  # a number of its own row
            case ReaderChosen(number, worker, turn):
                self._passes[number].step.choose(worker, turn)
            case ConsumerCounted(number, consumer, asked, round_):
                self._passes[number].step.count(CountedRound(consumer, asked, round_))
            case TaskGivenUp(number, consumer, start):
                self._passes[number].step.tell(consumer, start)
            case _:
                assert_never(fact)
        self._next = max(self._next, fact.number + 1)


def _bare(request: JobRequest) -> str:
    """Return the name of a job as other clients give it: `from_dataset_id` adds the id to it."""
    return (request.job_name or "").removeprefix(f"dataset_id=/{request.dataset_id}/")


def _difference(known: JobMade, wanted: JobMade) -> str | None:
    """Return the first difference in words, if there is one."""
    for name in ("sharding_policy", "num_consumers", "cached", "target_workers"):
        there, here = getattr(known, name), getattr(wanted, name)
        if there != here:
            return f"its {name} is {there}, and {here} was asked for"
    return None


def _decoy(number: int, like: Task) -> Task:
    """Return a task that no client reads, and by which it ends as soon as all others have.

    A client that prefers workers of its own host leaves those alone that are in another process.
    """
    nobody = number * WORKERS + WORKERS - 1
    return Task(like.worker_address, nobody, number, (COLOCATED,), 0, like.transfer_servers)
