"""A process whose wall clock is set while it runs."""

import os
import subprocess
import sys

from chaos.clocks import Clock

CHILD = """
import sys, time
from time import time as imported
for _ in sys.stdin:
    print(time.time(), time.time_ns(), imported(), time.monotonic(), flush=True)
"""


def test_a_clock_that_is_set_shows_another_time_and_leases_go_on(tmp_path):
    clock = Clock(tmp_path / "clock")
    env = os.environ | clock.env
    command = [sys.executable, "-c", CHILD]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=env) as process:

        def ask():
            process.stdin.write("\n")
            process.stdin.flush()
            return [float(word) for word in process.stdout.readline().split()]

        before = ask()
        clock.set(-1)
        back = ask()
        clock.set(0)
        after = ask()
        process.stdin.close()

    assert -3600 <= back[0] - before[0] < -3500
    assert -3600e9 <= back[1] - before[1] < -3500e9
    assert -3600 <= back[2] - before[2] < -3500
    assert 0 <= back[3] - before[3] < 100
    assert 0 <= after[0] - before[0] < 100
