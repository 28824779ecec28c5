"""The one table of who may call what. What is not in it is refused to everybody.

A row is the path of a gRPC method, or of HTTP the method and the path: ``GET /metrics``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.credentials.roles import EVERY_ROLE, AccessRole, Identity
from penstock.errors import WrongRole
from penstock.protocol.names import printable


@dataclass(frozen=True, slots=True)
class Access:
    """Which *roles* may call a method; *anybody* needs no credential for it.

    What is for *loopback* is answered without one there, and not elsewhere: TensorFlow's own
    clients, browsers and scrapers have none to show.
    """

    roles: frozenset[AccessRole] = frozenset()
    anybody: bool = False
    loopback: bool = False


_READS = frozenset({AccessRole.READER, AccessRole.TRAINER})
# A worker reads for TensorFlow's clients, from other workers too: these have nothing to show.
_READS_OR_RELAYS = _READS | {AccessRole.WORKER}

ANYBODY = Access(anybody=True)
TENSORFLOW = Access(roles=_READS, loopback=True)
LOOK = Access(roles=EVERY_ROLE, loopback=True)

_DISPATCHER, _WORKER = "/penstock.v1.Dispatcher/", "/penstock.v1.Worker/"
_OF_TENSORFLOW = "/tensorflow.data.DispatcherService/"

TABLE: Final[dict[str, Access]] = {
    _DISPATCHER + "RegisterDataset": Access(frozenset({AccessRole.TRAINER})),
    _DISPATCHER + "FindDataset": Access(_READS_OR_RELAYS),
    # A trainer compares its own with what is there, to say how the two differ.
    _DISPATCHER + "GetDefinition": Access(frozenset({AccessRole.WORKER, AccessRole.TRAINER})),
    _DISPATCHER + "OpenIteration": Access(_READS_OR_RELAYS),
    _DISPATCHER + "Drain": Access(frozenset({AccessRole.OPERATOR})),
    # A trainer whose machine is to be taken away says so; workers of other hosts are none of its.
    _DISPATCHER + "DrainHost": Access(frozenset({AccessRole.TRAINER, AccessRole.OPERATOR})),
    _DISPATCHER + "Status": Access(EVERY_ROLE),
    _DISPATCHER + "WorkerControl": Access(frozenset({AccessRole.WORKER})),
    _DISPATCHER + "ReaderControl": Access(_READS_OR_RELAYS),
    _WORKER + "Read": Access(_READS_OR_RELAYS),
    _WORKER + "Status": Access(EVERY_ROLE),
    _WORKER + "Trace": Access(_READS | {AccessRole.OPERATOR}),
    "/penstock.v1.Preemption/Report": Access(_READS),
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
    # Probes of containers ask whether it serves, and have nothing to show.
    "/grpc.health.v1.Health/Check": ANYBODY,
    "/grpc.health.v1.Health/Watch": ANYBODY,
    "GET /healthz": ANYBODY,
    "GET /readyz": ANYBODY,
    # All of HTTP is to look at; `credentials.http` says how a role is shown there.
    "GET /metrics": LOOK,
    "GET /": LOOK,
    "GET /assets/{name}": LOOK,
    "GET /api/status": LOOK,
    "GET /api/page": LOOK,
    "GET /events": LOOK,
}
"""By gRPC path, or HTTP's. Shared memory is not in it: its token comes from the dispatcher, in a
view that only who may read gets."""


LONGEST_PATH = 200
"""Characters that are shown of a path: it is whatever somebody asked for."""


def named(path: str) -> str:
    """Return *path* as messages show it."""
    return printable(path if len(path) <= LONGEST_PATH else f"{path[:LONGEST_PATH]}...")


def needs_nothing(path: str, *, loopback: bool) -> bool:
    """Return whether what is at *path* is answered without a credential."""
    access = TABLE.get(path, Access())
    return access.anybody or (access.loopback and loopback)


def check(path: str, identity: Identity) -> None:
    """Return if *identity* may call what is at *path*.

    Raises:
        WrongRole: when none of its roles may; it names those that may.
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
