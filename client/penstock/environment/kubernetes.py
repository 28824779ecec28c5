"""The variables of Kubernetes: of a `LeaderWorkerSet`, and of an indexed `Job`."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.environment.cluster import ClusterEnvironment, around, number, of_rank
from penstock.environment.own_variables import SIZE


def resolve_leader_worker_set(env: Mapping[str, str]) -> ClusterEnvironment | None:
    """Return what `LWS_WORKER_INDEX`, `LWS_GROUP_SIZE` and `LWS_LEADER_ADDRESS` say, if they do.

    Raises:
        ConfigError: when they are malformed, or contradict each other.
    """
    if "LWS_WORKER_INDEX" not in env:
        return None
    world = number(env, "LWS_GROUP_SIZE", least=1)
    rank = number(env, "LWS_WORKER_INDEX", below=(world, "LWS_GROUP_SIZE"))
    addresses = None
    if leader := env.get("LWS_LEADER_ADDRESS"):
        addresses = (around(leader, world), "LWS_LEADER_ADDRESS")
    return of_rank(
        rank,
        world,
        "leader_worker_set",
        by=("LWS_WORKER_INDEX", "LWS_GROUP_SIZE"),
        addresses=addresses,
    )


def resolve_indexed_job(env: Mapping[str, str]) -> ClusterEnvironment | None:
    """Return what `JOB_COMPLETION_INDEX` says, if it is set: how many pods there are, it does not.

    Raises:
        ConfigError: when it is no number.
    """
    if "JOB_COMPLETION_INDEX" not in env:
        return None
    rank = number(env, "JOB_COMPLETION_INDEX")
    return of_rank(rank, None, "kubernetes", by=("JOB_COMPLETION_INDEX", SIZE))
