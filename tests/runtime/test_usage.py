"""What processes use, as they see it themselves."""

import mmap
import os
import signal
import subprocess
import sys
import time

from penstock.runtime import usage as module
from penstock.runtime.usage import REST, Usage, UsageMeter, usage


def test_memory_that_is_written_to_shows():
    before = usage().memory

    # Of its own: what others freed may still be this process's, and would be had again.
    with mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        block.write(b"1" * len(block))
        assert usage().memory - before > 0.9 * len(block)


def test_time_that_is_computed_shows():
    before, until = usage().cpu, time.process_time() + 0.2
    while time.process_time() < until:
        pass

    assert usage().cpu - before > 0.15


def test_a_child_counts_while_it_lives():
    before = usage().memory
    script = (
        "b = bytearray(64 << 20); b[::4096] = b'x' * len(b[::4096]); print(1, flush=True); input()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        child.stdout.readline()
        grown = usage().memory - before
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()

    assert grown > 60 << 20


def test_what_takes_long_to_find_out_is_found_out_seldom(monkeypatch):
    now, looks = [100.0], []

    def slow():
        now[0] += 0.5
        looks.append(now[0])
        return Usage(float(len(looks)), 0)

    monkeypatch.setattr(module, "usage", slow)
    meter = UsageMeter(lambda: now[0])

    assert [meter.look().cpu for _ in range(3)] == [1, 1, 1]
    now[0] += REST * 0.5 - 0.001
    assert meter.look().cpu == 1
    now[0] += 0.001
    assert meter.look().cpu == 2


def test_busy_cores_are_those_of_the_last_second_or_more(monkeypatch):
    now, cpu = [100.0], [50.0]
    monkeypatch.setattr(module, "usage", lambda: Usage(cpu[0], 0))
    monkeypatch.setattr(module, "cores", lambda: 4)
    meter = UsageMeter(lambda: now[0])

    def after(seconds, used):
        now[0] += seconds
        cpu[0] += used
        return meter.look().busy

    assert after(0, 0) is None
    assert after(0.5, 1.5) is None
    assert after(0.5, 1.5) == 3.0
    assert after(0.5, 0.0) == 3.0
    assert after(1.5, 1.0) == 0.5
    assert after(1.0, -2.0) == 0.0  # a process ended of which nobody waited for the time
    assert meter.look().cores == 4
