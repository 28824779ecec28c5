"""The processes that `penstock run` starts on a host, chosen by the host's role in the cluster."""

from __future__ import annotations

import platform
import socket
from contextlib import suppress
from dataclasses import dataclass

from penstock.credentials.local import is_loopback
from penstock.environment.cluster import ClusterEnvironment, Role
from penstock.environment.own_variables import TARGET
from penstock.errors import ConfigError, DatasetError
from penstock.reader.arguments import dispatcher_of
from penstock.runtime.address import is_address

LOOPBACK = "127.0.0.1"

EVERYWHERE = "0.0.0.0"  # noqa: S104  where other hosts must come in

ANY_PORT = f"{LOOPBACK}:0"
"""The dispatcher's address if a process trains alone."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """The processes that one host starts.

    *target* is the dispatcher's address, as ``host:port``. A *dispatcher* and *data_workers* of
    this host bind *bind*, and other hosts reach them as *host*. *script* says whether the script
    runs here.
    """

    target: str
    host: str
    bind: str
    dispatcher: bool
    data_workers: int
    script: bool

    def words(self, place: ClusterEnvironment) -> str:
        """Return the plan as a sentence."""
        parts = []
        if self.dispatcher:
            parts.append("a dispatcher")
        if self.data_workers:
            parts.append(f"{self.data_workers} data worker{'s' * (self.data_workers > 1)}")
        if self.script:
            parts.append("the script")
        what = " and ".join(parts) or "nothing"
        return (
            f"{place.role.value} {place.index} ({place.source}) runs {what}; the dispatcher is at "
            f"{self.target}"
        )


def launch_plan(
    place: ClusterEnvironment, data_workers: int | None, around: Surroundings
) -> LaunchPlan:
    """Return what the host at *place* starts; with *data_workers* None, one if needed.

    A host for data workers starts data workers. The chief starts the dispatcher, unless another
    host has it. Every host that trains starts the script, and data workers too unless the cluster
    has hosts for them. *around* is what the host found out about the dispatcher's address.

    Raises:
        ConfigError: if no setting gives the dispatcher's address.
    """
    role, target = place.role, target_of(place)
    elsewhere = _is_elsewhere(place, around)
    host = _own_host(place) or around.own_host
    bind = LOOPBACK if is_loopback(host) else EVERYWHERE
    apart = bool(place.addresses.get(Role.DATA_WORKER.value))
    match role:
        case Role.DISPATCHER:
            return LaunchPlan(target, host, bind, True, 0, False)
        case Role.DATA_WORKER:
            count = 1 if data_workers is None else data_workers
            return LaunchPlan(target, host, bind, False, count, False)
        case Role.PS | Role.EVALUATOR:
            return LaunchPlan(target, host, bind, False, data_workers or 0, True)
        case Role.CHIEF | Role.WORKER:
            first_here = place.local_rank in (None, 0)
            beside = int(not apart) if data_workers is None else data_workers
            count = beside if first_here else 0
            return LaunchPlan(
                target, host, bind, place.is_chief and not elsewhere, count, script=True
            )


def target_of(place: ClusterEnvironment) -> str:
    """Return the dispatcher's address as ``host:port``; port 0 means any free port.

    Raises:
        ConfigError: if no setting gives the address, or the setting is not an address.
    """
    if place.source == "local" and not place.addresses:
        return ANY_PORT
    try:
        target = dispatcher_of(place)
    except DatasetError as exc:
        if place.num_consumers == 1 and place.role.trains:
            return ANY_PORT
        raise ConfigError(
            f"nothing of {place.source} says where the dispatcher is to be: set {TARGET} on all "
            "hosts to one host:port that they reach, of the host with consumer_index 0, which "
            "starts the dispatcher there; or of a dispatcher that runs already"
        ) from exc
    if not is_address(target):
        by = place.said.get(Role.DISPATCHER.value, place.said.get("addresses", place.source))
        raise ConfigError(f"by {by} the dispatcher is at {target!r}, which is no host:port")
    return target


def _is_elsewhere(place: ClusterEnvironment, around: Surroundings) -> bool:
    """Return whether another host has the dispatcher, or one runs already.

    A dispatcher that the cluster lists has a host of its own. An address from Penstock's own
    variable may be the address of the first host that trains. Then that host starts the dispatcher,
    unless something listens there already.
    """
    if not place.addresses.get(Role.DISPATCHER.value) or place.role is Role.DISPATCHER:
        return False
    given = place.said.get(Role.DISPATCHER.value) == TARGET
    return not (given and around.here and not around.taken)


def _own_host(place: ClusterEnvironment) -> str:
    """Return the host of this process, as the cluster lists it."""
    listed = place.addresses.get(place.role.value, [])
    mine = listed[place.index] if place.index < len(listed) else None
    if mine is None:
        return ""
    host, colon, port = mine.rpartition(":")
    return host if colon and port.isdecimal() else mine


ANSWERS_WITHIN = 1.0
"""Seconds within which something that listens on this host answers."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Facts that a host finds out about a dispatcher's address.

    *own_host* is the address at which hosts that reach the dispatcher also reach this host. *here*
    says whether the dispatcher's address belongs to this host, *taken* whether a process listens
    there.
    """

    own_host: str
    here: bool
    taken: bool


def look_around(target: str) -> Surroundings:
    """Examine *target*, as ``host:port``; no process listens on port 0."""
    host, _, digits = target.rpartition(":")
    name, port = host.strip("[]"), int(digits)
    own_host = LOOPBACK if is_loopback(name) else _facing(name, port)
    here = _is_here(name)
    return Surroundings(own_host, here, here and port > 0 and _listens(name, port))


def _facing(name: str, port: int) -> str:
    """Return the local address of packets to a host, without sending one."""
    with suppress(OSError):
        family, kind, _, _, address = socket.getaddrinfo(name, port or 1, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            own = str(probe.getsockname()[0])
        return f"[{own}]" if ":" in own else own
    return platform.node()


def _is_here(name: str) -> bool:
    """Return whether this host has the address: then a socket can be bound to it."""
    with suppress(OSError):
        for family, kind, _, _, address in socket.getaddrinfo(name, 0, type=socket.SOCK_STREAM):
            with suppress(OSError), socket.socket(family, kind) as probe:
                probe.bind(address)
                return True
    return False


def _listens(name: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((name, port), ANSWERS_WITHIN):
        return True
    return False
