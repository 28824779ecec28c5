"""The variables of MPI's launchers: Open MPI's, and those of PMI (MPICH, Intel MPI)."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.environment.cluster import ClusterEnvironment, number, of_rank

KINDS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)
"""Variables for the rank, the number of ranks, and the rank on the host."""


def resolve(env: Mapping[str, str]) -> ClusterEnvironment | None:
    """Return what they say; None if no rank is set.

    Raises:
        ConfigError: when there is a rank and no number of ranks, or they contradict each other.
    """
    for ranked, sized, local in KINDS:
        if ranked in env:
            world = number(env, sized, least=1)
            rank = number(env, ranked, below=(world, sized))
            here = (number(env, local), local) if local in env else None
            return of_rank(rank, world, "mpi", by=(ranked, sized), local_rank=here)
    return None
