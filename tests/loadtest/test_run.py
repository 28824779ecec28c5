"""A short load on a real cluster, as the command runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def load(*args):
    return subprocess.run(
        [sys.executable, "-m", "loadtest", *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.slow
def test_a_load_reports_what_readers_waited_and_what_it_cost(cluster, tmp_path):
    file = tmp_path / "load.json"

    ran = load(
        "--target", cluster.target, "--preset", "smoke", "--seconds", "3", "--readers", "2",
        "--rate", "200", "--jobs", "2", "--json", str(file),
    )  # fmt: skip

    assert ran.returncode == 0, ran.stdout + ran.stderr
    said = json.loads(file.read_text())
    (phase,) = said["phases"]
    assert 0 < phase["elements_per_second"] <= 2 * 200 * 1.5
    assert 0 < phase["wait_p50_ms"] <= phase["wait_p99_ms"] <= phase["wait_p999_ms"]
    assert 0 < said["answer_p50_ms"] <= said["answer_p99_ms"]
    assert set(said["processes"]) == {"dispatcher", *(w.address for w in cluster.workers)}
    assert all(use["most_memory_bytes"] > 1 << 20 for use in said["processes"].values())
    assert "wait for the next element" in ran.stdout


@pytest.mark.slow
def test_a_target_that_is_no_dispatcher_is_named(tmp_path):
    ran = load("--target", "127.0.0.1:1", "--seconds", "3", "--readers", "1", "--timeout", "0.5")

    assert ran.returncode == 1
    assert "127.0.0.1:1" in ran.stdout
