"""Measurements of a training loop, and of the job that it reads."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.explanation.trouble import JobFacts, Trouble
from penstock.protocol.loop_time import LinkTraffic, LoopTime, PassRead
from penstock.protocol.measures import OperatorFigures


@dataclass(frozen=True, slots=True)
class OperatorLook:
    """The work of an operator.

    It *worked* and *waited* for these seconds, and made this number of *elements*. *call* is the
    age in seconds of its longest call that has not returned; 0 if there is none. *cpu* are the
    seconds of its work in which it needed a core; None if that is not known.
    """

    label: str
    elements: int
    worked: float
    waited: float = 0.0
    call: float = 0.0
    cpu: float | None = None


@dataclass(frozen=True, slots=True)
class TaskLook:
    """A running task.

    Its runner started *seconds* ago. It was *held_up* for some of them, because readers took no
    elements, and *starved* for splits for others. *ready* counts elements that wait for readers,
    *unacked* those that readers have not acknowledged. The worker buffers *nbytes* of its frames,
    of at most *room*, with this *compression*.
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
    remote: float = 0.0
    """Seconds for which it waited for remote files."""

    @property
    def name(self) -> str:
        """Its name in sentences."""
        return f"task {self.task if self.number is None else self.number}"

    @property
    def speed(self) -> float:
        """Elements a second that it makes while somebody takes them; 0 if that is not known."""
        at_work = self.seconds - self.held_up
        return self.operators[0].elements / at_work if self.operators and at_work > 0 else 0.0


@dataclass(frozen=True, slots=True)
class JobLook:
    """A pass of a job: the reason that it is *waiting_for*, its *loops*, and its running tasks.

    It leaves out silent readers, and their links. *links* has the traffic to each reader, by the
    reader's number.
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
    """Whether a worker runs several of its tasks at once, one in each slot."""
    slots: int = 0
    """How many tasks it may run at once, if it fills slots; 0 if that is not known."""
    all_slots: int = 0
    """The slots of all workers."""
    sharing: int = 1
    """How many jobs share the slots of all workers."""
    running: int = 0
    """How many tasks run now."""
    ordered: bool = False
    """Whether it is read in one order: a worker makes at least two tasks then."""
    consumers: int = 0
    """Of coordinated reads: how many consumers there are."""
    ready_ahead: int = 0
    """How many elements are made, and not taken yet, of tasks after the one whose turn it is."""
    had: int = 0
    """How many elements its loops have had, as far as that is known."""
    stopped: Trouble | None = None
    """The problem that stops all jobs, if there is one."""
    figures: tuple[OperatorFigures, ...] = ()
    """The figures of its operators on workers, in this pass."""

    @property
    def backlog(self) -> float:
        """How many seconds of making are made, and not taken yet."""
        speed = sum(task.speed for task in self.tasks)
        return sum(task.ready + task.unacked for task in self.tasks) / speed if speed else 0.0


@dataclass(frozen=True, slots=True)
class MeshLook:
    """A mesh now: its running *jobs*, and the worst *trouble*."""

    jobs: tuple[JobLook, ...] = ()
    trouble: Trouble | None = None


@dataclass(frozen=True, slots=True)
class IteratorStats:
    """A training loop, as its own process sees it.

    *loop* is its time since the iterator began, *newest* that of the last seconds. *operators* are
    those of this process, the outermost first, with sums since the iterator began; a `distribute`
    among them waits for workers. *links* has the traffic from each worker that is read now. *jobs*
    is the answer of the dispatchers: operators on workers, tasks, other loops.
    """

    loop: LoopTime
    newest: LoopTime
    operators: tuple[OperatorLook, ...]
    links: tuple[LinkTraffic, ...]
    passes: tuple[PassRead, ...]
    """The passes of jobs that it reads now."""
    jobs: tuple[JobLook, ...] = ()
    """The jobs of these passes; fewer, if a dispatcher does not answer."""
    figures: tuple[OperatorFigures, ...] = ()
    """The figures of operators in this process, since the iterator began."""
    cuts: tuple[str, ...] = ()
    """What autocache chose and why, as lines of text; empty without that option."""
    resident: int = 0
    """Bytes of memory that this process has in RAM: buffers of links (*held* of each link) and all
    else. A large element is part of it until the loop drops it. 0 if the system does not tell."""

    @property
    def reads_job(self) -> bool:
        """Whether elements come from workers."""
        return bool(self.passes)
