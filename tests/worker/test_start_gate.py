"""Runs begin a few at once, of a worker and of a host; those that only wait keep nobody."""

import asyncio
import contextlib
import errno
import os
import subprocess
import sys

import pytest

from penstock_worker import start_gate
from penstock_worker.start_gate import HostTurns, StartGate


@pytest.fixture
def patient(monkeypatch):
    """Nobody looks whether what begins computes."""
    monkeypatch.setattr(start_gate, "LOOK_EVERY", 60.0)
    monkeypatch.setattr(start_gate, "WITHIN", 60.0)


class Starts:
    """Runs that begin behind a gate, each in a task of its own."""

    def __init__(self, count, gate, pid=0):
        self.gate, self.begun, self.pid = gate, [], pid
        self.tasks = [asyncio.create_task(self.start(run)) for run in range(count)]

    async def start(self, run):
        async with self.gate.turn(run) as turn:
            turn.pid = self.pid
            self.begun.append(run)

    async def settled(self):
        for _ in range(10):
            await asyncio.sleep(0)
        return self.begun

    async def until(self, *begun):
        async with asyncio.timeout(60):
            while self.begun != list(begun):
                await asyncio.sleep(0.001)


@pytest.mark.usefixtures("patient")
async def test_a_run_begins_when_one_before_it_has_shown_something():
    starts = Starts(5, StartGate(2))
    assert await starts.settled() == [0, 1]

    starts.gate.begun(1)
    starts.gate.begun(1)
    assert await starts.settled() == [0, 1, 2]

    for run in (0, 2, 3, 4):
        await starts.settled()
        starts.gate.begun(run)
    await asyncio.gather(*starts.tasks)
    assert starts.begun == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("patient")
async def test_one_that_fails_or_is_cancelled_keeps_nobody(tmp_path):
    gate = StartGate(1, HostTurns(tmp_path, 1))

    with pytest.raises(ZeroDivisionError):
        async with gate.turn(1):
            raise ZeroDivisionError
    starts = Starts(2, gate)
    await starts.settled()
    starts.tasks[0].cancel()

    await starts.until(0, 1)
    gate.begun(1)
    await starts.tasks[1]


async def test_one_that_only_waits_keeps_others_no_longer_than_it_takes_to_see_that(monkeypatch):
    monkeypatch.setattr(start_gate, "LOOK_EVERY", 0.001)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as waiting:
        starts = Starts(3, StartGate(1), waiting.pid)
        await asyncio.gather(*starts.tasks)
        waiting.communicate()

    assert starts.begun == [0, 1, 2]


async def test_one_that_computes_keeps_others_for_a_while(monkeypatch):
    monkeypatch.setattr(start_gate, "LOOK_EVERY", 0.001)
    monkeypatch.setattr(start_gate, "_waits", lambda pid: pid != 7)
    starts = Starts(2, StartGate(1), pid=7)
    await starts.until(0)
    await asyncio.wait(starts.tasks, timeout=0.05)
    assert starts.begun == [0]

    monkeypatch.setattr(start_gate, "WITHIN", 0.0)
    starts.gate.begun(0)
    await asyncio.gather(*starts.tasks)


def test_whether_a_process_waits_is_what_the_system_says():
    computing = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        assert not all(start_gate._waits(computing.pid) for _ in range(1000))
    finally:
        computing.kill()
        computing.wait()
    assert start_gate._waits(computing.pid)


@pytest.mark.usefixtures("patient")
async def test_workers_of_a_host_share_its_turns(tmp_path):
    one, other = (StartGate(2, HostTurns(tmp_path, 2)) for _ in range(2))
    first = Starts(2, one)
    await first.until(0, 1)
    second = Starts(1, other)
    assert await second.settled() == []

    one.begun(1)
    await second.until(0)

    one.begun(0)
    other.begun(0)
    await asyncio.gather(*first.tasks, *second.tasks)
    assert not [name for name in _open_files() if name.startswith(str(tmp_path))]


def _open_files():
    found = []
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that this listing had
            found.append(os.readlink(f"/proc/self/fd/{entry}"))
    return found


@pytest.mark.usefixtures("patient")
async def test_a_turn_of_a_process_that_was_killed_is_free(tmp_path):
    script = (
        "import asyncio, pathlib, sys\n"
        "from penstock_worker.start_gate import HostTurns\n"
        "async def keep():\n"
        "    async with HostTurns(pathlib.Path(sys.argv[1]), 1).turn():\n"
        "        print('has it', flush=True)\n"
        "        await asyncio.sleep(600)\n"
        "asyncio.run(keep())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"has it\n"
        starts = Starts(1, StartGate(1, HostTurns(tmp_path, 1)))
        assert await starts.settled() == []
        other.kill()

    await starts.until(0)
    starts.gate.begun(0)
    await asyncio.gather(*starts.tasks)


@pytest.mark.usefixtures("patient")
async def test_where_no_file_can_be_had_nobody_waits(tmp_path):
    starts = Starts(2, StartGate(2, HostTurns(tmp_path / "none", 1)))

    await starts.until(0, 1)
    for run in (0, 1):
        starts.gate.begun(run)
    await asyncio.gather(*starts.tasks)


@pytest.mark.usefixtures("patient")
async def test_where_files_cannot_be_locked_nobody_waits(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(start_gate.fcntl, "flock", refused)
    starts = Starts(2, StartGate(2, HostTurns(tmp_path, 1)))

    await starts.until(0, 1)
    for run in (0, 1):
        starts.gate.begun(run)
    await asyncio.gather(*starts.tasks)
    assert not [name for name in _open_files() if name.startswith(str(tmp_path))]


async def test_a_host_whose_turns_are_never_given_back_keeps_nobody_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(start_gate, "HOST_WITHIN", 0.1)
    turns = HostTurns(tmp_path, 1)
    async with turns.turn():
        starts = Starts(1, StartGate(1, turns))
        await starts.until(0)
        await asyncio.gather(*starts.tasks)


@pytest.mark.usefixtures("patient")
async def test_one_that_is_not_wanted_any_more_when_its_turn_comes_keeps_nobody():
    gate = StartGate(1)
    async with asyncio.timeout(60):
        for run in range(3):
            async with gate.turn(run):
                gate.begun(run)


def test_a_run_that_does_not_wait_may_be_said_to_have_begun():
    StartGate(1).begun(7)
