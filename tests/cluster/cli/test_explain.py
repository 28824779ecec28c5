"""What `penstock explain` says of the passes of a mesh."""

import json
import time
from contextlib import ExitStack

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import ConfigError
from penstock_cluster.cli import explain, status
from penstock_cluster.cli.client import screen
from penstock_cluster.cli.look import Look
from penstock_cluster.cli.picture import picture
from penstock_dispatcher.core.stats import Counts, DispatcherStats


def slow(x):
    time.sleep(0.003)
    return x


def said(show, target):
    with screen.capture() as capture:
        show(target)
    return capture.get()


@pytest.mark.slow
def test_each_pass_that_runs_is_explained(cluster):
    dataset = Dataset.range(100_000).map(slow)
    far = dataset.distribute("distributed_epoch", cluster.target, job_name="explained")
    with iter(far) as elements:
        deadline = time.monotonic() + 60
        mine = {"limit": "", "more_slots": 0}
        while mine["limit"] != "workers" or not mine["more_slots"]:  # both workers have reported
            assert time.monotonic() < deadline, mine
            for _ in range(100):
                next(elements)
            found = json.loads(explain.explanations_json(cluster.target))["passes"]
            (mine,) = [one for one in found if one["job"] == "explained"]
        shown = said(explain.show_explanations, cluster.target)
        with screen.capture() as capture:
            screen.print(picture(status.look(cluster.target)))

    assert mine["operator"] == "map(slow)"
    assert mine["more_slots"] >= 1
    assert "explained: the trainer waits" in shown
    assert "map(slow) works" in shown
    assert "map(slow) is the bottleneck" in " ".join(capture.get().split())


def test_where_nothing_runs_it_says_so(monkeypatch):
    stats = DispatcherStats("d:7000", 1, 0, 0, Counts(), (), ())
    monkeypatch.setattr(explain, "look", lambda target: Look(target, 0.0, 0.0, stats))

    assert said(explain.show_explanations, "nowhere") == "no pass runs\n"
    assert explain.explanations_json("nowhere") == '{"version":1,"trouble":"","passes":[]}'


def test_json_has_the_passes_of_the_job_that_is_named(cluster):
    dataset = Dataset.range(100_000).map(slow)
    with ExitStack() as read:
        for name in ("named one", "named two"):
            far = dataset.distribute("distributed_epoch", cluster.target, job_name=name)
            next(read.enter_context(far.iterator()))

        told = json.loads(explain.explanations_json(cluster.target, "named two"))["passes"]
        counted = json.loads(status.status_json(cluster.target, "named two"))

    assert [one["job"] for one in told] == ["named two"]
    assert [one["job"] for one in counted["iterations"]] == ["named two"]
    assert counted["version"] == 1
    assert counted["workers"]
    with pytest.raises(ConfigError, match="named three"):
        status.status_json(cluster.target, "named three")
