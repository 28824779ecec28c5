"""The variables of Kubernetes."""

import pytest

from penstock import cluster_environment
from penstock.environment.launchers import resolve_indexed_job, resolve_leader_worker_set
from penstock.errors import ConfigError


def test_the_leader_of_a_set_is_the_chief():
    env = {"LWS_WORKER_INDEX": "0", "LWS_GROUP_SIZE": "3", "LWS_LEADER_ADDRESS": "lead.svc"}

    found = resolve_leader_worker_set(env)

    assert (found.role, found.consumer_index, found.num_consumers) == ("chief", 0, 3)
    assert found.addresses == {"chief": ["lead.svc"], "worker": [None, None]}


def test_an_indexed_job_does_not_say_how_many_there_are():
    found = resolve_indexed_job({"JOB_COMPLETION_INDEX": "4"})

    assert (found.consumer_index, found.num_consumers) == (4, None)


def test_that_is_told_beside_it():
    env = {"JOB_COMPLETION_INDEX": "4", "PENSTOCK_NUM_CONSUMERS": "5"}

    assert cluster_environment(env).num_consumers == 5
    with pytest.raises(ConfigError, match=r"consumer_index is 4, but PENSTOCK_NUM_CONSUMERS is 4"):
        cluster_environment({**env, "PENSTOCK_NUM_CONSUMERS": "4"})


def test_an_index_beyond_its_group_is_named():
    with pytest.raises(ConfigError, match="LWS_WORKER_INDEX must be below LWS_GROUP_SIZE"):
        resolve_leader_worker_set({"LWS_WORKER_INDEX": "3", "LWS_GROUP_SIZE": "3"})
