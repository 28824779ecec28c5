"""What happens in a run: all of it follows from a seed, but for the moments' exact time."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from enum import Enum

from chaos.proxy import BOTH, Flow, Way

DYNAMIC, OFF = "distributed_epoch", "parallel_epochs"


class Kind(Enum):
    """What can be done to a mesh."""

    KILL_WORKER = "worker killed"
    STOP_WORKER = "worker stopped"
    DRAIN_WORKER = "worker told to leave"
    CALL_DRAIN = "worker drained by a call"
    ADD_WORKER = "worker joined"
    KILL_RUNNER = "runner killed"
    STOP_RUNNER = "runner stopped"
    KILL_DISPATCHER = "dispatcher killed"
    STOP_DISPATCHER = "dispatcher stopped"
    END_DISPATCHER = "dispatcher told to end"
    KILL_READER = "reader killed"
    STOP_READER = "reader stopped"
    LEAVE_READER = "reader left"
    ADD_READER = "reader joined"
    FLOW = "link slowed, held or dropped"
    RESET = "link reset"
    HALF_CLOSE = "link half-closed"
    REFUSE = "link refused"
    REORDER = "connections reordered"
    FULL_DISK = "dispatcher without room"
    FEW_FILES = "process without descriptors"
    FEW_THREADS = "worker without threads"
    GREEDY = "runner beyond its memory"
    CLOCK = "clock set"
    SAVE = "job saved"
    SET_WEIGHTS = "weights changed"
    STORE = "store of a saved dataset failing or full"
    DIE_AT_WRITE = "process of a save killed at a write"


class Between(Enum):
    """Which link."""

    WORKER_DISPATCHER = "worker-dispatcher"
    READER_DISPATCHER = "reader-dispatcher"
    READER_WORKER = "reader-worker"


class Whose(Enum):
    """Which processes a limit or a clock is of."""

    DISPATCHER = "dispatcher"
    WORKER = "worker"
    READER = "reader"


class Back(Enum):
    """Where a consumer goes on that was killed, or left."""

    AGREED = "at the round agreed on"
    ALONE = "where the others are"


@dataclass(frozen=True, slots=True)
class Fault:
    """Do *kind* to the *target*-th who lives when a share *at* of everything was consumed.

    After *lasts* seconds it is undone: started again, continued, healed. None is never.
    """

    at: float
    kind: Kind
    target: int = 0
    lasts: float | None = None
    between: Between = Between.WORKER_DISPATCHER
    flow: Flow = Flow.PASS
    ways: tuple[Way, ...] = BOTH
    back: Back = Back.AGREED
    """Of a consumer that is killed or leaves."""
    whose: Whose = Whose.DISPATCHER
    hours: int = 1
    """By how many a clock is set."""

    def __str__(self) -> str:
        words = f"at {self.at:.0%} {self.kind.value} ({self.target})"
        if self.kind in LINKS:
            words += f" {self.between.value}"
        if self.kind is Kind.FLOW:
            words += f" {self.flow.value} {'+'.join(way.value for way in self.ways)}"
        if self.kind in (Kind.FEW_FILES, Kind.CLOCK):
            words += f" {self.whose.value}"
        if self.kind is Kind.CLOCK:
            words += f" by {self.hours:+} h"
        words += f" for {self.lasts:.1f} s" if self.lasts is not None else ""
        return words + (f" back {self.back.value}" if self.back is Back.ALONE else "")


@dataclass(frozen=True, slots=True)
class Rounds:
    """Read in rounds, by so many consumers."""

    consumers: int
    remainder: str = "drop"
    ordered: bool = False
    patience: int | None = None

    def __str__(self) -> str:
        order = "in turn" if self.ordered else f"patience {self.patience}"
        return f"in rounds by {self.consumers} consumers, {self.remainder}, {order}"


@dataclass(frozen=True, slots=True)
class Cached:
    """Shared by trainers, each of so many readers; the next one is *slower* times as slow."""

    trainers: tuple[int, ...]
    when_full: str = "skip"
    window: int | None = None
    """How many bytes the windows of a worker have; None is more than there is."""
    payload: int = 0
    """How many bytes an element has beside its id."""
    slower: float = 1.0

    def __str__(self) -> str:
        readers = ", ".join(map(str, self.trainers))
        return (
            f"cached for trainers of {readers} readers, each {self.slower:g} times as slow, "
            f"when full {self.when_full}, window {self.window}, payload {self.payload}"
        )


@dataclass(frozen=True, slots=True)
class Ordered:
    """Read in one order; with *consumers* each of these gets every so many-th element."""

    consumers: int | None = None

    def __str__(self) -> str:
        return f"in one order, for {self.consumers or 'no'} consumers"


@dataclass(frozen=True, slots=True)
class Saved:
    """Saved into a folder, which so many follow; *remote* is in a store of objects."""

    order: str = "split"
    remote: bool = False
    followers: int = 1
    chunk_bytes: int = 400
    chunk_seconds: float = 0.5

    def __str__(self) -> str:
        where = "store" if self.remote else "disk"
        return (
            f"saved to a {where}, order {self.order}, {self.followers} followers, chunks of "
            f"{self.chunk_bytes} bytes or {self.chunk_seconds} s"
        )


LINKS = frozenset({Kind.FLOW, Kind.RESET, Kind.HALF_CLOSE, Kind.REFUSE, Kind.REORDER})


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a job: who takes part, and what happens to them.

    With *until* everything is killed when such a share of the rest was consumed, and the next life
    goes on from the newest saved state, if there is one.
    """

    workers: int = 2
    readers: int = 1
    faults: tuple[Fault, ...] = ()
    until: float | None = None
    fresh: bool = True
    """Whether this life's dispatcher knows nothing of the one before."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run."""

    seed: int
    lives: tuple[Life, ...]
    mode: str = DYNAMIC
    pipeline: str = "range"
    local: str = "none"
    elements: int = 2000
    delay: float = 0.0
    """Seconds that making one element takes."""
    pace: float = 0.001
    """Seconds that a training loop spends on one element."""
    codec: str | None = None
    frames: int | None = None
    """How many frames may be on their way to a reader."""
    passes: int = 1
    """How many passes the training loops make; more than one in a single life."""
    buffer: int = 64 << 20
    """How many bytes of a task a worker holds."""
    deadline: float = 120.0
    transport: str = "grpc"
    """What readers read by. Links that fail are between them for gRPC only."""
    sharing: Rounds | Cached | Ordered | Saved | None = None
    """How readers share what there is; None is first come, first served."""
    secured: bool = False
    """Whether everybody has credentials, and talks by TLS."""
    slots: int | None = None
    """How many tasks a worker runs at once; None is one a core."""
    patience: float = 4.0
    """Seconds after a fault when the next one comes, though too little was consumed."""

    def has(self, kind: Kind) -> bool:
        """Whether such a fault may come."""
        return any(fault.kind is kind for life in self.lives for fault in life.faults)

    def __str__(self) -> str:
        lines = [
            (
                f"{self.mode}, {self.pipeline} of {self.elements}, behind it {self.local}, "
                f"{self.delay * 1000:g} ms to make, {self.pace * 1000:g} ms to use, "
                f"compression {self.codec}, frames {self.frames}, buffer {self.buffer}, "
                f"{self.passes} passes, by {self.transport}{' with TLS' if self.secured else ''}, "
                f"{self.slots or 'usual'} slots"
            )
        ]
        if self.sharing is not None:
            lines.append(f"  {self.sharing}")
        for life in self.lives:
            lines.append(f"  {life.workers} workers, {life.readers} readers")
            lines += [f"    {fault}" for fault in life.faults]
            if life.until is not None:
                lines.append(f"    at {life.until:.0%} everything killed")
        return "\n".join(lines)


PIPELINES = (
    "range",
    "shuffle",
    "batch",
    "shuffle-batch",
    "interleave",
    "interleave-shuffle-batch",
    "lines",
    "lines-shuffle-batch",
    "mixture",
    "mixture-batch",
    "repeat-shuffle",
    "repeat-batch",
)
LOCALS = ("none", "none", "batch", "shuffle", "prefetch", "batch-prefetch", "shuffle-batch")
"""Half of the mesh's users put nothing behind `distribute`: so do two of these."""

LEASE = 3.0
"""Seconds of a reader's lease in a run; a worker's is a third."""


def random_plan(seed: int) -> Plan:
    """Draw a plan."""
    chance = random.Random(seed)
    count = chance.choices((1, 2, 3), (6, 3, 1))[0]
    lives = tuple(_life(chance, first=i == 0, last=i == count - 1) for i in range(count))
    plan = Plan(
        seed,
        lives,
        mode=chance.choice((DYNAMIC, DYNAMIC, OFF)),
        pipeline=chance.choice(PIPELINES),
        local=chance.choice(LOCALS),
        delay=chance.choice((0.0, 0.001, 0.002, 0.004)),
        pace=chance.choice((0.0, 0.001, 0.002)),
        codec=chance.choice((None, "AUTO", "LZ4", "ZSTD")),
        frames=chance.choice((None, None, 1, 4)),
        buffer=chance.choice((64 << 20, 1 << 16)),
        passes=chance.choice((1, 1, 2)),
    )
    if plan.mode == OFF or count > 1:  # what is one copy then differs from pass to pass
        plan = replace(plan, passes=1)
    return replace(plan, elements=enough(plan, chance.uniform(2.0, 6.0) / plan.passes))


def enough(plan: Plan, seconds: float) -> int:
    """Return how many elements keep the first life busy for so long."""
    life = plan.lives[0]
    makers, copies = (1, life.workers) if plan.mode == OFF else (life.workers, 1)
    each = max(plan.delay / makers, plan.pace * copies / life.readers, 0.0005)
    return 20 * max(20, min(int(seconds / each / 20), 250))


def _life(chance: random.Random, *, first: bool, last: bool) -> Life:
    workers, readers = chance.randint(1, 3), chance.choice((1, 1, 2, 3))
    faults = [random_fault(chance, workers, readers) for _ in range(chance.randint(1, 6))]
    until = None
    if not last:
        save = chance.uniform(0.1, 0.5)
        until = save + chance.uniform(0.05, 0.4)
        if first or chance.random() < 0.5:
            faults.append(Fault(save, Kind.SAVE))
    faults.sort(key=lambda fault: fault.at)
    return Life(workers, readers, tuple(faults), until, chance.random() < 0.5)


WEIGHTS = {
    Kind.KILL_WORKER: 4,
    Kind.STOP_WORKER: 3,
    Kind.DRAIN_WORKER: 2,
    Kind.CALL_DRAIN: 1,
    Kind.ADD_WORKER: 1,
    Kind.KILL_RUNNER: 1,
    Kind.STOP_RUNNER: 1,
    Kind.KILL_DISPATCHER: 4,
    Kind.STOP_DISPATCHER: 1,
    Kind.END_DISPATCHER: 1,
    Kind.KILL_READER: 3,
    Kind.STOP_READER: 3,
    Kind.LEAVE_READER: 1,
    Kind.ADD_READER: 1,
    Kind.FLOW: 8,
    Kind.RESET: 3,
    Kind.HALF_CLOSE: 2,
    Kind.REFUSE: 2,
    Kind.REORDER: 2,
    Kind.FULL_DISK: 1,
    Kind.FEW_FILES: 2,
    Kind.FEW_THREADS: 1,
    Kind.GREEDY: 1,
    Kind.CLOCK: 2,
    Kind.SAVE: 1,
}


FOR_GOOD = frozenset(
    {
        Kind.ADD_READER,
        Kind.ADD_WORKER,
        Kind.GREEDY,
        Kind.HALF_CLOSE,
        Kind.KILL_RUNNER,
        Kind.LEAVE_READER,
        Kind.RESET,
        Kind.SAVE,
        Kind.SET_WEIGHTS,
        Kind.DIE_AT_WRITE,
    }
)
"""There is nothing to undo."""


def random_fault(chance: random.Random, workers: int, readers: int) -> Fault:
    """Draw a fault."""
    kind = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    lasts: float | None = chance.choice((0.1, 0.5, 1.5, LEASE + 1.0))
    if (
        kind in (Kind.DRAIN_WORKER, Kind.CALL_DRAIN, Kind.KILL_WORKER)
        and workers > 1
        and chance.random() < 0.3
    ):
        lasts = None
    if kind is Kind.KILL_READER:
        lasts = chance.choice((None, 0.0, 1.0)) if readers > 1 else 0.0
    if kind in FOR_GOOD:
        lasts = None
    return Fault(
        at=chance.uniform(0.02, 0.95),
        kind=kind,
        target=chance.randrange(6),
        lasts=lasts,
        between=chance.choice(list(Between)),
        flow=chance.choice((Flow.DELAY, Flow.HOLD, Flow.HOLD, Flow.DROP)),
        ways=chance.choice((BOTH, BOTH, (Way.UP,), (Way.DOWN,))),
        whose=chance.choice(list(Whose)),
        hours=chance.choice((-1, 1)),
    )
