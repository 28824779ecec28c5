"""The variables of `jax.distributed`: `JAX_PROCESS_ID`, `JAX_NUM_PROCESSES` and the coordinator."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.environment.cluster import ClusterEnvironment, around, missing, number, of_rank
from penstock.errors import ConfigError

BOTH = ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES")


def resolve(env: Mapping[str, str]) -> ClusterEnvironment | None:
    """Return what they say; None if neither number is set.

    Raises:
        ConfigError: when one of the two is missing, or they contradict each other.
    """
    absent = missing(env, BOTH)
    if len(absent) == len(BOTH):
        return None
    if absent:
        raise ConfigError(f"{absent[0]} is not set, but the other of {' and '.join(BOTH)} is")
    world = number(env, "JAX_NUM_PROCESSES", least=1)
    rank = number(env, "JAX_PROCESS_ID", below=(world, "JAX_NUM_PROCESSES"))
    addresses = None
    if place := env.get("JAX_COORDINATOR_ADDRESS"):
        addresses = (around(place, world), "JAX_COORDINATOR_ADDRESS")
    return of_rank(rank, world, "jax", by=BOTH, addresses=addresses)
