"""Which launcher started a process, and what becomes of several that say so."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_a_number_of_consumers_that_no_index_belongs_to_is_an_error():
    with pytest.raises(ConfigError, match="is 4, but nothing says .* set PENSTOCK_CONSUMER_INDEX"):
        penstock.cluster_environment({"PENSTOCK_NUM_CONSUMERS": "4"})


def test_a_variable_settles_it_for_all_of_a_process():
    env = {**TORCH, **SLURM, "SLURM_NTASKS": "9", "PENSTOCK_PREFER": "slurm"}

    assert penstock.cluster_environment(env).num_consumers == 9
    assert penstock.cluster_environment(env, prefer="torchrun").num_consumers == 2
    with pytest.raises(ConfigError, match="PENSTOCK_PREFER must be one of .*not 'lsf'"):
        penstock.cluster_environment({**env, "PENSTOCK_PREFER": "lsf"})


def test_worlds_of_other_sizes_disagree():
    with pytest.raises(ConfigError, match="by WORLD_SIZE num_consumers is 2, and by SLURM_NTASKS"):
        penstock.cluster_environment({**TORCH, **SLURM, "SLURM_NTASKS": "4"})


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"PENSTOCK_ROLE": "evaluator"}, "this is 'evaluator', .* this is 'ps'"),
        ({"PENSTOCK_ROLE": "ps", "PENSTOCK_INDEX": "1"}, "index is 1, .* index is 0"),
    ],
)
def test_also_those_disagree_that_do_not_train(own, said):
    cluster = {"ps": ["a:1", "b:1"], "worker": ["c:1"]}
    config = json.dumps({"cluster": cluster, "task": {"type": "ps", "index": 0}})

    with pytest.raises(ConfigError, match=f"penstock and tf_config disagree: .*{said}"):
        penstock.cluster_environment({"TF_CONFIG": config, **own})


def test_what_is_malformed_is_no_reason_not_to_say_what_is_there():
    with pytest.raises(ConfigError, match="nothing of that is set: there is torchrun"):
        penstock.cluster_environment({**TORCH, "RANK": "x"}, prefer="slurm")


VARIABLES = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT",
    "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE",
    "JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "JAX_COORDINATOR_ADDRESS",
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK",
    "LWS_WORKER_INDEX", "LWS_GROUP_SIZE", "LWS_LEADER_ADDRESS", "JOB_COMPLETION_INDEX",
    "PENSTOCK_ROLE", "PENSTOCK_INDEX", "PENSTOCK_CONSUMER_INDEX", "PENSTOCK_NUM_CONSUMERS",
    "PENSTOCK_TARGET", "PENSTOCK_TRIAL", "PENSTOCK_PREFER", "TF_CONFIG", "CLUSTER_SPEC",
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
ROLES = st.sampled_from(["chief", "master", "worker", "ps", "evaluator", "workerpool0", "x"])
ADDRESSES = st.lists(st.just("a:1"), max_size=3) | st.dictionaries(st.sampled_from("012x"), JSON)
TASK = st.fixed_dictionaries({}, optional={"type": ROLES, "index": JSON, "trial": JSON})
CLUSTER = st.dictionaries(ROLES, ADDRESSES | JSON, max_size=3)
WHOLE = st.fixed_dictionaries({}, optional={"task": TASK | JSON, "cluster": CLUSTER | JSON})
VALUES = st.one_of(
    st.sampled_from(["0", "1", "2", "-1", "", " 1", "chief", "ps", "slurm", "host:1", "a[1-2]"]),
    st.text(max_size=4),
    WHOLE.map(json.dumps),
)


@given(st.dictionaries(st.sampled_from(VARIABLES), VALUES, max_size=6))
def test_any_variables_are_a_place_within_its_cluster_or_a_clear_error(env):
    try:
        found = penstock.cluster_environment(env)
    except ConfigError as exc:
        assert any(name in str(exc) for name in VARIABLES)
        return
    listed = found.addresses.get(found.role.value)
    assert found.role.trains == (found.consumer_index is not None)
    if found.num_consumers is not None:
        assert 0 <= found.consumer_index < found.num_consumers
    if listed:
        assert found.source == "penstock" or 0 <= found.index < len(listed)
    assert found.explain().startswith(f"source: {found.source}\nrole: {found.role.value}")


@given(st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_consumers_of_one_cluster_have_all_indexes_once(workers, servers, chief):
    cluster = {"worker": ["w:1"] * workers, "ps": ["p:1"] * servers}
    if chief:
        cluster["chief"] = ["c:1"]
    found = [
        penstock.cluster_environment(
            {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})}
        )
        for role, places in cluster.items()
        for index in range(len(places))
    ]

    training = [place for place in found if place.role.trains]
    indexes = sorted(place.consumer_index for place in training)
    assert indexes == list(range(len(training)))
    assert {place.num_consumers for place in training} == {len(training)}
    assert sum(place.is_chief for place in found) == 1


@given(st.integers(1, 9), st.sampled_from(["RANK WORLD_SIZE", "SLURM_PROCID SLURM_NTASKS",
       "JAX_PROCESS_ID JAX_NUM_PROCESSES", "PMI_RANK PMI_SIZE", "LWS_WORKER_INDEX LWS_GROUP_SIZE",
       "PENSTOCK_CONSUMER_INDEX PENSTOCK_NUM_CONSUMERS"]))  # fmt: skip
def test_ranks_of_each_launcher_are_its_consumers(world, names):
    rank, size = names.split()
    places = [
        penstock.cluster_environment({rank: str(one), size: str(world)}) for one in range(world)
    ]

    assert [place.consumer_index for place in places] == list(range(world))
    assert [place.role for place in places] == ["chief", *["worker"] * (world - 1)]
    assert [place.index for place in places] == [0, *range(world - 1)]


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
