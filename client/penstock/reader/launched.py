"""What `distribute` takes from the environment where it is told ``"env"``."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

from penstock.environment.cluster import ClusterEnvironment
from penstock.environment.detect import cluster_environment, trial_of_process
from penstock.errors import DatasetError
from penstock.reader.trainer import CrossTrainerCache

ENV = "env"

DISPATCHER_PORT = 7000
"""Where a dispatcher is on the chief's host, unless variables say otherwise."""


log = logging.getLogger("penstock.service")


class WholeName(str):
    """The name of a job that others gave it: the trial of this process is no part of it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments of `distribute` that may be ``"env"``, or depend on one that is."""

    service: Any
    job_name: Any
    consumer_index: Any
    num_consumers: Any
    cache: Any


def filled_in(asked: Asked) -> Asked:
    """Return *asked* with what the environment says in place of ``"env"``.

    A trial of a search gets its own job: the trial becomes a part of the job's name, wherever the
    service's address comes from. A job with a cache is shared by trials on purpose: there the
    trial becomes a part of the trainer's name. `WholeName` is left as it is.

    Raises:
        ConfigError: when variables are malformed or contradict each other.
        DatasetError: when they do not say what is asked for.
    """
    by_trainer = isinstance(asked.cache, CrossTrainerCache) and asked.cache.trainer_id == ENV
    if not by_trainer and ENV not in (asked.service, asked.consumer_index):
        return _of_trial(asked, trial_of_process())
    found = cluster_environment()
    service, name, cache = asked.service, asked.job_name, asked.cache
    index, consumers = asked.consumer_index, asked.num_consumers
    if service == ENV:
        service = dispatcher_of(found)
    if index == ENV:
        index, consumers = _consumer(found, consumers)
    if by_trainer:
        cache = CrossTrainerCache(found.trial or "the only trial")
        return Asked(service, name, index, consumers, cache)
    return _of_trial(Asked(service, name, index, consumers, cache), found.trial)


def _of_trial(asked: Asked, trial: str | None) -> Asked:
    """Return *asked* with its *trial*, if there is one, in the name of the job or the trainer."""
    name, cache = asked.job_name, asked.cache
    if trial is None or not isinstance(name, str) or isinstance(name, WholeName):
        return asked
    if isinstance(cache, CrossTrainerCache):
        return replace(asked, cache=CrossTrainerCache(f"{cache.trainer_id} (trial {trial})"))
    log.info("job %r belongs to trial %r; PENSTOCK_TRIAL= (empty) shares it", name, trial)
    return replace(asked, job_name=f"{name} (trial {trial})")


def dispatcher_of(found: ClusterEnvironment) -> str:
    """Return where the dispatcher of a cluster is: its own entry, or the chief's host.

    Raises:
        DatasetError: when nothing says so.
    """
    for place in found.addresses.get("dispatcher", ()):
        if place:
            return place
    for role in ("chief", "worker"):
        first = next(iter(found.addresses.get(role, ())), None)
        if first:
            return f"{_host(first)}:{DISPATCHER_PORT}"
        if found.addresses.get(role):
            break
    raise DatasetError(
        f"service='env': no variable of {found.source} says where the dispatcher is: set "
        "PENSTOCK_TARGET to its host:port, or give service='grpc://host:port'"
    )


def _host(address: str) -> str:
    """Return the host of *address*, which may have a port: IPv6 is in brackets then."""
    if address.startswith("["):
        return address.partition("]")[0] + "]"
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and ":" not in host:
        return host
    return f"[{address}]" if ":" in address else address


def _consumer(found: ClusterEnvironment, given: Any) -> tuple[int, int]:
    index, number = found.consumer_index, found.num_consumers
    if index is None:
        raise DatasetError(
            f"consumer_index='env': this process is the {found.role.value} of its cluster, by "
            f"{found.said.get('role', found.source)}, and only a chief and workers are consumers"
        )
    if number is None:
        if given is None:
            raise DatasetError(
                f"consumer_index='env': {found.source} does not say how many processes train: set "
                "PENSTOCK_NUM_CONSUMERS, or give num_consumers"
            )
        return index, given
    if given is not None and given != number:
        raise DatasetError(
            f"num_consumers={given!r}, but by {found.said.get('num_consumers', found.source)} "
            f"{number} processes train: leave num_consumers out"
        )
    return index, number
