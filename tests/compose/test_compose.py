"""The compose file for real: a cluster of containers, a trainer, and containers that are killed."""

import json
import os
import shutil
import subprocess
import time
import uuid
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
BUILD, UP, PASS = 600, 120, 240
EVERYTHING = ("--profile", "train", "--profile", "observe")

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
            "PENSTOCK_HTTP_PORT": "0",
            "PENSTOCK_TAG": "test",
            # What is public cannot be had everywhere: this stands in, to try what it is given.
            "PROMETHEUS_IMAGE": "penstock:test",
            "GRAFANA_IMAGE": "penstock:test",
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
        compose.run(*EVERYTHING, "down", "--volumes", "--timeout", "5")


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
    train = ("trainer", "demo", "--target", "grpcs://dispatcher:7000", "--epochs", "1")

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


SCRAPE = """
import json, ssl, sys, urllib.request
folder, name, target = sys.argv[1:]
tls = ssl.create_default_context(cafile=f"{folder}/ca.crt")
tls.check_hostname = False  # the name is checked below, as it is not the target's
with open(f"{folder}/token") as file:
    shown = {"Authorization": f"Bearer {file.read().strip()}"}
asked = urllib.request.Request(f"https://{target}/metrics", headers=shown)
with urllib.request.urlopen(asked, timeout=20, context=tls) as answer:
    certificate = answer.fp.raw._sock.getpeercert()
    body = answer.read().decode()
assert name in [value for _, value in certificate["subjectAltName"]], certificate
print(body)
"""


@pytest.mark.timeout(BUILD + 3 * UP)
def test_prometheus_and_grafana_are_given_what_they_need(compose):
    compose.run("up", "--detach")
    compose.wait_healthy("worker", 1)

    def inside(service, *command):
        options = ("--rm", "--no-deps", "-T", "--entrypoint", command[0])
        return compose.run("--profile", "observe", "run", *options, service, *command[1:])

    config = yaml.safe_load(inside("prometheus", "cat", "/etc/prometheus/prometheus.yml"))
    assert "groups:" in inside("prometheus", "cat", "/etc/prometheus/rules.yml")
    inside("prometheus", "touch", "/prometheus/writable")
    for job, target in zip(
        config["scrape_configs"], ("dispatcher:8080", "worker:8080"), strict=True
    ):
        name = job["tls_config"]["server_name"]
        folder = job["tls_config"]["ca_file"].removesuffix("/ca.crt")
        assert job["authorization"]["credentials_file"] == f"{folder}/token"
        assert "penstock_build_info" in inside(
            "prometheus", "python", "-c", SCRAPE, folder, name, target
        )

    board = json.loads(inside("grafana", "cat", "/etc/grafana/dashboards/penstock.json"))
    assert board["title"] == "Penstock"
    sources = "/etc/grafana/provisioning/datasources/prometheus.yml"
    (source,) = yaml.safe_load(inside("grafana", "cat", sources))["datasources"]
    assert source["url"] == "http://prometheus:9090"


@pytest.mark.timeout(BUILD + 3 * UP)
def test_nobody_without_a_token_gets_in_and_credentials_are_made_once(compose):
    compose.run("up", "--detach")
    compose.wait_healthy("worker", 1)
    ask = ("exec", "-T", "-e", "PENSTOCK_CREDENTIALS=", "dispatcher", "penstock", "status")

    ran = subprocess.run(
        compose.command(*ask, "127.0.0.1:7000"),
        env=compose.env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=UP,
        check=False,
    )
    assert ran.returncode != 0

    token = compose.run("run", "--rm", "--no-deps", "-T", "keys", "cat /keys/operator/token")
    compose.run("up", "--detach", "--force-recreate", "keys")
    again = compose.run("run", "--rm", "--no-deps", "-T", "keys", "cat /keys/operator/token")
    assert token == again != ""


def acked(stats):
    return sum(iteration["account"]["acked"] for iteration in stats["iterations"])


def by_shm(stats):
    """How many workers are read by shared memory, from another container."""
    readers = (reader for iteration in stats["iterations"] for reader in iteration["readers"])
    return sum(reader["transports"].get("shm", 0) for reader in readers)


@pytest.mark.timeout(BUILD + 2 * UP)
def test_a_service_that_is_stopped_becomes_unhealthy_and_comes_back(compose):
    compose.run("up", "--detach", "dispatcher")
    compose.wait_healthy("dispatcher", 1)

    compose.run("exec", "-T", "dispatcher", "sh", "-c", "kill -STOP -1")
    deadline = time.monotonic() + UP
    while compose.healthy("dispatcher") != ["unhealthy"]:
        assert time.monotonic() < deadline
        time.sleep(0.5)

    compose.run("restart", "dispatcher")
    compose.wait_healthy("dispatcher", 1)
