"""The variables of launchers: `torchrun`, `jax.distributed`, MPI and Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.environment.cluster import ClusterEnvironment, around, missing, number, of_rank
from penstock.environment.own_variables import SIZE
from penstock.errors import ConfigError


def resolve_torchrun(env: Mapping[str, str]) -> ClusterEnvironment | None:
    """Return the place in `RANK` and `WORLD_SIZE`; None if neither is set.

    Raises:
        ConfigError: when one of the two is missing, or they contradict each other.
    """
    if "RANK" not in env and "WORLD_SIZE" not in env:
        return None
    for name, other in (("RANK", "WORLD_SIZE"), ("WORLD_SIZE", "RANK")):
        if name not in env:
            raise ConfigError(f"{other} is set to {env[other]!r}, but {name} is not: set both")
    world = number(env, "WORLD_SIZE", least=1)
    rank = number(env, "RANK", below=(world, "WORLD_SIZE"))
    local = (number(env, "LOCAL_RANK"), "LOCAL_RANK") if "LOCAL_RANK" in env else None
    addresses = None
    if "MASTER_ADDR" in env:
        port = number(env, "MASTER_PORT", least=1) if "MASTER_PORT" in env else None
        place = env["MASTER_ADDR"] if port is None else f"{env['MASTER_ADDR']}:{port}"
        addresses = (around(place, world), "MASTER_ADDR")
    return of_rank(
        rank,
        world,
        "torchrun",
        by=("RANK", "WORLD_SIZE"),
        local_rank=local,
        addresses=addresses,
    )


BOTH = ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES")


def resolve_jax(env: Mapping[str, str]) -> ClusterEnvironment | None:
    """Return the place in the variables of JAX; None if neither number is set.

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


KINDS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ("OMPI_COMM_WORLD_LOCAL_RANK",)),
    ("PMI_RANK", "PMI_SIZE", ("MPI_LOCALRANKID", "PMI_LOCAL_RANK")),
)
"""Variables for the rank, the number of ranks, and the rank on the host."""

PMIX_RANK = "PMIX_RANK"


def resolve_mpi(env: Mapping[str, str]) -> ClusterEnvironment | None:
    """Return the place in the variables of Open MPI, PMI or PMIx; None if no rank is set.

    PMI is used by MPICH, Intel MPI and Cray. PMIx alone sets no variable for the number of ranks.

    Raises:
        ConfigError: when the number of ranks is missing, or the variables contradict each other.
    """
    for ranked, sized, locals_ in KINDS:
        if ranked in env:
            world = number(env, sized, least=1)
            rank = number(env, ranked, below=(world, sized))
            here = next(((number(env, name), name) for name in locals_ if name in env), None)
            return of_rank(rank, world, "mpi", by=(ranked, sized), local_rank=here)
    if PMIX_RANK in env:
        return of_rank(number(env, PMIX_RANK), None, "mpi", by=(PMIX_RANK, SIZE))
    return None


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
