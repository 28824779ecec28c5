"""A second dispatcher comes to a folder while the first one is at work there."""

import itertools
import json
import subprocess
import sys

from penstock.dataset.dataset import Dataset
from penstock_cluster.cli.status import fetch
from penstock_dispatcher.config import DispatcherConfig

MANY = 2000


def second(folder):
    """Start another dispatcher on *folder*; return how it ended, and what it said."""
    command = [sys.executable, "-m", "penstock_dispatcher", "--port", "0"]
    ended = subprocess.run(
        [*command, "--work-dir", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return ended.returncode, ended.stderr


def test_it_is_refused_and_the_first_goes_on_undisturbed_and_when_that_is_killed_it_starts(
    another, tmp_path
):
    patient = DispatcherConfig(worker_timeout=60.0, client_timeout=60.0)
    with another(1, work_dir=tmp_path, dispatcher=patient) as cluster:
        elements = iter(
            Dataset.range(MANY).distribute(
                "distributed_epoch", cluster.target, "j", max_outstanding_requests=1
            )
        )
        before = [int(x) for x in itertools.islice(elements, 50)]
        files = sorted(file.name for file in tmp_path.iterdir())

        code, said = second(tmp_path)

        assert code == 2
        assert f"work_dir: {tmp_path} is in use by another dispatcher" in said
        assert f"process {cluster.dispatcher.pid} on " in said
        assert sorted(file.name for file in tmp_path.iterdir()) == files
        assert f"process {cluster.dispatcher.pid} on " in (tmp_path / "lock").read_text()
        before += [int(x) for x in itertools.islice(elements, 50)]

        cluster.dispatcher.kill()
        cluster.dispatcher.restart()

        assert f"process {cluster.dispatcher.pid} on " in (tmp_path / "lock").read_text()
        assert sorted(before + [int(x) for x in elements]) == list(range(MANY))
        (one,) = json.loads(fetch(cluster.target))["iterations"]
        assert one["faults"] == []
        assert one["account"]["consumed"] == MANY
