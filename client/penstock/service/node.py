"""`distribute` as a stage of the graph: a source whose elements come from workers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from penstock.definition import Definition, encode
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.graph import INFINITE, UNKNOWN, Node
from penstock.messages import Codec, Mode, OpenRequest
from penstock.numbers import DatasetId

if TYPE_CHECKING:
    from penstock.reader.opening import Wish
    from penstock.reader.session import Session


class Remote:
    """The pipeline that runs on workers. Walks over the graph do not enter it: it is a value."""

    __slots__ = ("_definition", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self._definition: Definition | None = None

    def __reduce__(self) -> tuple[type[Remote], tuple[Node]]:
        return Remote, (self.node,)

    @property
    def definition(self) -> Definition:
        """The pipeline as it travels."""
        if self._definition is None:
            self._definition = encode(self.node)
        return self._definition


class Passes:
    """What one dataset object remembers from pass to pass: its id, and how many there were."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._dataset = DatasetId("")
        self._count = 0

    def __reduce__(self) -> tuple[type[Passes], tuple[()]]:
        return Passes, ()  # a copy begins anew

    def open(self, wish_of: Callable[[DatasetId, int], Wish]) -> Session:
        """Open the next repetition; one that cannot be opened does not count."""
        from penstock.reader.opening import open_session  # noqa: PLC0415  # it loads gRPC

        with self._lock:
            session, self._dataset = open_session(wish_of(self._dataset, self._count + 1))
            self._count += 1
            return session


@dataclass(frozen=True, eq=False)
class Distributed(Node):
    """The elements of *remote*, made by workers of the mesh at *address*."""

    op: ClassVar[str] = "distribute"
    remote: Remote
    address: str
    mode: str
    job_name: str | None
    codec: str
    target_workers: str
    max_frames: int | None
    writable: bool
    timeout: float
    passes: Passes = field(default_factory=Passes, init=False, repr=False)

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`. How much of a pass falls to this reader is not known."""
        below = self.remote.node.cardinality
        return below if below in (0, INFINITE) else UNKNOWN

    @property
    def shared(self) -> bool:
        """See `Node.shared`."""
        return self.job_name is not None

    def open(self, context: Context, state: State) -> OpIterator:  # noqa: ARG002
        """See `Node.open`. Each opening is the next repetition of the job."""
        from penstock.reader.iterator import DistributedIterator, no_state  # noqa: PLC0415  # as above

        if state is not None:
            no_state()
        return DistributedIterator(self.passes.open(self._wish))

    def _wish(self, dataset: DatasetId, repetition: int) -> Wish:
        from penstock.reader.opening import Wish, versions  # noqa: PLC0415  # as above

        request = OpenRequest(
            versions(),
            dataset,
            Mode(self.mode),
            self.job_name,
            repetition,
            Codec(self.codec),
            target_workers=self.target_workers,
        )
        return Wish(
            self.address,
            self.remote.definition.to_bytes,
            request,
            self.max_frames,
            self.timeout,
            self.writable,
        )
