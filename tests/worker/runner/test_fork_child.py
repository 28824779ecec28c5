"""The server that runners are forked from, and what its forks are like."""

import os
import subprocess
import sys

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import ConfigError
from penstock_worker.runner import fork
from penstock_worker.runner.fork_child import UNFIT


def in_a_fresh_process(code):
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    return out.stdout.split()


def test_what_runners_are_made_of_loads_nothing_unsound_and_starts_no_thread():
    out = in_a_fresh_process(
        "import os, sys\n"
        "from penstock_worker.runner import fork_child\n"
        "fork_child.fork_plan()\n"
        "print(len(os.listdir('/proc/self/task')))\n"
        f"print(*[name in sys.modules for name in {UNFIT!r}])\n"
    )

    assert out == ["1", "False", "False"]


THREAD = """
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
"""


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (THREAD, "starts threads at start-up: it has 2"),
        ("import sys\nsys.modules['grpc'] = sys", "loads grpc at start-up"),
    ],
)
async def test_what_makes_forking_unsound_is_named_when_a_runner_is_wanted(
    working, tmp_path, monkeypatch, code, reason
):
    (tmp_path / "sitecustomize.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(fork, "_shared", [])

    async with working() as workplace:
        with pytest.raises(ConfigError, match=reason):
            await workplace.begin(Dataset.range(9))


async def test_runners_have_numpy_with_one_thread(workplace):
    def threads(_):
        np.ones((200, 200)) @ np.ones((200, 200))
        return len(os.listdir("/proc/self/task"))

    reading = await workplace.read(Dataset.range(1).map(threads))

    assert int(reading.elements[0]) <= 2  # the engine's, and the flush thread
