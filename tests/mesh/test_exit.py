"""Scripts that end without stopping anything."""

import subprocess
import sys

SCRIPT = """
from penstock import Dataset
from penstock_dispatcher import DispatcherConfig, DispatchServer
from penstock_worker import WorkerConfig, WorkerServer

dispatcher = DispatchServer(DispatcherConfig(port=0))
worker = WorkerServer(WorkerConfig(dispatcher_address=dispatcher.address, port=0))
far = Dataset.range(1000).distribute("distributed_epoch", dispatcher.target)
whole = sum(1 for _ in far)
it = iter(far)
next(it)
print(whole)
"""


def test_a_script_may_end_with_servers_and_a_reader_that_nobody_closed():
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "1000\n"), done.stderr
    assert "Traceback" not in done.stderr
