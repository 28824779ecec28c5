"""The example of several devices: towers in one process, graphs in those of a cluster."""

import re

import pytest

from penstock_cluster import LocalCluster
from penstock_cluster.cli.status import look
from penstock_worker import WorkerConfig
from tests.docs.pages import ROOT
from tests.frameworks.processes import Tasks

PROGRAM = ROOT / "examples" / "tensorflow_multi_device.py"
SMALL = WorkerConfig(buffer_bytes=1 << 22)
"""Workers that do not fill large buffers ahead of the training."""
LEARNED = 0.5
"""To guess is right in 0.1; after 100 steps the model is right in 0.78 or more."""


@pytest.fixture
def mesh(clusters, tmp_path):
    clusters.close()
    with LocalCluster(2, work_dir=tmp_path / "mesh", worker=SMALL) as cluster:
        yield cluster


def alone(tmp_path, *args):
    """Return what the program prints as the one process that there is."""
    with Tasks(PROGRAM, *args, log=tmp_path, chief=1) as tasks:
        return tasks["chief"][0].said()


def test_each_tower_takes_a_batch_of_its_own_in_every_step(mesh, tmp_path):
    (said,) = alone(tmp_path, mesh.target, "--towers", 2, "--steps", 300)

    assert said.startswith("2 towers, mesh: ")
    assert accuracy(said) > LEARNED
    (consumers,) = [one.rounds.consumers for one in look(mesh.target).stats.iterations]
    assert [consumer.index for consumer in consumers] == [0, 1]
    assert all(consumer.taken > 300 for consumer in consumers)  # and some that were ahead


def test_towers_are_fed_by_a_pipeline_of_their_own_process(mesh, tmp_path):
    (said,) = alone(tmp_path, mesh.target, "--feed", "local", "--steps", 100)

    assert said.startswith("2 towers, local: ")
    assert accuracy(said) > LEARNED
    assert not look(mesh.target).stats.iterations


def test_the_table_has_a_line_for_each_number_of_towers(mesh, tmp_path):
    _, _, *lines = alone(tmp_path, mesh.target, "--table", "--steps", 20)

    numbers = [[int(cell.replace(",", "")) for cell in line.split("|")[1:4]] for line in lines]
    assert [towers for towers, _, _ in numbers] == [1, 2, 4]
    assert all(by_mesh > 0 < local for _, by_mesh, local in numbers)
    consumers = [one.rounds.consumers for one in look(mesh.target).stats.iterations]
    assert sorted(map(len, consumers)) == [1, 2, 4]


@pytest.mark.parametrize("sync", [False, True])
def test_who_is_killed_in_a_cluster_goes_on_where_the_chief_is_or_has_saved(mesh, tmp_path, sync):
    args = [mesh.target, "--every", 50, "--checkpoints", tmp_path / "saved"]
    args += ["--sync"] if sync else []
    roles = {"ps": 1, "worker": 1, "chief": 1}

    with Tasks(PROGRAM, *args, "--steps", 10**6, log=tmp_path, **roles) as tasks:
        (chief,), (worker,) = tasks["chief"], tasks["worker"]
        worker.until("begins at step")
        saved = saved_behind(chief, 0)
        worker.kill()
        if not sync:
            saved = saved_behind(chief, saved + 100)
        worker.start()
        assert step(worker.until("begins at step")) >= saved
        saved = saved_behind(chief, saved + 100)
        chief.kill()
        chief.start()
        assert step(chief.until("begins at step")) >= saved
        saved = saved_behind(chief, saved + 100)

    with Tasks(PROGRAM, *args, "--steps", saved + 500, log=tmp_path, **roles) as tasks:
        begun, *_, chiefs, end = tasks["chief"][0].said()
        workers = tasks["worker"][0].said()[-1]
        assert "Traceback" not in tasks["chief"][0].process.errors()

    assert step(begun) >= saved
    assert accuracy(end) > LEARNED
    steps = [int(re.search(r"(\d+) steps", line)[1]) for line in (chiefs, workers)]
    missing = saved + 500 - step(begun)
    if sync:
        assert steps == [missing, missing]
    else:
        assert all(steps)
        assert sum(steps) >= missing


def saved_behind(chief, least):
    """Return the first step behind *least* at which the chief saved."""
    while (saved := step(chief.until("saved at step"))) <= least:
        pass
    return saved


def step(line):
    return int(re.search(r"step (\d+)", line)[1])


def accuracy(line):
    return float(re.search(r"accuracy ([\d.]+)", line)[1])
