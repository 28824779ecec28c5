"""Penstock's own variables."""

import pytest

from penstock.environment.cluster import ClusterEnvironment, Role
from penstock.environment.own_variables import completed, resolve
from penstock.errors import ConfigError


@pytest.mark.parametrize(
    ("env", "role", "index", "consumer", "number"),
    [
        ({"PENSTOCK_CONSUMER_INDEX": "0", "PENSTOCK_NUM_CONSUMERS": "2"}, "chief", 0, 0, 2),
        ({"PENSTOCK_CONSUMER_INDEX": "1", "PENSTOCK_NUM_CONSUMERS": "2"}, "worker", 0, 1, 2),
        ({"PENSTOCK_ROLE": "worker", "PENSTOCK_INDEX": "2"}, "worker", 2, 3, None),
        ({"PENSTOCK_ROLE": "master"}, "chief", 0, 0, None),
        ({"PENSTOCK_ROLE": "data_worker", "PENSTOCK_INDEX": "3"}, "data_worker", 3, None, None),
        ({"PENSTOCK_ROLE": "dispatcher"}, "dispatcher", 0, None, None),
    ],
)
def test_they_say_who_this_is(env, role, index, consumer, number):
    found = resolve(env)

    assert (found.role, found.index, found.consumer_index) == (role, index, consumer)
    assert found.num_consumers == number


def test_a_target_alone_says_nothing_of_who_this_is():
    assert resolve({"PENSTOCK_TARGET": "a:1", "PENSTOCK_TRIAL": "x"}) is None


def test_a_target_and_a_trial_complete_what_another_system_says():
    found = ClusterEnvironment(Role.CHIEF, 0, 0, 1, trial="1", source="torchrun")

    whole = completed(found, {"PENSTOCK_TARGET": "grpc://a:7000", "PENSTOCK_TRIAL": "x"})

    assert whole.addresses == {"dispatcher": ["a:7000"]}
    assert (whole.trial, whole.source) == ("x", "torchrun")
    assert whole.said["trial"] == "PENSTOCK_TRIAL"


def test_a_number_of_consumers_that_differs_is_an_error_unless_that_is_settled():
    found = ClusterEnvironment(
        Role.WORKER, 0, 1, 4, source="torchrun", said={"num_consumers": "WORLD_SIZE"}
    )
    env = {"PENSTOCK_NUM_CONSUMERS": "2"}

    with pytest.raises(
        ConfigError,
        match="torchrun and penstock disagree: by WORLD_SIZE .* 4, and by PENSTOCK_NUM_.* it is 2",
    ):
        completed(found, env)
    assert completed(found, env, settled=True).num_consumers == 4
    assert completed(found, {"PENSTOCK_NUM_CONSUMERS": "4"}).said == found.said


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"PENSTOCK_ROLE": "boss"}, "PENSTOCK_ROLE must be one of .*not 'boss'"),
        ({"PENSTOCK_CONSUMER_INDEX": "2", "PENSTOCK_NUM_CONSUMERS": "2"}, "must be below"),
        ({"PENSTOCK_ROLE": "ps", "PENSTOCK_CONSUMER_INDEX": "0"}, "it is no trainer"),
        (
            {"PENSTOCK_ROLE": "worker", "PENSTOCK_INDEX": "1", "PENSTOCK_NUM_CONSUMERS": "2"},
            "one too many",
        ),
    ],
)
def test_what_is_malformed_is_named(env, said):
    with pytest.raises(ConfigError, match=said):
        resolve(env)
