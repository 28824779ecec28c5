"""Processes under test do what they are told, and are found when they are left behind."""

import sys

import pytest

from chaos.processes import TOKEN, Process, left_over

SLEEPS = "import os; os.write(int(os.environ['PENSTOCK_READY_FD']), b'here\\n'); input()"
SLEEPS_ON = SLEEPS.replace("input()", "import time; time.sleep(60)")


@pytest.fixture
def start(tmp_path):
    made = []

    def start(code=SLEEPS_ON, token="none"):
        process = Process(
            "sleeper",
            [sys.executable, "-c", code],
            {TOKEN: token},
            tmp_path / "log",
            announces=True,
        )
        made.append(process)
        process.start()
        return process

    yield start
    for process in made:
        process.close()


def test_a_process_says_that_it_is_ready_and_lives_again_after_its_death(start):
    process = start()
    assert process.wait_ready() == "here"
    first = process.pid
    process.kill()
    assert (process.alive, process.killed, process.code) == (False, True, -9)

    process.start()

    assert process.wait_ready() == "here"
    assert process.pid != first
    assert not process.killed


def test_a_process_that_ends_at_its_start_is_told_with_what_it_printed(start):
    process = start("raise SystemExit('no luck')")

    with pytest.raises(RuntimeError, match="no luck"):
        process.wait_ready()


def test_a_stopped_process_does_not_end_until_it_goes_on(start):
    process = start()
    process.wait_ready()
    process.stop()
    process.signal(15)
    assert not process.wait(0.1)

    process.proceed()

    assert process.wait(10)
    assert not process.killed


def test_what_is_left_over_is_found_by_its_token(start):
    process = start(token="left-over-1")
    process.wait_ready()

    assert [it.partition(":")[0] for it in left_over("left-over-1", 0.0)] == [str(process.pid)]
    assert left_over("left-over-2", 0.0) == []
    process.kill()
    assert left_over("left-over-1", 5.0) == []


HOLDS = """
import ctypes, os
own = bytearray(b"x") * (20 << 20)
shared = os.memfd_create("frames")
os.write(shared, bytes(3 << 20))
again = os.dup(shared)
"""


def test_the_memory_of_its_own_and_what_it_shares_is_seen_each_once(start):
    idle, holding = start(), start(HOLDS + SLEEPS_ON)
    idle.wait_ready()
    holding.wait_ready()

    assert (idle.shared_memory, holding.shared_memory) == (0, 3 << 20)
    assert 20 << 20 <= holding.memory - idle.memory < 22 << 20
    holding.kill()
    assert (holding.shared_memory, holding.memory) == (0, 0)
