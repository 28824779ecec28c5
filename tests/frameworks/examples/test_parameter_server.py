"""The example of a cluster with parameter servers, as real processes."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

import pytest

from penstock_cluster import LocalCluster
from penstock_cluster.cli.status import look
from penstock_dispatcher import DispatcherConfig
from penstock_worker import WorkerConfig
from tests.docs.pages import ROOT
from tests.frameworks.processes import ONE_THREAD, Tasks

PROGRAM = ROOT / "examples" / "tensorflow_parameter_server.py"
STEPS, BATCH = 5, 32
SECONDS = 110


def numbers(line):
    return [int(found) for found in re.findall(r"\d+", line)]


@pytest.fixture
def own(clusters, tmp_path):
    """A cluster that a test may kill; its workers do not fill large buffers with small elements."""
    clusters.close()
    config = DispatcherConfig(worker_timeout=2.0, client_timeout=3.0)
    worker = WorkerConfig(buffer_bytes=1 << 20)
    folder = tmp_path / "mesh"
    with LocalCluster(2, work_dir=folder, dispatcher=config, worker=worker) as cluster:
        yield cluster


# TensorFlow's tutorial learns the words in 4 epochs; here all workers share a third of the time.
@pytest.mark.parametrize(("by", "given"), [("coordinator", 8), ("fit", 6)])
def test_a_cluster_learns_the_words_and_is_evaluated_inline_and_beside(own, tmp_path, by, given):
    saved = tmp_path / "checkpoints"
    args = [own.target, "--by", by, "--run", by, "--epochs", given, "--checkpoints", saved]

    with Tasks(PROGRAM, *args, log=tmp_path, ps=2, worker=3, evaluator=1, chief=1) as tasks:
        divided, *epochs = tasks["chief"][0].said()
        beside = tasks["evaluator"][0].said()

    assert divided == "the embedding is divided: task:0, task:1"
    if by == "coordinator":
        *epochs, account = epochs
        steps, lives, once, more = numbers(account)
        assert (steps, once, more) == (given * STEPS, given * STEPS * BATCH, 0)
        assert lives <= 3
    assert len(epochs) == given
    assert epochs[-1].startswith(f"epoch {given}: accuracy 1.000, evaluated 1.000")
    said = [line for line in beside if line.startswith("side-car")]
    assert said[-1] == "side-car: accuracy 1.000"


def test_the_example_ends_by_itself_on_five_hosts_of_penstock_run(tmp_path):
    with ExitStack() as sockets:
        free = [sockets.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(6)]
        at = [f"127.0.0.1:{one.getsockname()[1]}" for one in free]
    cluster = {"chief": at[:1], "worker": at[1:3], "ps": at[3:5]}
    places = [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1), ("chief", 0)]
    run = [sys.executable, "-m", "penstock_cluster.cli.app", "run", str(PROGRAM)]
    asked = ["--by", "coordinator", "--epochs", "2", "--checkpoints", str(tmp_path / "saved")]
    with ExitStack() as held:
        hosts = [
            held.enter_context(
                host(
                    [*run, *asked],
                    tmp_path / f"{role}-{index}.txt",
                    TF_CONFIG=json.dumps(
                        {"cluster": cluster, "task": {"type": role, "index": index}}
                    ),
                    PENSTOCK_TARGET=at[5],
                )
            )
            for role, index in places
        ]
        chief = hosts[-1]
        assert chief.wait(SECONDS) == 0, text_of(tmp_path)
        ended = time.monotonic()
        codes = [one.wait(SECONDS) for one in hosts[:-1]]

    said = text_of(tmp_path)
    assert codes == [0, 0, 0, 0], said
    assert time.monotonic() - ended < 30  # each sees within a second that the job is over
    assert said.count("the job is over: the script is told to end") == 4
    assert "epoch 2" in said


@contextmanager
def host(command, log, **variables):
    """A host of a cluster, as a process; it and all that it started are gone in the end."""
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "COLUMNS": "300", **ONE_THREAD, **variables}
    with log.open("wb") as out, subprocess.Popen(command, env=env, stdout=out, stderr=out) as one:
        try:
            yield one
        finally:
            one.kill()


def text_of(folder):
    """Return what all hosts printed."""
    return "\n".join(f"{one.name}:\n{one.read_text()}" for one in sorted(folder.glob("*.txt")))


def moved(target):
    """Return whether a task of the training's data goes on at another data worker."""
    passes = [one for one in look(target).stats.iterations if one.job.endswith("/vocabulary")]
    return any(task.attempt > 1 for one in passes for task in one.tasks)


def test_workers_of_both_kinds_are_killed_and_training_goes_on(own, tmp_path):
    options = ["--epochs", 10**6, "--steps", 20, "--seconds", 0.001]
    args = [own.target, *options, "--checkpoints", tmp_path / "checkpoints"]

    with Tasks(PROGRAM, *args, log=tmp_path, ps=2, worker=3, chief=1) as tasks:
        (chief,), worker = tasks["chief"], tasks["worker"][1]
        chief.until("by 3 lives")
        worker.kill()
        before = numbers(chief.until("epoch"))[0]
        worker.start()
        chief.until("by 4 lives")
        os.kill(own.workers[0].pid, signal.SIGKILL)
        assert any(moved(own.target) for _ in chief.lines())
        epoch = chief.until("epoch")
        chief.process.terminate()  # it may come before the next epoch begins, or in it
        *more, account = chief.said()

    last = [epoch, *more][-1]
    assert last.startswith("epoch")
    assert "accuracy 1.000, evaluated 1.000" in last
    epochs = numbers(last)[0]
    assert epochs > before
    steps, lives, once, more = numbers(account)
    assert (steps, lives) == (epochs * 20, 4)
    # What the data worker answered in its last second or so is not known to anybody else.
    assert once + more > BATCH * steps - 2000


def test_a_server_whose_port_is_taken_waits_until_it_is_free(tmp_path):
    with socket.create_server(("0.0.0.0", 0)) as taken, ExitStack() as sockets:
        free = [sockets.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        at = [f"127.0.0.1:{one.getsockname()[1]}" for one in (taken, *free)]
        config = {
            "cluster": {"worker": at[:1], "chief": at[1:2], "ps": at[2:]},
            "task": {"type": "worker", "index": 0},
        }
        env = {**os.environ, "TF_CONFIG": json.dumps(config), "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [sys.executable, "-u", str(PROGRAM)]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as worker:
            try:
                assert worker.stdout.readline() == f"worker 0 cannot have {at[0]} yet\n"
                taken.close()
                answers(at[0], time.monotonic() + 60)
            finally:
                worker.kill()


def answers(address, deadline):
    """Wait until something listens at *address*."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            socket.create_connection((host, int(port)), 5).close()
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        else:
            return
