"""Processes whose stdin, stdout or stderr are closed."""

import os
import subprocess
import sys

import pytest

CLUSTER = """
import sys
from penstock import Dataset
from penstock_cluster import LocalCluster

with LocalCluster(workers=1) as cluster:
    numbers = Dataset.range(4).map(abs).distribute("distributed_epoch", cluster.target, timeout=60)
    read = sorted(map(int, numbers))
open(sys.argv[1], "w").write(str(read))
"""

PROCESSES = """
import sys
from penstock import Dataset

read = sorted(map(int, Dataset.range(4).map(abs, 1, executor="process")))
open(sys.argv[1], "w").write(str(read))
"""

FILLED = """
import os, sys
from penstock.ipc.child import fill_standard_files

fill_standard_files()
read = [os.readlink(f"/proc/self/fd/{number}") for number in range(3)]
open(sys.argv[1], "w").write(str(read))
"""


def run(script, path, closed):
    def close():
        for number in closed:
            os.close(number)

    answer = path / "answer"
    subprocess.run(
        [sys.executable, "-c", script, str(answer)], preexec_fn=close, timeout=120, check=True
    )
    return answer.read_text()


def test_those_that_are_closed_become_the_null_device(tmp_path):
    assert run(FILLED, tmp_path, [0, 1, 2]) == str(["/dev/null"] * 3)


@pytest.mark.slow
@pytest.mark.parametrize("script", [CLUSTER, PROCESSES])
def test_users_functions_run_though_the_program_has_no_stderr(tmp_path, script):
    assert run(script, tmp_path, [2]) == "[0, 1, 2, 3]"


@pytest.mark.slow
def test_users_functions_run_though_the_program_has_no_standard_file_at_all(tmp_path):
    assert run(CLUSTER, tmp_path, [0, 1, 2]) == "[0, 1, 2, 3]"
