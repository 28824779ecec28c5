"""Each program of examples/ that needs a framework does what its first lines say."""

import pytest

from tests.docs.pages import ROOT
from tests.frameworks.processes import SECONDS, Ranks, said_by
from tests.frameworks.warm import Program

EXAMPLES = ROOT / "examples"


def run(name, *args, log, **variables):
    program = Program(EXAMPLES / name, *args, errors=log / "errors.txt", **variables)
    return program.said(SECONDS).splitlines()


@pytest.mark.parametrize("backend", ["tensorflow", "torch", "jax"])
def test_keras_fits_on_each_backend(cluster, tmp_path, backend):
    said = run("keras_fit.py", cluster.target, log=tmp_path, KERAS_BACKEND=backend)

    assert said[-1] == f"{backend}: 3 epochs; the loss fell: True"


def test_jax_fits_with_batches_divided_among_devices(cluster, tmp_path):
    devices = "--xla_force_host_platform_device_count=4"

    # XLA's threads wait for each other in a collective: with as many as there are cores (NPROC says
    # how many it takes there to be) four devices have once waited for ever.
    more = {"XLA_FLAGS": devices, "NPROC": "16"}
    said = run("jax_sharded.py", cluster.target, "--run", "alone", log=tmp_path, **more)

    assert said == ["80 steps of 16 rows; the loss went down: True"]


def test_ranks_that_are_killed_go_on_with_the_samples_that_are_left(cluster, tmp_path):
    checkpoint = tmp_path / "ddp.pt"
    args = (cluster.target, "--run", "killed", "--checkpoint", checkpoint, "--every", "5")
    ranks = Ranks(EXAMPLES / "torch_ddp.py", 2, *args, log=tmp_path)
    lines = iter(ranks.processes[0].stdout.readline, "")
    assert next(line for line in lines if line.startswith("saved at step 15"))
    ranks.kill()

    again = Ranks(EXAMPLES / "torch_ddp.py", 2, *args, log=tmp_path)
    out, _ = said_by(again.processes)

    last = out.splitlines()[-1]
    steps, once = int(last.split()[0]), int(last.split()[2])
    assert last.endswith("samples once, 0 more often")
    assert once == steps * 20 >= 1600 - 40
