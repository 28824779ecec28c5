"""The command `penstock`, as it is typed."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from itertools import islice

import pytest

from penstock_cluster.cli.app import main
from tests.free_ports import free_ports

PENSTOCK = [sys.executable, "-m", "penstock_cluster.cli.app"]


def penstock(*args):
    """Run the command in a process of its own."""
    return subprocess.run(
        [*PENSTOCK, *args], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def called(monkeypatch, capsys):
    """Runs the command in this process."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["penstock", *args])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return subprocess.CompletedProcess(args, ended.value.code, printed.out, printed.err)

    return run


@pytest.mark.slow
def test_help_names_every_command_and_the_exit_codes():
    ran = penstock("--help")

    assert ran.returncode == 0
    for name in ("dispatcher", "worker", "up", "status", "jobs", "drain", "health", "demo"):
        assert re.search(rf"\b{name}\b", ran.stdout)
    assert "Exit codes" in ran.stdout


@pytest.mark.parametrize("args", [["nonsense"], ["up", "--nonsense"], ["drain"]])
def test_what_is_misspelt_is_a_usage_error(args, called):
    ran = called(*args)

    assert ran.returncode == 2
    assert "Usage" in ran.stderr


@pytest.mark.parametrize("command", [["status"], ["jobs"], ["drain", "w:1"]])
def test_a_malformed_target_is_named(command, called):
    name, *rest = command

    ran = called(name, "no-port", *rest)

    assert ran.returncode == 2
    assert "no-port" in ran.stderr


@pytest.mark.slow
def test_health_is_asked_of_dispatchers_and_workers(cluster, called):
    for address in (cluster.dispatcher.address, cluster.workers[0].address):
        ran = called("health", address)

        assert (ran.returncode, ran.stdout.strip()) == (0, "serving")


@pytest.mark.slow
@pytest.mark.parametrize("by", ["option", "variable"])
def test_up_serves_the_page_at_the_address_that_it_prints(by, clusters):
    clusters.close()
    [port] = free_ports(1)
    option = ["--http-port", str(port)] if by == "option" else []
    env = os.environ | ({"PENSTOCK_HTTP_PORT": str(port)} if by == "variable" else {})
    up = subprocess.Popen(
        [*PENSTOCK, "up", "--workers", "0", *option], stdout=subprocess.PIPE, text=True, env=env
    )
    try:
        page = next(line.split()[1] for line in up.stdout if line.startswith("page:"))
        with urllib.request.urlopen(page, timeout=20) as answer:
            shown = answer.read()
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=20)
    finally:
        up.kill()
        up.wait()

    assert page == f"http://127.0.0.1:{port}/"
    assert b"Penstock" in shown


def test_up_runs_a_cluster_until_ctrl_c_and_lets_go_who_was_drained(clusters):
    clusters.close()
    up = subprocess.Popen(
        [*PENSTOCK, "up", "--workers", "2", "--fixed"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    try:
        target = up.stdout.readline().split()[0]
        healthy = penstock("health", target)
        stranger = penstock("worker", "--dispatcher-address", target)
        named = [line.split() for line in islice(up.stdout, 4) if line.startswith("worker")]
        (_, _, leaving, *_), (*_, killed) = named
        penstock("drain", target, leaving.rstrip(","))
        left = next(line for line in up.stdout if "worker 0" in line)
        os.kill(int(killed), signal.SIGKILL)
        again = next(line for line in up.stdout if "worker" in line)
        began = time.monotonic()
        up.send_signal(signal.SIGINT)
        rest, _ = up.communicate(timeout=20)
    finally:
        up.kill()
        up.wait()

    assert healthy.returncode == 0
    assert stranger.returncode == 1
    assert "worker_addresses" in stranger.stderr
    assert "has left, as it was told to" in left
    assert "worker 1 ended (-9), and was started again" in again
    assert up.returncode == 0
    assert rest.rstrip().endswith("ended")
    assert time.monotonic() - began < 5


def test_the_version_is_said(called):
    ran = called("--version")

    assert ran.returncode == 0
    assert re.fullmatch(r"penstock \S+, protocol \d+, Python 3\.\S+\n", ran.stdout)


def test_a_number_of_data_workers_that_is_none_is_named(called):
    ran = called("run", "--data-workers", "few", "train.py")

    assert ran.returncode == 2
    assert "--data-workers must be 'auto' or a number, not 'few'" in " ".join(ran.stderr.split())
