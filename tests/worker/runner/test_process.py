"""How runners end: by themselves, with the server that forked them, with their worker."""

import asyncio
import ctypes
import mmap
import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest

from penstock.dataset.dataset import Dataset
from penstock.ipc.framing import pack
from penstock.protocol.types import Checkpoint, Codec
from penstock_worker.runner import fork
from penstock_worker.runner.messages import FrameReady, RunEnded, SplitsNeeded, StartRun
from penstock_worker.runner.process import RunnerDied, RunnerProcess
from tests.process_tree import parent

WITHIN = 20.0


@pytest.fixture
async def own_workplace(working, monkeypatch):
    """A pool that starts its own fork server."""
    monkeypatch.setattr(fork, "_shared", [])
    async with working() as workplace:
        yield workplace


def gone_within(pids, seconds):
    """Say whether all these processes end within *seconds*."""
    deadline = time.monotonic() + seconds
    watched = []
    for pid in pids:
        try:
            watched.append(os.pidfd_open(pid))
        except ProcessLookupError:
            continue
    try:
        return all(
            select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0] for fd in watched
        )
    finally:
        for fd in watched:
            os.close(fd)


def crash(_):
    os.kill(os.getpid(), signal.SIGSEGV)
    signal.pause()


def overwrite(_):
    ctypes.memset(8, 1, 8)


@pytest.mark.parametrize("end", [crash, overwrite])
async def test_a_crash_is_reported_with_its_signal_behind_everything_produced(workplace, end):
    reading = await workplace.begin(Dataset.range(100).map(lambda x: end(x) if x == 50 else x))
    await reading.end()
    again = await workplace.read(Dataset.range(9), run=2)

    assert reading.reports[-1] == RunnerDied(1, "SIGSEGV", None)
    assert reading.elements == list(range(len(reading.elements)))
    assert again.elements == list(range(9))
    assert again.runner.pid != reading.runner.pid


async def test_the_last_reports_of_a_runner_come_before_its_end():
    heard = []
    runner = RunnerProcess(mmap.PAGESIZE, 1.0, lambda runner: None)
    runner.begin(
        b"",
        StartRun(1, "d", 0, 0, Codec.NONE, Checkpoint(), ()),
        lambda _, report: heard.append(report),
    )
    process = socket.socket(fileno=os.dup(runner.files[0]))
    runner.close_child_ends()
    process.sendall(pack(SplitsNeeded(1, 0, 0)) + pack(RunEnded(1, 3)))

    runner.on_exit(-signal.SIGBUS)  # before the loop had a look at the socket
    process.close()

    assert heard == [SplitsNeeded(1, 0, 0), RunEnded(1, 3), RunnerDied(1, "SIGBUS", None)]


async def test_frames_of_a_runner_that_died_can_still_be_read(workplace):
    reading = await workplace.begin(Dataset.range(100).map(lambda x: crash(x) if x == 50 else x))
    await reading.end()

    first = reading.made[0]
    assert len(reading.runner.arena[first.offset : first.offset + first.nbytes]) == first.nbytes


async def test_a_runner_that_left_is_reported_with_its_exit_code(workplace):
    reading = await workplace.begin(Dataset.range(9).map(lambda x: os._exit(3) if x == 5 else x))
    await reading.end()

    assert reading.reports[-1] == RunnerDied(1, "", 3)


async def test_a_runner_that_closes_its_socket_is_ended(workplace):
    reading = await workplace.begin(
        Dataset.range(9).map(lambda x: (os.closerange(3, 100), time.sleep(100)) if x == 5 else x)
    )
    await reading.end()

    assert reading.reports[-1] == RunnerDied(1, "SIGKILL", None)


async def test_an_idle_runner_that_died_is_not_used_again(workplace):
    reading = await workplace.read(Dataset.range(9))
    pid = reading.runner.pid
    os.kill(pid, signal.SIGKILL)
    await asyncio.to_thread(gone_within, [pid], WITHIN)

    again = await (await workplace.begin(Dataset.range(9), run=2)).end()

    assert again.reports[-1] == RunnerDied(2, "SIGKILL", None) or again.elements == list(range(9))
    third = await workplace.read(Dataset.range(9), run=3)
    assert third.elements == list(range(9))
    assert third.runner.pid != pid


async def test_what_user_code_started_ends_with_its_runner(workplace):
    def start(_):
        return subprocess.Popen(["sleep", "1000"]).pid

    leave = Dataset.range(2).map(lambda x: os._exit(0) if x else start(x))
    left = await (await workplace.begin(leave, run=1)).end()
    killed = await (await workplace.begin(Dataset.range(1).map(start), run=2)).end()
    killed.runner.kill()

    pids = [int(pid) for reading in (left, killed) for pid in reading.elements]
    assert len(pids) == 2
    assert await asyncio.to_thread(gone_within, pids, WITHIN)


async def test_a_fork_server_keeps_no_file_of_a_runner_that_ended(workplace):
    counts = set()
    for run in range(5):
        reading = await workplace.begin(Dataset.range(1), run=run)
        server = parent(reading.runner.pid)
        await reading.end()
        await reading.runner.end()
        counts.add(len(os.listdir(f"/proc/{server}/fd")))

    assert max(counts) - min(counts) <= 1  # it closes a line after it has told of the end


async def test_ctrl_c_is_for_the_worker_to_act_on(workplace):
    reading = await workplace.begin(Dataset.range(1 << 40))
    await reading.until(lambda reading: reading.made)
    server = parent(reading.runner.pid)
    for pid in (server, reading.runner.pid):
        os.kill(pid, signal.SIGINT)
    seen = len(reading.made)
    await reading.until(lambda reading: len(reading.made) > seen + 5)

    assert all(isinstance(report, FrameReady) for report in reading.reports)
    assert os.getpgid(reading.runner.pid) == reading.runner.pid


async def test_a_server_that_dies_takes_its_runners_along_and_is_replaced(own_workplace):
    workplace = own_workplace
    spinning = Dataset.range(9).map(lambda x: spin() if x == 3 else x)
    readings = [await workplace.begin(spinning, run=run) for run in (1, 2)]
    for reading in readings:
        await reading.until(lambda reading: reading.made)
    runners = [reading.runner.pid for reading in readings]
    server = parent(runners[0])
    os.kill(server, signal.SIGKILL)
    for reading in readings:
        await reading.end()
    again = await workplace.read(Dataset.range(9), run=3)

    assert [reading.reports[-1].signal for reading in readings] == ["SIGKILL"] * 2
    assert gone_within(runners, WITHIN)
    assert again.elements == list(range(9))


async def test_closing_a_pool_ends_everything_at_once(working, monkeypatch):
    monkeypatch.setattr(fork, "_shared", [])
    async with working() as workplace:
        spinning = Dataset.range(9).map(lambda x: spin() if x == 3 else x)
        readings = [await workplace.begin(spinning, run=run) for run in range(3)]
        for reading in readings:
            await reading.until(lambda reading: reading.made)
        runners = [reading.runner.pid for reading in readings]
        server = parent(runners[0])
        before = [len(reading.reports) for reading in readings]
        began = time.monotonic()
    took = time.monotonic() - began

    assert gone_within([server, *runners], 1.0 - took)
    assert [len(reading.reports) for reading in readings] == before


def spin():
    while True:
        pass


WORKER = """
    import asyncio, os, signal, sys
    from penstock import Dataset
    from penstock.definition import encode
    from penstock.protocol.types import Checkpoint, Codec
    from penstock_worker.runner.messages import StartRun
    from penstock_worker.runner.pool import RunnerPool

    print("script", flush=True)

    def spin(x):
        print("function", flush=True)
        while x:
            pass
        return x

    async def main():
        pool = await RunnerPool().__aenter__()
        definition = encode(Dataset.range(9).map(spin).node).to_bytes()
        start = StartRun(1, "d", 0, 0, Codec.NONE, Checkpoint(), ())
        heard = asyncio.Event()
        runner = await pool.start(definition, start, lambda *_: heard.set())
        await heard.wait()
        if "fork" in sys.argv and os.fork() == 0:
            signal.pause()
        server = os.popen(f"ps -o ppid= {runner.pid}").read().strip()
        print(server, runner.pid, flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


@pytest.fixture
def worker(tmp_path):
    """A script that reads from a pool of its own, with no guard around it."""
    script = tmp_path / "worker.py"
    script.write_text(textwrap.dedent(WORKER))
    started = []

    def start(*args):
        started.append(
            subprocess.Popen(
                [sys.executable, str(script), *args], stdout=subprocess.PIPE, start_new_session=True
            )
        )
        return started[-1]

    yield start
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def lines_until_pids(process):
    lines = []
    while not lines or not lines[-1][0].isdigit():
        line = process.stdout.readline().decode()
        assert line, "the worker ended"
        lines.append(line)
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("extra", [(), ("fork",)], ids=["alone", "with a fork of itself"])
def test_runners_end_within_a_second_when_their_worker_is_killed(worker, extra):
    process = worker(*extra)
    server, runner = map(int, lines_until_pids(process)[-1].split())

    process.kill()

    assert gone_within([server, runner], 1.0)


@pytest.mark.slow
def test_the_callers_script_runs_once_and_functions_may_print(worker):
    lines = lines_until_pids(worker())

    assert lines.count("script\n") == 1
    assert lines.count("function\n") >= 1
