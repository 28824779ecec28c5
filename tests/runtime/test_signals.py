"""A service as a process: what ends it, and how."""

import os
import signal
import subprocess
import sys

import pytest

SERVICE = """
import asyncio, sys
from penstock.runtime.signals import announce, run_service
async def serve(leave):
    announce("here")
    try:
        await leave.wait()
        print("leaving", flush=True)
        {after}
    except asyncio.CancelledError:
        print("cancelled", flush=True)
        {cancelled}
        raise
leave = asyncio.Event()
run_service(serve(leave), {leave})
print("over", flush=True)
"""
STUCK = "await asyncio.sleep(60)"


@pytest.fixture
def service():
    """Starts a service that may leave; reads what it says."""
    started = []

    def start(*, leave="leave=leave.set", after="pass", cancelled="pass", lifeline=None):
        code = SERVICE.format(leave=leave, after=after, cancelled=cancelled)
        env = dict(os.environ)
        if lifeline is not None:
            env["PENSTOCK_LIFELINE_FD"] = str(lifeline)
        fds = () if lifeline is None else (lifeline,)
        command = [sys.executable, "-c", code]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, pass_fds=fds)
        started.append(child)
        assert child.stdout.readline() == "here\n"
        return child

    yield start
    for child in started:
        child.kill()
        child.wait()
        child.stdout.close()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_a_service_leave(service, signum):
    child = service()

    child.send_signal(signum)

    assert child.stdout.read() == "leaving\nover\n"
    assert child.wait(10) == 0


def test_the_second_signal_cancels_a_service_that_leaves(service):
    child = service(after=STUCK)
    child.terminate()
    assert child.stdout.readline() == "leaving\n"

    child.terminate()

    assert child.stdout.read() == "cancelled\nover\n"
    assert child.wait(10) == 0


def test_the_third_signal_ends_the_process_as_it_is(service):
    child = service(after=STUCK, cancelled=STUCK)
    child.terminate()
    assert child.stdout.readline() == "leaving\n"
    child.terminate()
    assert child.stdout.readline() == "cancelled\n"

    child.terminate()

    assert child.stdout.read() == ""
    assert child.wait(10) == 128 + signal.SIGTERM


def test_a_service_that_cannot_leave_in_order_is_cancelled_by_the_first_signal(service):
    child = service(leave="")

    child.terminate()

    assert child.stdout.read() == "cancelled\nover\n"
    assert child.wait(10) == 0


@pytest.mark.parametrize("leaving", [False, True])
def test_a_service_whose_parent_is_gone_ends_at_once(service, leaving):
    far, lifeline = os.pipe()
    child = service(after=STUCK, lifeline=far)
    os.close(far)
    if leaving:
        child.terminate()
        assert child.stdout.readline() == "leaving\n"

    os.close(lifeline)

    assert child.stdout.read() == "cancelled\nover\n"
    assert child.wait(10) == 0


def test_a_cancellation_that_nobody_asked_for_is_no_clean_end(service):
    child = service(after="asyncio.current_task().cancel; raise asyncio.CancelledError")

    child.send_signal(signal.SIGTERM)

    assert child.stdout.read() == "leaving\ncancelled\n"
    assert child.wait() == 1
