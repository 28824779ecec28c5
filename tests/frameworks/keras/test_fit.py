"""Keras 3 trains from a mesh on each of its backends, with the recipe of its page."""

from pathlib import Path

import pytest

from tests.frameworks.processes import run_ranks

PROGRAM = Path(__file__).parent / "fit_program.py"


@pytest.mark.parametrize("backend", ["tensorflow", "torch", "jax"])
def test_fit_makes_each_step_of_each_epoch(cluster, tmp_path, backend):
    (((found,)),) = run_ranks(PROGRAM, 1, cluster.target, log=tmp_path, KERAS_BACKEND=backend)

    assert found["backend"] == backend
    assert (found["known"], found["steps"]) == (20, 60)
    assert found["losses"][-1] < found["losses"][0]
