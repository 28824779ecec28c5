"""The one table of which roles may call which method. A method that is not in it is refused.

The key of a row is the path of a gRPC method, or HTTP's method and path: ``GET /metrics``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.errors import WrongRole
from penstock.protocol.names import printable


class AccessRole(Enum):
    """The permissions of a process; a trainer may do all that a reader may.

    >>> from penstock.credentials.access import AccessRole
    >>> [role.value for role in AccessRole]
    ['reader', 'trainer', 'worker', 'operator']
    """

    READER = "reader"
    """Reads registered datasets, and saves its jobs."""
    TRAINER = "trainer"
    """Registers code, which workers run, and reads."""
    WORKER = "worker"
    """Gets tasks and their definitions, and runs them."""
    OPERATOR = "operator"
    """Looks at everything, drains workers, and changes the weights of mixtures."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller's identity: a *name* for logs and messages, its *roles*, and its expiry.

    *expires* is in seconds of Unix time; None means never. If the service does not verify callers,
    the identity is not *proven*, and limits apply to the caller's address instead.
    """

    name: str
    roles: frozenset[AccessRole]
    expires: float | None = None
    proven: bool = True


EVERY_ROLE = frozenset(AccessRole)


def certified_name(role: str) -> str:
    """Return the name that certificates of *role* contain, independent of the host.

    >>> from penstock.credentials.access import certified_name
    >>> certified_name("worker")
    'worker.penstock.internal'
    """
    return f"{role}.penstock.internal"


def certified_roles(names: Iterable[str]) -> frozenset[str]:
    """Return the roles of a certificate with these *names*.

    >>> from penstock.credentials.access import certified_roles
    >>> certified_roles(["localhost", "worker.penstock.internal"])
    frozenset({'worker'})
    """
    end = certified_name("")
    return frozenset(name.removesuffix(end) for name in names if name.endswith(end))


@dataclass(frozen=True, slots=True)
class Access:
    """The *roles* that may call a method; with *anybody*, no credential is needed.

    With *loopback*, calls over loopback need no credential, because TensorFlow's own clients,
    browsers and scrapers have none to show.
    """

    roles: frozenset[AccessRole] = frozenset()
    anybody: bool = False
    loopback: bool = False


_READS = frozenset({AccessRole.READER, AccessRole.TRAINER})
# A worker also reads from other workers for TensorFlow's clients, which have no credentials.
_READS_OR_RELAYS = _READS | {AccessRole.WORKER}

ANYBODY = Access(anybody=True)
TENSORFLOW = Access(roles=_READS, loopback=True)
LOOK = Access(roles=EVERY_ROLE, loopback=True)

_DISPATCHER, _WORKER = "/penstock.v1.Dispatcher/", "/penstock.v1.Worker/"
_RECORDINGS = "/penstock.v1.Recordings/"
_OF_TENSORFLOW = "/tensorflow.data.DispatcherService/"

TABLE: Final[dict[str, Access]] = {
    _DISPATCHER + "RegisterDataset": Access(frozenset({AccessRole.TRAINER})),
    _DISPATCHER + "FindDataset": Access(_READS_OR_RELAYS),
    # A trainer compares its definition with the registered one, to say how the two differ.
    _DISPATCHER + "GetDefinition": Access(frozenset({AccessRole.WORKER, AccessRole.TRAINER})),
    _DISPATCHER + "OpenIteration": Access(_READS_OR_RELAYS),
    _DISPATCHER + "Drain": Access(frozenset({AccessRole.OPERATOR})),
    # A trainer whose machine will be taken away drains the workers on its host, and no others.
    _DISPATCHER + "DrainHost": Access(frozenset({AccessRole.TRAINER, AccessRole.OPERATOR})),
    # Weights decide what all readers of a job get: who may say what workers run may say that.
    _DISPATCHER + "SetWeights": Access(frozenset({AccessRole.TRAINER, AccessRole.OPERATOR})),
    _DISPATCHER + "Status": Access(EVERY_ROLE),
    _DISPATCHER + "WorkerControl": Access(frozenset({AccessRole.WORKER})),
    _DISPATCHER + "ReaderControl": Access(_READS_OR_RELAYS),
    _WORKER + "Read": Access(_READS_OR_RELAYS),
    _WORKER + "Status": Access(EVERY_ROLE),
    _WORKER + "Trace": Access(_READS | {AccessRole.OPERATOR}),
    "/penstock.v1.Preemption/Report": Access(_READS),
    _RECORDINGS + "Start": Access(frozenset({AccessRole.TRAINER})),
    _RECORDINGS + "Find": Access(_READS | {AccessRole.OPERATOR}),
    _RECORDINGS + "Cancel": Access(frozenset({AccessRole.TRAINER, AccessRole.OPERATOR})),
    "/penstock.v1.TensorFlow/FindTask": Access(frozenset({AccessRole.WORKER})),
    _OF_TENSORFLOW + "GetVersion": TENSORFLOW,
    _OF_TENSORFLOW + "GetDataServiceConfig": TENSORFLOW,
    _OF_TENSORFLOW + "GetDataServiceMetadata": TENSORFLOW,
    _OF_TENSORFLOW + "DisableCompressionAtRuntime": TENSORFLOW,
    _OF_TENSORFLOW + "GetOrCreateJob": TENSORFLOW,
    _OF_TENSORFLOW + "GetOrCreateIteration": TENSORFLOW,
    _OF_TENSORFLOW + "ClientHeartbeat": TENSORFLOW,
    _OF_TENSORFLOW + "ReleaseIterationClient": TENSORFLOW,
    _OF_TENSORFLOW + "MaybeRemoveTask": TENSORFLOW,
    _OF_TENSORFLOW + "GetOrRegisterDataset": TENSORFLOW,
    _OF_TENSORFLOW + "Snapshot": TENSORFLOW,
    _OF_TENSORFLOW + "GetSnapshotStreams": TENSORFLOW,
    "/tensorflow.data.WorkerService/GetElement": TENSORFLOW,
    # Container probes ask whether the service works, and have no credentials.
    "/grpc.health.v1.Health/Check": ANYBODY,
    "/grpc.health.v1.Health/Watch": ANYBODY,
    "GET /healthz": ANYBODY,
    "GET /readyz": ANYBODY,
    # HTTP only reads; `credentials.http` says how a request shows its role.
    "GET /metrics": LOOK,
    "GET /": LOOK,
    "GET /assets/{name}": LOOK,
    "GET /api/status": LOOK,
    "GET /api/page": LOOK,
    "GET /events": LOOK,
}
"""Access by gRPC path, or by HTTP method and path.

Shared memory is not in it: the dispatcher gives its token only to readers that may read."""


LONGEST_PATH = 200
"""Most characters that messages show of a path, which a caller may have made up."""


def named(path: str) -> str:
    """Return *path* in the form that messages show."""
    return printable(path if len(path) <= LONGEST_PATH else f"{path[:LONGEST_PATH]}...")


def needs_nothing(path: str, *, loopback: bool) -> bool:
    """Return whether a call of *path* needs no credential."""
    access = TABLE.get(path, Access())
    return access.anybody or (access.loopback and loopback)


def check(path: str, identity: Identity) -> None:
    """Check that *identity* may call *path*.

    Raises:
        WrongRole: when none of its roles may; the message names the roles that may.
    """
    access = TABLE.get(path, Access())
    if access.anybody or access.roles & identity.roles:
        return
    theirs = " and ".join(sorted(role.value for role in identity.roles)) or "none"
    may = " or ".join(role.value for role in AccessRole if role in access.roles)
    if not may:
        raise WrongRole(f"{named(path)} is for nobody")
    raise WrongRole(
        f"{named(path)} is for the role {may}, and {identity.name} has the role {theirs}: use the "
        f"credentials of a {may}, which `penstock keys token --role ...` makes"
    )
