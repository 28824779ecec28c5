"""The variables of torchrun."""

import pytest

from penstock.environment.launchers import resolve_torchrun
from penstock.errors import ConfigError


def test_ranks_are_consumers_and_the_first_is_the_chief():
    env = {
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "MASTER_ADDR": "a",
        "MASTER_PORT": "29",
    }

    found = resolve_torchrun(env)

    assert (found.role, found.index, found.consumer_index, found.num_consumers) == (
        "worker",
        2,
        3,
        4,
    )
    assert found.local_rank == 1
    assert found.addresses == {"chief": ["a:29"], "worker": [None, None, None]}


def test_nothing_is_none():
    assert resolve_torchrun({"LOCAL_RANK": "0"}) is None


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"RANK": "0"}, "RANK is set to '0', but WORLD_SIZE is not"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is set to '2', but RANK is not"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK must be below WORLD_SIZE, which is 2, not '2'"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "RANK must be a whole number of at least 0, not '-1'"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "not 'x'"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "WORLD_SIZE must be at least 1, not '0'"),
    ],
)
def test_what_is_malformed_is_named(env, said):
    with pytest.raises(ConfigError, match=said):
        resolve_torchrun(env)
