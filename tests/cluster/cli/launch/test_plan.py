"""What a host's role in the cluster asks for."""

import json

import pytest

from penstock import cluster_environment
from penstock.errors import ConfigError
from penstock_cluster.cli.launch.plan import Surroundings, launch_plan

FAR = Surroundings("10.0.0.77", here=False, taken=False)
HERE = Surroundings("10.0.0.1", here=True, taken=False)
ALONE = Surroundings("127.0.0.1", here=True, taken=False)


def tf_config(cluster, role, index):
    whole = {"cluster": cluster, "task": {"type": role, "index": index}}
    return {"TF_CONFIG": json.dumps(whole)}


CLUSTER = {"chief": ["10.0.0.1:2222"], "worker": ["10.0.0.2:2222", "10.0.0.3:2222"]}


def plan(role, index=0, data_workers=None, cluster=CLUSTER):
    return launch_plan(cluster_environment(tf_config(cluster, role, index)), data_workers, FAR)


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

    assert launch_plan(cluster_environment(env), None, ALONE).data_workers == 0
    first = launch_plan(cluster_environment({**env, "LOCAL_RANK": "0", "RANK": "0"}), None, ALONE)
    assert (first.dispatcher, first.data_workers, first.bind) == (True, 1, "127.0.0.1")


def test_a_process_alone_takes_any_port_of_this_machine():
    found = launch_plan(cluster_environment({}), None, ALONE)

    assert (found.target, found.bind) == ("127.0.0.1:0", "127.0.0.1")
    assert (found.dispatcher, found.data_workers, found.script) == (True, 1, True)


MPI = {"OMPI_COMM_WORLD_SIZE": "2", "PENSTOCK_TARGET": "10.0.0.1:7123"}


def ranked(rank, around, **more):
    env = {**MPI, "OMPI_COMM_WORLD_RANK": str(rank), **more}
    return launch_plan(cluster_environment(env), None, around)


def test_a_cluster_without_addresses_needs_a_target():
    env = {"RANK": "1", "WORLD_SIZE": "2"}

    with pytest.raises(ConfigError, match="nothing of torchrun says where .* set PENSTOCK_TARGET"):
        launch_plan(cluster_environment(env), None, FAR)


def test_the_first_who_trains_starts_the_dispatcher_that_a_target_of_its_own_host_names():
    first, other = ranked(0, HERE), ranked(1, FAR)

    assert (first.dispatcher, other.dispatcher) == (True, False)
    assert first.target == other.target == "10.0.0.1:7123"
    assert (first.host, other.host, other.bind) == ("10.0.0.1", "10.0.0.77", "0.0.0.0")
    assert not ranked(1, HERE).dispatcher  # on one host there is one, too


def test_a_dispatcher_that_runs_already_or_is_far_away_is_left_alone():
    assert not ranked(0, Surroundings("10.0.0.1", here=True, taken=True)).dispatcher
    assert not ranked(0, FAR).dispatcher


def test_a_dispatcher_that_the_cluster_lists_has_a_host_of_its_own():
    cluster = {**CLUSTER, "dispatcher": ["10.0.0.1:7001"]}
    place = cluster_environment(tf_config(cluster, "chief", 0))

    assert not launch_plan(place, None, HERE).dispatcher


def test_a_worker_of_torchrun_on_another_host_is_known_by_an_address_of_its_own():
    env = {"RANK": "4", "WORLD_SIZE": "8", "LOCAL_RANK": "0", "MASTER_ADDR": "10.0.0.1"}

    found = launch_plan(cluster_environment(env), None, FAR)

    assert (found.target, found.host, found.bind) == ("10.0.0.1:7000", "10.0.0.77", "0.0.0.0")


@pytest.mark.parametrize("target", ["host", "host:port", "host:70000", "a b:7000"])
def test_a_target_that_is_no_address_is_named(target):
    with pytest.raises(ConfigError, match=rf"PENSTOCK_TARGET the dispatcher is at '{target}', wh"):
        ranked(1, FAR, PENSTOCK_TARGET=target)
