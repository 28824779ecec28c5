"""The variables of MPI's launchers: Open MPI's, those of PMI (MPICH, Intel MPI, Cray), of PMIx."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.environment.cluster import ClusterEnvironment, number, of_rank
from penstock.environment.own_variables import SIZE

KINDS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ("OMPI_COMM_WORLD_LOCAL_RANK",)),
    ("PMI_RANK", "PMI_SIZE", ("MPI_LOCALRANKID", "PMI_LOCAL_RANK")),
)
"""Variables for the rank, the number of ranks, and the rank on the host."""

PMIX_RANK = "PMIX_RANK"


def resolve(env: Mapping[str, str]) -> ClusterEnvironment | None:
    """Return what they say; None if no rank is set.

    PMIx alone does not say in variables how many ranks there are.

    Raises:
        ConfigError: when there is a rank of another and no number of ranks, or they contradict
            each other.
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
