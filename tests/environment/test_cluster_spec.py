"""`CLUSTER_SPEC`, as Vertex AI writes it for custom containers."""

import json

import pytest

from penstock.environment.cluster import Role
from penstock.environment.cluster_spec import resolve
from penstock.errors import ConfigError

POOLS = {
    "workerpool0": ["primary:2222"],
    "workerpool1": ["w0:2222", "w1:2222"],
    "workerpool2": ["p:2222"],
    "workerpool3": ["e:2222"],
}


def spec(task, **more):
    whole = {"cluster": POOLS, "environment": "cloud", "task": task, "open_ports": [3333]}
    return {"CLUSTER_SPEC": json.dumps(whole | more)}


@pytest.mark.parametrize(
    ("pool", "index", "role", "consumer"),
    [
        ("workerpool0", 0, "chief", 0),
        ("workerpool1", 1, "worker", 2),
        ("workerpool2", 0, "ps", None),
        ("workerpool3", 0, "evaluator", None),
    ],
)
def test_pools_are_roles(pool, index, role, consumer):
    found = resolve(spec({"type": pool, "index": index, "trial": "TRIAL_1"}))

    assert (found.role, found.index, found.consumer_index) == (role, index, consumer)
    assert found.trial == "TRIAL_1"
    assert found.addresses["worker"] == ["w0:2222", "w1:2222"]
    assert found.source == "cluster_spec"


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (spec({"type": "workerpool7", "index": 0}), "task.type must be one of .*not 'workerpool7'"),
        (spec({"type": "workerpool1", "index": 5}), "task.index is 5"),
        (
            spec({"type": "workerpool0"}, open_ports=[0]),
            r"open_ports must be a list of ports, not \[0\]",
        ),
        (spec({"type": "workerpool0"}, cluster={"pool": []}), "a pool of cluster, 'pool',"),
        ({"CLUSTER_SPEC": "nothing"}, "is not JSON"),
    ],
)
def test_what_is_malformed_is_quoted_with_its_variable(variables, said):
    with pytest.raises(ConfigError, match=rf"CLUSTER_SPEC.*{said}"):
        resolve(variables)


@pytest.mark.parametrize(
    ("task", "index", "role", "consumer"),
    [
        ("chief", 0, Role.CHIEF, 0),
        ("master", 0, Role.CHIEF, 0),
        ("worker", 1, Role.WORKER, 2),
        ("ps", 0, Role.PS, None),
        ("evaluator", 0, Role.EVALUATOR, None),
    ],
)
@pytest.mark.parametrize("chief", ["chief", "master"])
def test_the_names_of_tf_config_mean_the_same(task, index, role, consumer, chief):
    cluster = {chief: ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}
    whole = {"cluster": cluster, "task": {"type": task, "index": index}}

    found = resolve({"CLUSTER_SPEC": json.dumps(whole)})

    assert (found.role, found.index, found.consumer_index) == (role, index, consumer)
    assert found.addresses["chief"] == ["a:1"]


def test_a_role_under_two_names_is_refused():
    whole = {"cluster": {"workerpool0": ["a:1"], "chief": ["b:1"]}, "task": {"type": "chief"}}

    with pytest.raises(ConfigError, match="both 'workerpool0' and 'chief', which are one"):
        resolve({"CLUSTER_SPEC": json.dumps(whole)})
