"""The variables of jax.distributed."""

import pytest

from penstock.environment.launchers import resolve_jax
from penstock.errors import ConfigError


def test_processes_are_consumers():
    env = {
        "JAX_PROCESS_ID": "1",
        "JAX_NUM_PROCESSES": "2",
        "JAX_COORDINATOR_ADDRESS": "a:1234",
    }

    found = resolve_jax(env)

    assert (found.role, found.consumer_index, found.num_consumers) == ("worker", 1, 2)
    assert found.addresses == {"chief": ["a:1234"], "worker": [None]}


def test_nothing_is_none():
    assert resolve_jax({"JAX_COORDINATOR_ADDRESS": "a:1"}) is None


@pytest.mark.parametrize("only", ["JAX_PROCESS_ID", "JAX_NUM_PROCESSES"])
def test_one_without_the_other_is_named(only):
    with pytest.raises(ConfigError, match="is not set, but the other of"):
        resolve_jax({only: "1"})
