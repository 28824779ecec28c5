"""What a service says in its life: as JSON no line is plain, and nothing is left out."""

import json
import os
import signal
import subprocess
import sys

import pytest

LOUD = """
import threading, warnings, asyncio
from penstock_dispatcher import process, server
def broken(): raise ValueError("in a thread")
async def serve(config, ready, **more):
    warnings.warn("old thing", DeprecationWarning, stacklevel=1)
    warnings.simplefilter("always"); warnings.warn("new thing")
    one = threading.Thread(target=broken); one.start(); one.join()
    asyncio.get_running_loop().call_exception_handler({"message": "of asyncio"})
    raise KeyError("uncaught")
process.serve = serve
process.run(port=0)
"""


def environment(**more):
    return {**os.environ, "PENSTOCK_LOG_FORMAT": "json", "PENSTOCK_LOG": "INFO", **more}


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_start_stop_and_sigterm_are_logged_and_every_line_is_json():
    child = subprocess.Popen(
        [sys.executable, "-m", "penstock_dispatcher", "--port", "0"],
        env=environment(PENSTOCK_PRT="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with child:
        said = []
        for line in child.stdout:
            said.append(json.loads(line)["message"])
            if said[-1].startswith("listening on"):
                child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 0

    assert said[0].startswith("starting, pid")
    assert any("did you mean PENSTOCK_PORT?" in one for one in said)
    assert said[-2:] == ["SIGTERM: stopping", "stopped"]


@pytest.mark.slow
def test_warnings_threads_asyncio_and_uncaught_errors_are_json_too():
    ran = subprocess.run(
        [sys.executable, "-c", LOUD], env=environment(), capture_output=True, text=True, timeout=60
    )

    assert ran.returncode == 1
    said = lines(ran.stderr)
    text = json.dumps(said)
    for word in ("new thing", "in a thread", "of asyncio", "uncaught"):
        assert word in text
    assert said[-1]["exception"].endswith("KeyError: 'uncaught'")


@pytest.mark.slow
@pytest.mark.parametrize("module", ["penstock_dispatcher", "penstock_worker"])
def test_a_port_in_use_is_said_in_one_line(module):
    with subprocess.Popen(
        [sys.executable, "-m", "penstock_dispatcher", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    ) as first:
        port = first.stdout.readline().strip().rpartition(":")[2]
        more = ["--dispatcher-address", f"127.0.0.1:{port}"] if "worker" in module else []
        ran = subprocess.run(
            [sys.executable, "-m", module, "--port", port, *more],
            capture_output=True,
            text=True,
            timeout=60,
        )
        first.terminate()

    assert ran.returncode == 2
    (line,) = ran.stderr.splitlines()
    assert "the port is in use" in line
