"""`TF_CONFIG`, as TensorFlow's launchers write it."""

import json

import pytest

from penstock.environment.tf_config import resolve
from penstock.errors import ConfigError

CLUSTER = {"chief": ["c:1"], "worker": ["w0:1", "w1:1"], "ps": ["p:1"]}


def config(task, cluster=CLUSTER, **more):
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task, **more})}


@pytest.mark.parametrize(
    ("task", "role", "index", "consumer"),
    [
        ({"type": "chief", "index": 0}, "chief", 0, 0),
        ({"type": "worker", "index": 0}, "worker", 0, 1),
        ({"type": "worker", "index": "1"}, "worker", 1, 2),
        ({"type": "ps", "index": 0}, "ps", 0, None),
        ({"type": "evaluator", "index": 0}, "evaluator", 0, None),
    ],
)
def test_the_chief_is_the_first_consumer_and_workers_follow(task, role, index, consumer):
    found = resolve(config(task))

    assert (found.role, found.index, found.consumer_index) == (role, index, consumer)
    assert found.num_consumers == (None if consumer is None else 3)
    assert found.addresses == CLUSTER
    assert found.source == "tf_config"


def test_master_is_what_a_chief_was_called():
    found = resolve(config({"type": "master", "index": 0}, {"master": ["m:1"], "worker": ["w:1"]}))

    assert (found.role, found.consumer_index, found.num_consumers) == ("chief", 0, 2)
    assert found.addresses == {"chief": ["m:1"], "worker": ["w:1"]}


def test_without_a_chief_the_first_worker_does_what_is_done_once():
    found = resolve(config({"type": "worker", "index": 0}, {"worker": ["a:1", "b:1"]}))

    assert (found.role, found.consumer_index, found.is_chief) == ("worker", 0, True)


def test_a_cluster_may_list_some_of_its_addresses():
    sparse = {"worker": {"1": "b:1"}, "ps": ["p:1"]}

    found = resolve(config({"type": "worker", "index": 1}, sparse))

    assert found.addresses["worker"] == [None, "b:1"]
    assert found.consumer_index == 1


def test_of_a_sparse_cluster_the_number_of_consumers_may_be_told_beside_it():
    env = config({"type": "worker", "index": 1}, {"chief": ["a:1"], "worker": {"1": "b:1"}})

    assert resolve(env).num_consumers == 3
    assert resolve({**env, "PENSTOCK_NUM_CONSUMERS": "5"}).num_consumers == 5
    with pytest.raises(ConfigError, match="PENSTOCK_NUM_CONSUMERS must be at least 3, not '2'"):
        resolve({**env, "PENSTOCK_NUM_CONSUMERS": "2"})


def test_a_task_alone_is_a_cluster_of_one():
    found = resolve({"TF_CONFIG": '{"task": {"type": "worker", "index": 0}}'})

    assert (found.consumer_index, found.num_consumers) == (0, 1)


@pytest.mark.parametrize(
    "more", [{"task": {"type": "chief", "index": 0, "trial": "3"}}, {"job": {"trial": 3}}]
)
def test_a_trial_is_text(more):
    whole = {"cluster": CLUSTER, "task": {"type": "chief", "index": 0}, "environment": "cloud"}

    assert resolve({"TF_CONFIG": json.dumps(whole | more)}).trial == "3"


@pytest.mark.parametrize("text", ["", "  ", "{}", '{"environment": "cloud"}'])
def test_one_that_says_nothing_is_none(text):
    assert resolve({"TF_CONFIG": text}) is None
    assert resolve({}) is None


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (
            {"TF_CONFIG": '{"cluster": {,}}'},
            r"is not JSON: .*column 14.*near '\{\"cluster\": \{,\}\}'",
        ),
        ({"TF_CONFIG": "[1]"}, r"must be an object of JSON, not '\[1\]'"),
        (config({"type": "boss", "index": 0}), "task.type must be one of .*not 'boss'"),
        (config({"type": "worker", "index": 2}), "task.index is 2, but the cluster lists 2 worker"),
        (
            config({"type": "worker", "index": -1}),
            "task.index must be a number of at least 0, not -1",
        ),
        (config({"type": "worker", "index": True}), "not True"),
        (config({"type": "ps", "index": 0}, {"worker": ["a:1"]}), "'ps', but the cluster has only"),
        (
            config({"type": "worker"}, {"boss": ["a:1"]}),
            "a role of cluster, 'boss', must be one of",
        ),
        (config({"type": "worker"}, {"worker": [7]}), r"cluster.worker\[0\] must be an address"),
        (config({"type": "worker"}, {"worker": 7}), "cluster.worker must be a list of addresses"),
        (config({"type": "worker"}, {"worker": {"x": "a"}}), "has the key 'x', which is no index"),
        (config({"type": "chief"}, {"chief": ["a:1"], "master": ["b:1"]}), "which are one"),
        (config(["worker"]), "task must be an object"),
        (config({"type": "worker", "index": 3}, {}), "task.index is 3, but no cluster is there"),
        (config({"type": "worker", "index": "1" * 5000}), "task.index must be .* not '1111"),
        ({"TF_CONFIG": "[" * 100_000}, "is not JSON: "),
    ],
)
def test_what_is_malformed_is_quoted_with_its_variable(variables, said):
    with pytest.raises(ConfigError, match=rf"TF_CONFIG.*{said}"):
        resolve(variables)
