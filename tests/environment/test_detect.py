"""Which launcher started a process, and what becomes of several that say so."""

import json

import pytest

import penstock
from penstock.environment.detect import SYSTEMS
from penstock.errors import ConfigError

TORCH = {"RANK": "1", "WORLD_SIZE": "2"}
SLURM = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}


def test_without_variables_a_process_trains_alone():
    found = penstock.cluster_environment({})

    assert (found.role, found.consumer_index, found.num_consumers) == ("chief", 0, 1)
    assert (found.source, found.addresses, found.trial) == ("local", {}, None)


def test_it_reads_its_own_variables_at_each_call(monkeypatch):
    for name, value in TORCH.items():
        monkeypatch.setenv(name, value)

    assert penstock.cluster_environment().consumer_index == 1


def test_systems_that_agree_are_one():
    assert penstock.cluster_environment({**TORCH, **SLURM}).source == "torchrun"


def test_systems_that_disagree_are_named_and_prefer_settles_it():
    env = {**TORCH, **SLURM, "SLURM_PROCID": "0"}

    with pytest.raises(
        ConfigError, match=r"torchrun and slurm disagree: by RANK .* by SLURM_PROCID"
    ):
        penstock.cluster_environment(env)
    assert penstock.cluster_environment(env, prefer="slurm").consumer_index == 0
    assert penstock.cluster_environment(env, prefer="torchrun").consumer_index == 1


def test_a_server_of_parameters_does_not_train_whoever_says_so():
    cluster = {"ps": ["a:1"], "worker": ["b:1"]}
    config = json.dumps({"cluster": cluster, "task": {"type": "ps", "index": 0}})

    with pytest.raises(ConfigError, match="tf_config and torchrun disagree: .* this is 'ps'"):
        penstock.cluster_environment({"TF_CONFIG": config, **TORCH})


def test_what_is_preferred_must_be_there_and_known():
    with pytest.raises(ConfigError, match="nothing of that is set: there is torchrun"):
        penstock.cluster_environment(TORCH, prefer="slurm")
    with pytest.raises(ConfigError, match="prefer must be one of .*not 'tensorflow'"):
        penstock.cluster_environment(TORCH, prefer="tensorflow")


def test_each_system_says_nothing_where_nothing_is_set():
    assert [resolve({}) for resolve in SYSTEMS.values()] == [None] * len(SYSTEMS)
