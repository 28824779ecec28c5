import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
from penstock.runtime.malloc import tune
print(tune(), tune())
def fill():
    return [b"x" * (8 << 20) for _ in range(4)]
for _ in range(3):
    fill()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    fill()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def run(**env):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    tuned, faults = done.stdout.splitlines()
    return tuned, int(faults)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="there is nothing to tune")
def test_a_tuned_process_touches_the_pages_of_big_blocks_once():
    assert run() == ("True True", pytest.approx(0, abs=500))


def test_the_environment_turns_it_off():
    tuned, faults = run(PENSTOCK_MALLOC="default")

    assert tuned == "False False"
    assert faults > 1000 or platform.libc_ver()[0] != "glibc"
