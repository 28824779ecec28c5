"""The compose file for real: a cluster of containers, a trainer, and containers that are killed."""

import json
import os
import shutil
import subprocess
import time
import uuid
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD, UP, PASS = 600, 120, 240

pytestmark = pytest.mark.compose


def engine_trouble():
    if shutil.which("docker") is None:
        return "there is no docker command"
    for command in (["docker", "compose", "version"], ["docker", "info"]):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            return f"`{' '.join(command)}` fails: {(ran.stderr or ran.stdout).strip()[-200:]}"
    return ""


class Compose:
    """One project of this test's own."""

    def __init__(self):
        self.env = {
            **os.environ,
            "COMPOSE_PROJECT_NAME": f"penstock-test-{uuid.uuid4().hex[:8]}",
            "PENSTOCK_PORT": "0",
            "PENSTOCK_TAG": "test",
        }

    def command(self, *args):
        return ["docker", "compose", *args]

    def run(self, *args, timeout=UP):
        ran = subprocess.run(
            self.command(*args),
            env=self.env,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert ran.returncode == 0, f"{args}: {ran.stdout[-3000:]}{ran.stderr[-3000:]}"
        return ran.stdout

    def start(self, *args):
        return subprocess.Popen(
            self.command(*args),
            env=self.env,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def healthy(self, service):
        return self.run("ps", service, "--format", "{{.Health}}").split()

    def wait_healthy(self, service, count):
        deadline = time.monotonic() + UP
        while (seen := self.healthy(service)) != ["healthy"] * count:
            assert time.monotonic() < deadline, f"{service}: {seen}\n{self.run('logs', service)}"
            time.sleep(0.5)


@pytest.fixture(scope="module")
def compose():
    if trouble := engine_trouble():
        pytest.skip(f"no container engine: {trouble}")
    compose = Compose()
    try:
        compose.run("build", "dispatcher", timeout=BUILD)
        yield compose
    finally:
        compose.run("--profile", "train", "down", "--volumes", "--timeout", "5")


def status(compose):
    """What the dispatcher counts, asked inside its own container."""
    out = compose.run(
        "exec", "-T", "dispatcher", "penstock", "status", "127.0.0.1:7000", "--json", timeout=30
    )
    return json.loads(out)


def wait_until(compose, what, seen):
    deadline = time.monotonic() + UP
    while not seen(now := status(compose)):
        assert time.monotonic() < deadline, f"{what}: {now}"
        time.sleep(0.5)


@pytest.mark.timeout(BUILD + 3 * UP + PASS)
def test_a_pass_survives_a_killed_worker_and_a_killed_dispatcher(compose):
    compose.run("up", "--detach")
    compose.run("up", "--detach", "--scale", "worker=3", "--no-recreate")
    compose.wait_healthy("worker", 3)
    train = ("trainer", "demo", "--target", "dispatcher:7000", "--epochs", "1")

    trainer = compose.start("run", "--rm", "--no-deps", "-T", *train)
    try:
        wait_until(compose, "the pass runs, by shared memory", lambda s: acked(s) and by_shm(s))
        victim = compose.run("ps", "-q", "worker").split()[0]
        subprocess.run(["docker", "kill", victim], check=True, capture_output=True)
        compose.run("kill", "dispatcher")
        compose.run("start", "dispatcher")
        said, _ = trainer.communicate(timeout=PASS)
    except subprocess.TimeoutExpired as exc:
        pytest.fail(f"the pass does not end: {exc.output!r}\n{status(compose)}")
    finally:
        trainer.kill()

    assert trainer.returncode == 0, said
    assert "The account balances" in said
    (iteration,) = status(compose)["iterations"]
    assert iteration["finished"]
    assert not iteration["faults"]
    assert iteration["account"]["redelivered"] == 0


def acked(stats):
    return sum(iteration["account"]["acked"] for iteration in stats["iterations"])


def by_shm(stats):
    """How many workers are read by shared memory, from another container."""
    readers = (reader for iteration in stats["iterations"] for reader in iteration["readers"])
    return sum(reader["transports"].get("shm", 0) for reader in readers)
