"""The process that runners are forked from."""

import asyncio
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import ConfigError
from penstock_worker.runner import fork_protocol, zygote_start
from penstock_worker.runner.fork_client import ForkClient, _Zygote
from penstock_worker.runner.fork_protocol import Unfit
from penstock_worker.runner.zygote import UNFIT_EXIT, unfit


def in_a_fresh_process(code):
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    return out.stdout.split()


def test_what_runners_are_made_of_loads_nothing_unsound_and_starts_no_thread():
    out = in_a_fresh_process(
        "import os, sys\n"
        "from penstock_worker.runner import fork_child, zygote\n"
        "fork_child.warm_up()\n"
        "print(zygote.unfit(), len(os.listdir('/proc/self/task')))\n"
        f"print(*[name in sys.modules for name in {UNFIT_EXIT!r}])\n"
    )

    assert out == ["None", "1", "False", "False"]


def test_a_process_that_has_grpc_or_threads_is_unfit():
    grpc, threads = in_a_fresh_process(
        "import sys, threading\n"
        "from penstock_worker.runner import zygote\n"
        "sys.modules['grpc'] = sys\n"
        "print('grpc' in zygote.unfit())\n"
        "del sys.modules['grpc']\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "print('threads' in zygote.unfit())\n"
    )

    assert (grpc, threads) == ("True", "True")


def test_this_process_says_why_it_is_unfit(monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", sys)

    assert "grpc" in unfit()


async def test_threads_at_start_up_are_named_when_a_runner_is_wanted(
    working, tmp_path, monkeypatch
):
    code = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
    (tmp_path / "sitecustomize.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(zygote_start, "_doors", [])

    async with working() as workplace:
        with pytest.raises(ConfigError, match="starts threads at start-up: it has 2"):
            await workplace.begin(Dataset.range(9))


async def test_the_last_replies_of_a_zygote_come_before_its_end():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with theirs:
        theirs.send(fork_protocol.encode(Unfit("it is not well")))
        ours.send(b"a request that it does not read")
    client = ForkClient(1, 1)
    forked = asyncio.get_running_loop().create_future()
    pending = {1: (forked, print)}
    client._read(_Zygote(subprocess.Popen(["true"]), ours, {}, pending))

    with pytest.raises(ConfigError, match="it is not well"):
        await forked


async def test_runners_have_numpy_with_one_thread(workplace):
    def threads(_):
        np.ones((200, 200)) @ np.ones((200, 200))
        return len(os.listdir("/proc/self/task"))

    reading = await workplace.read(Dataset.range(1).map(threads))

    assert int(reading.elements[0]) <= 2  # the engine's, and the flush thread
