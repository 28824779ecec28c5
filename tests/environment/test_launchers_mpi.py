"""The variables of MPI's launchers."""

import pytest

from penstock import cluster_environment
from penstock.environment.launchers import resolve_mpi
from penstock.errors import ConfigError


@pytest.mark.parametrize(
    "env",
    [
        {
            "OMPI_COMM_WORLD_RANK": "2",
            "OMPI_COMM_WORLD_SIZE": "3",
            "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        },
        {"PMI_RANK": "2", "PMI_SIZE": "3", "MPI_LOCALRANKID": "0"},
        {"PMI_RANK": "2", "PMI_SIZE": "3", "PMI_LOCAL_RANK": "0", "PMIX_RANK": "2"},
    ],
)
def test_ranks_are_consumers(env):
    found = resolve_mpi(env)

    assert (found.role, found.index, found.consumer_index) == ("worker", 1, 2)
    assert (found.num_consumers, found.local_rank) == (3, 0)


def test_of_pmix_alone_the_number_of_ranks_is_told_beside_it():
    assert resolve_mpi({"PMIX_RANK": "1"}).num_consumers is None

    found = cluster_environment({"PMIX_RANK": "1", "PENSTOCK_NUM_CONSUMERS": "3"})

    assert (found.role, found.consumer_index, found.num_consumers) == ("worker", 1, 3)
    assert found.said["num_consumers"] == "PENSTOCK_NUM_CONSUMERS"


def test_nothing_is_none():
    assert resolve_mpi({"PMI_SIZE": "2"}) is None


def test_a_rank_without_their_number_is_named():
    with pytest.raises(ConfigError, match="PMI_SIZE is not set"):
        resolve_mpi({"PMI_RANK": "0"})
