"""What `penstock run` starts on a host: its role in the cluster asks for it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from penstock.environment.cluster import ClusterEnvironment, Role
from penstock.errors import ConfigError, DatasetError
from penstock.reader.launched import dispatcher_of

EVERYWHERE, LOOPBACK = "0.0.0.0", "127.0.0.1"  # noqa: S104  where other hosts must come in


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """What one host starts.

    *target* is where the dispatcher is, as ``host:port``; a *dispatcher* and *data_workers* of this
    host bind *bind*, and are known to others as *host*. *script* says whether the script runs here.
    """

    target: str
    host: str
    bind: str
    dispatcher: bool
    data_workers: int
    script: bool

    def words(self, place: ClusterEnvironment) -> str:
        """Return it as a sentence."""
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


def launch_plan(place: ClusterEnvironment, data_workers: int | None) -> LaunchPlan:
    """Return what the host at *place* starts; *data_workers* None is one where that is needed.

    A host of data workers starts them, the chief the dispatcher unless another host has it, and
    every host that trains the script, with data workers beside it unless there are hosts for these.

    Raises:
        ConfigError: when nothing says where the dispatcher is to be.
    """
    role = place.role
    elsewhere = bool(place.addresses.get(Role.DISPATCHER.value)) and role is not Role.DISPATCHER
    target = _target(place)
    host = _own_host(place) or target.rpartition(":")[0]
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


def is_loopback(host: str) -> bool:
    """Return whether *host* is this machine alone."""
    name = host.strip("[]")
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _target(place: ClusterEnvironment) -> str:
    if place.source == "local" and not place.addresses:
        return f"{LOOPBACK}:0"  # alone: any free port will do
    try:
        return dispatcher_of(place)
    except DatasetError as exc:
        if place.num_consumers == 1 and place.role.trains:
            return f"{LOOPBACK}:0"
        raise ConfigError(
            f"nothing of {place.source} says where the dispatcher is to be: set PENSTOCK_TARGET to "
            "a host:port that all hosts reach, of the host with consumer_index 0"
        ) from exc


def _own_host(place: ClusterEnvironment) -> str:
    """Return the host of this process, as the cluster lists it."""
    listed = place.addresses.get(place.role.value, [])
    mine = listed[place.index] if place.index < len(listed) else None
    if mine is None:
        return ""
    host, colon, port = mine.rpartition(":")
    return host if colon and port.isdecimal() else mine
