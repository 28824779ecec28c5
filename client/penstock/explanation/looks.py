"""What was seen of a training loop, and of the job that it reads."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.explanation.trouble import JobFacts, Trouble
from penstock.protocol.loop_time import LinkTraffic, LoopTime, PassRead


@dataclass(frozen=True, slots=True)
class OperatorLook:
    """An operator: the seconds that it *worked* and *waited*, how many *elements* came of it.

    The longest *call* that has not returned yet began so many seconds ago; 0 if it is in none. For
    *cpu* seconds of its work it needed a core; None if that is not known.
    """

    label: str
    elements: int
    worked: float
    waited: float = 0.0
    call: float = 0.0
    cpu: float | None = None


@dataclass(frozen=True, slots=True)
class TaskLook:
    """A task that is being made, by a runner that began so many *seconds* ago.

    Some of them it was *held_up*, as nobody took what it made, some it *starved* for splits. So
    many elements are *ready* for readers, and others *unacked* at them: of its frames *nbytes* are
    at the worker, where there is *room* for that many. *compression* says how they are compressed.
    """

    task: int
    worker: str
    seconds: float
    held_up: float
    starved: float
    operators: tuple[OperatorLook, ...]
    ready: int = 0
    unacked: int = 0
    compression: str = ""
    nbytes: int = 0
    room: int = 0
    number: int | None = None
    """Its number within its pass, if that is known: *task* is that of the dispatcher."""

    @property
    def name(self) -> str:
        """What it is called in sentences."""
        return f"task {self.task if self.number is None else self.number}"

    @property
    def speed(self) -> float:
        """Elements a second that it makes while somebody takes them; 0 if that is not known."""
        at_work = self.seconds - self.held_up
        return self.operators[0].elements / at_work if self.operators and at_work > 0 else 0.0


@dataclass(frozen=True, slots=True)
class JobLook:
    """A pass of a job: what it is *waiting_for*, its *loops* and its tasks, if any of them runs.

    What is not current is left out: loops of silent readers, and what came to these.

    *links* says for each reader, by its number, what came to it.
    """

    iteration: int
    job: str
    loops: tuple[LoopTime, ...]
    tasks: tuple[TaskLook, ...]
    waiting_for: str = ""
    links: tuple[tuple[int, LinkTraffic], ...] = ()
    readers: JobFacts = field(default_factory=JobFacts)
    """Its readers: *loops* are those of the live ones that are not silent."""
    fills_slots: bool = True
    """Whether a worker runs several of its tasks at once, as it has slots. Else it runs one."""
    slots: int = 0
    """How many tasks it may have at once, if it fills slots; 0 if that is not known."""
    all_slots: int = 0
    """The slots of all workers."""
    sharing: int = 1
    """How many jobs share these."""
    running: int = 0
    """How many tasks runners make now."""
    ordered: bool = False
    """Whether it is read in one order: a worker makes at least two tasks then."""
    consumers: int = 0
    """Of coordinated reads: how many consumers there are."""
    ready_ahead: int = 0
    """How many elements are made, and not taken yet, of tasks after the one whose turn it is."""
    had: int = 0
    """How many elements its loops have had, as far as that is known."""
    stopped: Trouble | None = None
    """What stops all jobs, if something does."""

    @property
    def backlog(self) -> float:
        """How many seconds of making are made, and not taken yet."""
        speed = sum(task.speed for task in self.tasks)
        return sum(task.ready + task.unacked for task in self.tasks) / speed if speed else 0.0


@dataclass(frozen=True, slots=True)
class MeshLook:
    """What is known of a mesh: the *jobs* that run, and the worst *trouble*."""

    jobs: tuple[JobLook, ...] = ()
    trouble: Trouble | None = None


@dataclass(frozen=True, slots=True)
class IteratorStats:
    """A training loop, seen from inside: its time in all and of late; its process's operators.

    *operators* come from the outermost down, with sums since the iterator began. A `distribute`
    among them waits for workers. *links* says what came from each worker that is read now. *jobs*
    is what the dispatchers of the *passes* know: operators on workers, tasks, other loops.
    """

    loop: LoopTime
    newest: LoopTime
    operators: tuple[OperatorLook, ...]
    links: tuple[LinkTraffic, ...]
    passes: tuple[PassRead, ...]
    """The passes of jobs that it reads now."""
    jobs: tuple[JobLook, ...] = ()
    """What is known of these; less, if a dispatcher is away."""

    @property
    def reads_job(self) -> bool:
        """Whether elements come from workers."""
        return bool(self.passes)
