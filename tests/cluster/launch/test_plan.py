"""What a host's role in the cluster asks for."""

import json

import pytest

from penstock import cluster_environment
from penstock.errors import ConfigError
from penstock_cluster.launch.plan import is_loopback, launch_plan


def tf_config(cluster, role, index):
    whole = {"cluster": cluster, "task": {"type": role, "index": index}}
    return {"TF_CONFIG": json.dumps(whole)}


CLUSTER = {"chief": ["10.0.0.1:2222"], "worker": ["10.0.0.2:2222", "10.0.0.3:2222"]}


def plan(role, index=0, data_workers=None, cluster=CLUSTER):
    return launch_plan(cluster_environment(tf_config(cluster, role, index)), data_workers)


def test_the_chief_has_the_dispatcher_and_every_trainer_a_data_worker():
    chief, worker = plan("chief"), plan("worker", 1)

    assert (chief.dispatcher, chief.data_workers, chief.script) == (True, 1, True)
    assert (worker.dispatcher, worker.data_workers, worker.script) == (False, 1, True)
    assert chief.target == worker.target == "10.0.0.1:7000"
    assert (worker.host, worker.bind) == ("10.0.0.3", "0.0.0.0")


def test_where_there_are_hosts_for_data_workers_trainers_have_none():
    cluster = {**CLUSTER, "data_worker": ["10.0.0.9:1"]}

    assert plan("worker", cluster=cluster).data_workers == 0
    alone = plan("data_worker", cluster=cluster)
    assert (alone.data_workers, alone.script, alone.dispatcher) == (1, False, False)
    assert plan("worker", cluster=cluster, data_workers=3).data_workers == 3


def test_a_host_of_its_own_has_the_dispatcher():
    cluster = {**CLUSTER, "dispatcher": ["10.0.0.7:7001"]}

    own, chief = plan("dispatcher", cluster=cluster), plan("chief", cluster=cluster)

    assert (own.dispatcher, own.script, own.target) == (True, False, "10.0.0.7:7001")
    assert (chief.dispatcher, chief.target) == (False, "10.0.0.7:7001")


@pytest.mark.parametrize("role", ["ps", "evaluator"])
def test_who_does_not_train_runs_the_script_alone(role):
    cluster = {**CLUSTER, "ps": ["10.0.0.8:1"]}

    found = plan(role, cluster=cluster)

    assert (found.dispatcher, found.data_workers, found.script) == (False, 0, True)


def test_on_one_host_the_first_process_has_the_data_workers():
    env = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1"}

    assert launch_plan(cluster_environment(env), None).data_workers == 0
    first = launch_plan(cluster_environment({**env, "LOCAL_RANK": "0", "RANK": "0"}), None)
    assert (first.dispatcher, first.data_workers, first.bind) == (True, 1, "127.0.0.1")


def test_a_process_alone_takes_any_port_of_this_machine():
    found = launch_plan(cluster_environment({}), None)

    assert (found.target, found.bind) == ("127.0.0.1:0", "127.0.0.1")
    assert (found.dispatcher, found.data_workers, found.script) == (True, 1, True)


def test_a_cluster_without_addresses_needs_a_target():
    env = {"RANK": "1", "WORLD_SIZE": "2"}

    with pytest.raises(ConfigError, match="nothing of torchrun says where .* set PENSTOCK_TARGET"):
        launch_plan(cluster_environment(env), None)
    target = launch_plan(cluster_environment({**env, "PENSTOCK_TARGET": "a:5"}), None)
    assert (target.target, target.dispatcher) == ("a:5", False)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("[::1]", True), ("localhost", True), ("10.0.0.1", False), ("a", False)],
)
def test_what_is_this_machine_alone(host, loopback):
    assert is_loopback(host) is loopback
