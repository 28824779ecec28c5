"""Each program of examples/ that needs a framework does what its first lines say."""

import os
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT
from tests.frameworks.processes import Ranks

EXAMPLES = ROOT / "examples"


def run(name, *args, **variables):
    command = [sys.executable, "-W", "ignore", EXAMPLES / name, *map(str, args)]
    env = {**os.environ, **variables}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=110, env=env)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.parametrize("backend", ["tensorflow", "torch", "jax"])
def test_keras_fits_on_each_backend(cluster, backend):
    said = run("keras_fit.py", cluster.target, KERAS_BACKEND=backend)

    assert said[-1] == f"{backend}: 3 epochs; the loss fell: True"


def test_jax_fits_with_batches_divided_among_devices(cluster):
    devices = "--xla_force_host_platform_device_count=4"

    said = run("jax_sharded.py", cluster.target, "--run", "alone", XLA_FLAGS=devices)

    assert said == ["80 steps of 16 rows; the loss went down: True"]


def test_ranks_that_are_killed_go_on_with_the_samples_that_are_left(cluster, tmp_path):
    checkpoint = tmp_path / "ddp.pt"
    args = (cluster.target, "--run", "killed", "--checkpoint", checkpoint, "--every", "5")
    ranks = Ranks(EXAMPLES / "torch_ddp.py", 2, *args)
    lines = iter(ranks.processes[0].stdout.readline, "")
    assert next(line for line in lines if line.startswith("saved at step 15"))
    ranks.kill()
    for process in ranks.processes:
        process.communicate()

    again = Ranks(EXAMPLES / "torch_ddp.py", 2, *args)
    (out, err), _ = [process.communicate(timeout=110) for process in again.processes]

    assert all(process.returncode == 0 for process in again.processes), out + err
    last = out.splitlines()[-1]
    steps, once = int(last.split()[0]), int(last.split()[2])
    assert last.endswith("samples once, 0 more often")
    assert once == steps * 20 >= 1600 - 40
