"""The node of `distribute`, a source whose elements come from workers, and its seeds."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from penstock.analysis.registered import Registered
from penstock.analysis.visitation import seen_apart
from penstock.credentials.caller import choose
from penstock.definition import encode, largest_part
from penstock.engine import seeds
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.errors import DefinitionError
from penstock.graph.node import INFINITE, UNKNOWN, Node
from penstock.graph.run import seed_of_pass
from penstock.graph.traversal import epochs_of, options_of
from penstock.protocol.calls import JobParameters, OpenIterationRequest
from penstock.protocol.definition import Definition
from penstock.protocol.nearness import TargetWorkers
from penstock.protocol.types import Codec, DatasetId, Mode
from penstock.reader.agreement import Coordination, ErrorPolicy, Trainer
from penstock.reader.delivery.iterator import SessionIterator, UntrackedIterator, no_state
from penstock.reader.delivery.iterator_state import SavedJob
from penstock.reader.delivery.sessions import PassSession, PassSessions
from penstock.runtime.tracebacks import keep_users_frames

if TYPE_CHECKING:
    from penstock.reader.session.open import ReadSpec
    from penstock.reader.session.session import Session

log = logging.getLogger("penstock.service")


class RemotePipeline:
    """The pipeline that runs on workers. Walks over the graph do not enter it: it is a value."""

    __slots__ = ("_definition", "_epochs", "cuts", "epoch_warned", "node", "warned")

    def __init__(self, node: Node, cuts: tuple[str, ...] = ()) -> None:
        self.node = node
        self.cuts = cuts
        """What autocache chose and why, as lines of text; empty without that option."""
        self._definition: Definition | None = None
        self._epochs: tuple[int, ...] = ()
        self.epoch_warned = False
        """Whether it was logged that a named job keeps its epoch."""
        self.warned = False
        """Whether it was logged why the pipeline keeps a weaker guarantee."""

    def __reduce__(self) -> tuple[type[RemotePipeline], tuple[Node]]:
        return RemotePipeline, (self.node,)

    @property
    def definition(self) -> Definition:
        """The pipeline as it is sent; if it is read by an id, the definition known here."""
        if self._definition is None:
            known = self.registered
            self._epochs = epochs_of(self.node)
            try:
                self._definition = encode(self.node) if known is None else known.definition
            except DefinitionError as exc:
                keep_users_frames(exc)
                raise
        return self._definition

    def renew(self) -> bool:
        """Return whether a source was set to another epoch, and have the pipeline sent again."""
        outdated = self.outdated
        if outdated:
            self._definition = None
        return outdated

    @property
    def outdated(self) -> bool:
        """Whether a source was set to another epoch since the pipeline was made to travel."""
        return self._definition is not None and self._epochs != epochs_of(self.node)

    @property
    def registered(self) -> Registered | None:
        """The node that stands for the pipeline, if it is read by an id."""
        return self.node if isinstance(self.node, Registered) else None


class PassCounter:
    """State of one dataset object from pass to pass: its id, and how many passes it had."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._dataset = DatasetId("")
        self._count = 0
        self.first = True
        """Whether nothing was opened yet of which there was anything to read."""
        self.takes_part = False
        """Whether a pass was shared with others, or new: then no later one is a used name."""

    def __reduce__(self) -> tuple[type[PassCounter], tuple[()]]:
        return PassCounter, ()  # a copy begins again

    def open(
        self, spec_of: Callable[[DatasetId, int], ReadSpec], repetition: int | None = None
    ) -> tuple[Session, int]:
        """Open a repetition, the next one unless it is given; return its number, too.

        One that cannot be opened does not count.
        """
        from penstock.reader.session.open import open_session  # noqa: PLC0415  # it loads gRPC

        with self._lock:
            number = self._count + 1 if repetition is None else repetition
            opened = open_session(spec_of(self._dataset, number))
            session, self._dataset = opened.session, opened.dataset
            self._count = number
            self.first = self.first and not session.exists
            self.takes_part = self.takes_part or not opened.used
            return session, number

    @property
    def count(self) -> int:
        """The newest repetition that was opened; 0 is none."""
        return self._count

    def forget_dataset(self) -> None:
        """Have the next pass register the dataset: it is another one now."""
        with self._lock:
            self._dataset = DatasetId("")

    def resume(self, repetition: int) -> None:
        """Note that *repetition* is over: the next one follows it."""
        with self._lock:
            self._count = repetition


@dataclass(frozen=True, eq=False)
class Distribute(Node):
    """The elements of *remote*, made by workers of the mesh at *address*."""

    op: ClassVar[str] = "distribute"
    remote: RemotePipeline
    address: str
    mode: str
    job_name: str | None
    codec: str
    target_workers: str
    max_frames: int | None
    writable: bool
    timeout: float
    on_finished: str
    coordination: Coordination | None = None
    trainer: Trainer | None = None
    errors: ErrorPolicy = field(default_factory=ErrorPolicy)
    transport: str | None = None
    ordered: bool = False
    """Whether elements come in the order of the splits; of uncoordinated reads."""
    credentials: str | None = None
    """The folder with which the dispatcher is called; None is what this process's variable says."""
    seed: int | None = None
    """The job's seed, as `distribute` was given it; see `own_seed`."""
    passes: PassCounter = field(default_factory=PassCounter, init=False, repr=False)

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`. How much of a shared job comes to this reader is not known."""
        below, mode = self.remote.node.cardinality, Mode(self.mode)
        if below >= 0 and self._reads_all_once and not seen_apart(self.remote.node, mode):
            return below
        if mode is Mode.HINT or (mode.is_static and mode is not Mode.DATA and below == INFINITE):
            return UNKNOWN  # one of the parts may be empty
        return below if below in (0, INFINITE) else UNKNOWN

    @property
    def _reads_all_once(self) -> bool:
        """Whether all elements come to this reader, each once."""
        once = Mode(self.mode) is not Mode.OFF and not self.errors.skips
        return once and self.job_name is None and self.remote.registered is None

    @property
    def on_workers(self) -> tuple[Node, Mode]:
        """See `Node.on_workers`."""
        return self.remote.node, Mode(self.mode)

    @property
    def shared(self) -> bool:
        """See `Node.shared`."""
        return self.job_name is not None

    @property
    def in_rounds(self) -> bool:
        """See `Node.in_rounds`."""
        return self.coordination is not None and not self.coordination.strided

    @property
    def consumers(self) -> int:
        """See `Node.consumers`."""
        return 1 if self.coordination is None else self.coordination.consumers

    @property
    def consumer(self) -> tuple[int, int] | None:
        """Which consumer reads, and of how many; None without consumers."""
        given = self.coordination
        return None if given is None else (given.index, given.consumers)

    @property
    def identity(self) -> tuple[str, str]:
        """The pipeline's fingerprint, and the mode: a saved job must have the same."""
        return self.remote.definition.fingerprint, self.mode

    @property
    def own_seed(self) -> int | None:
        """The job's own seed, else the seed of earlier options, or None."""
        return options_of(self.remote.node).seed if self.seed is None else self.seed

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`. Each call opens the next repetition of the job, or one that was saved.

        If elements are tracked, a state only says that operators continue a pass.
        """
        if context.sessions is not None:
            sessions = cast("PassSessions", context.sessions)
            return SessionIterator(sessions, self.enter(context, sessions))
        if state is not None:
            no_state()
        session, _ = self.passes.open(self._read_spec(b"", self.own_seed, nested=True))
        return UntrackedIterator(session)

    def enter(self, context: Context, sessions: PassSessions) -> PassSession:
        """Read the pass that *context* is in."""
        seed = sessions.seeds.get(context.path, self.own_seed)
        opened = partial(self._opened, replaces=sessions.replaces, seed=seed)
        return sessions.enter(context.path, context.passes, opened)

    def _opened(
        self, saved: SavedJob | None, *, replaces: tuple[str, ...], seed: int | None
    ) -> tuple[SavedJob, Session | None]:
        """Open a pass, from the *saved* job if there is one."""
        if saved is not None and saved.finished:
            self.passes.resume(saved.repetition)
            return saved, None
        restore, repetition = (b"", None) if saved is None else (saved.data, saved.repetition)
        session, number = self.passes.open(self._read_spec(restore, seed, replaces), repetition)
        return SavedJob(*self.identity, self.job_name, number), session

    def _follow_epochs(self) -> None:
        """Have workers read the epoch that sources are set to; a named job keeps its first one."""
        if self.job_name is None:
            if self.remote.renew():
                self.passes.forget_dataset()
        elif self.remote.outdated and not self.remote.epoch_warned:
            self.remote.epoch_warned = True
            log.warning(
                "job %r keeps the epoch that its source had in the first pass: set_epoch reaches "
                "the workers only without a job_name; Penstock's own shuffle differs in each pass",
                self.job_name,
            )

    def _read_spec(
        self,
        restore: bytes,
        seed: int | None,
        replaces: tuple[str, ...] = (),
        *,
        nested: bool = False,
    ) -> Callable[[DatasetId, int], ReadSpec]:
        from penstock.reader.session.open import ReadSpec  # noqa: PLC0415  # as above
        from penstock.runtime.versions import versions  # noqa: PLC0415  # as above

        self._follow_epochs()
        given, known = self.coordination, self.remote.registered
        on_finished = self.on_finished
        if nested and on_finished == "error":
            on_finished = "warn"  # a task on a worker reads again what its last attempt read

        def spec_of(dataset: DatasetId, repetition: int) -> ReadSpec:
            asked = JobParameters(
                dataset if known is None else DatasetId(known.definition.fingerprint),
                Mode(self.mode),
                Codec(self.codec),
                target_workers=TargetWorkers(self.target_workers),
                dataset_id="" if known is None else known.dataset_id,
                ordered=self.ordered,
                seed=seed,
            )
            asked = self.errors.requested(asked)
            consumer, trainer = None, None
            if self.trainer is not None:
                asked, trainer = self.trainer.requested(asked), self.trainer.name
            if given is not None:
                asked = given.requested(asked)
                consumer = given.consumer(first=self.passes.first)
            if self.credentials is not None:  # this may be another process than it was made in
                choose(self.address, self.credentials)
            return ReadSpec(
                self.address,
                self.remote.definition.to_bytes,
                partial(largest_part, self.remote.node),
                OpenIterationRequest(
                    versions(), asked, self.job_name, repetition, trainer, restore, replaces
                ),
                self.max_frames,
                self.timeout,
                self.writable,
                "ignore" if self.passes.takes_part else on_finished,
                consumer,
                self.transport,
            )

        return spec_of


MOST_SEED = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class JobSeeds:
    """The seed of each job, by the path of its `distribute`, and that of the operators here."""

    jobs: Mapping[str, int | None]
    operators: int


def job_seeds(root: Node, jobs: Mapping[str, Distribute], explicit: int | None) -> JobSeeds:
    """Return the seeds of a run of *root*, whose iterator was given an *explicit* one or None.

    Of several jobs that get their seed from one place, each has another one. The operators of a
    consumer, or of a rank, draw other numbers than those of the next one: they get other elements.
    """
    behind = options_of(root).seed
    found = {
        path: _seed_of(node, number, explicit, behind)
        for number, (path, node) in enumerate(jobs.items())
    }
    first = next(iter(jobs.values()))
    given = next((seed for seed in (explicit, behind, *found.values()) if seed is not None), None)
    if given is None:
        return JobSeeds(found, seeds.fresh())
    here = seed_of_pass(given, first.passes.count + 1)
    who = os.environ.get("RANK", "") if first.consumer is None else str(first.consumer[0])
    return JobSeeds(found, seeds.derive(here, "reader", who) if who else here)


def _seed_of(node: Distribute, number: int, explicit: int | None, behind: int | None) -> int | None:
    if explicit is None and (node.seed is not None or behind is None):
        return node.own_seed
    shared = behind if explicit is None else explicit
    return shared if not number else seeds.derive(shared or 0, "job", number) & MOST_SEED
