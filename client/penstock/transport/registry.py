"""The transports by name, and those that lead to a worker, the best first.

The module of a transport is loaded when it is first needed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.credentials.caller import Caller
from penstock.errors import ConfigError
from penstock.protocol.data import ReadRequest
from penstock.protocol.nearness import (
    GRPC,
    LOCAL_TRANSPORT,
    SHARED_MEMORY,
    TCP,
    Distance,
    KnownWorker,
)

if TYPE_CHECKING:
    from penstock.wire.worker import Replies
from collections.abc import Mapping


class Transport(Protocol):
    """A way to one worker."""

    @property
    def broken(self) -> bool:
        """Whether it never leads there again, so that another one is to be made."""
        ...

    def read(
        self, requests: AsyncIterator[ReadRequest], greeted: Callable[[], None] | None = None
    ) -> AsyncIterator[Replies]:
        """Read a task, message by message: the first request opens it.

        *greeted* is called when the worker is known to be there, before it has anything to send.
        """
        ...

    async def answer(self, timeout: float) -> None:
        """Return when the worker said that it is there.

        Raises:
            Unavailable: when it did not, for *timeout* seconds.
        """
        ...


@dataclass(frozen=True, slots=True)
class TransportKind:
    """A kind of transport with a *name*, which reaches workers no farther than *farthest*.

    *open* opens a transport to a worker with a caller's credentials, or raises `Unavailable` with
    the reason. If the kind has a *remedy*, a reader that asked for the kind by name then gets an
    error that names the remedy; otherwise the reader uses gRPC.
    """

    name: str
    farthest: Distance
    open: Callable[[KnownWorker, Caller], AbstractAsyncContextManager[Transport]]
    remedy: str = ""


def register(kind: TransportKind) -> None:
    """Have *kind* chosen where a worker offers its name.

    Raises:
        ConfigError: when another one has the name.
    """
    if kind.name in KINDS:
        raise ConfigError(f"there is a transport {kind.name!r} already")
    KINDS[kind.name] = kind


def names() -> list[str]:
    """Return the names of all transports, in order."""
    return sorted(KINDS)


def _over_grpc(worker: KnownWorker, caller: Caller) -> AbstractAsyncContextManager[Transport]:
    from penstock.wire.worker import to_worker  # noqa: PLC0415  # it loads gRPC

    return to_worker(worker, caller)


def _in_process(worker: KnownWorker, _: Caller) -> AbstractAsyncContextManager[Transport]:
    from penstock.transport.in_process import to_worker  # noqa: PLC0415  # as above

    return to_worker(worker)


def _shared_memory(worker: KnownWorker, _: Caller) -> AbstractAsyncContextManager[Transport]:
    from penstock.transport.shared_memory import to_worker  # noqa: PLC0415  # it loads gRPC

    return to_worker(worker)


def _tcp(worker: KnownWorker, caller: Caller) -> AbstractAsyncContextManager[Transport]:
    from penstock.transport.tcp import to_worker  # noqa: PLC0415  it loads NumPy

    return to_worker(worker, caller)


_SHARE, _REACH = "Start a worker on this host", "Let this host reach the worker's data_port"

KINDS: dict[str, TransportKind] = {}
register(TransportKind(GRPC, Distance.ELSEWHERE, _over_grpc))
register(
    TransportKind(SHARED_MEMORY, Distance.SAME_HOST, _shared_memory, "Start a worker on this host")
)
register(TransportKind(TCP, Distance.ELSEWHERE, _tcp, "Let this host reach the worker's data_port"))
register(TransportKind(LOCAL_TRANSPORT, Distance.SAME_PROCESS, _in_process))


@dataclass(frozen=True, slots=True)
class TransportChoice:
    """The *kinds* to try in turn; *refused* says why the wanted transport is not among them."""

    kinds: tuple[TransportKind, ...]
    refused: str = ""


def choose(
    wanted: str | None, worker: KnownWorker, distance: Distance, kinds: Mapping[str, TransportKind]
) -> TransportChoice:
    """Return the transports to try for *worker*: *wanted* or the nearest ones, then gRPC.

    gRPC is last because it reaches every worker.
    """
    offered, everywhere = worker.profile.offered, kinds[GRPC]
    if wanted is None:
        near = [
            kinds[name]
            for name in offered
            if name in kinds and name != GRPC and distance <= kinds[name].farthest
        ]
        return TransportChoice((*sorted(near, key=lambda kind: kind.farthest), everywhere))
    if wanted == GRPC:
        return TransportChoice((everywhere,))
    if wanted not in offered:
        return TransportChoice((everywhere,), f"it offers {', '.join(offered)}")
    return TransportChoice((kinds[wanted], everywhere))
