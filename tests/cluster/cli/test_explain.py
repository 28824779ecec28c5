"""What `penstock explain` says of the passes of a mesh."""

import json
import time

from penstock.dataset.dataset import Dataset
from penstock_cluster.cli import explain, status
from penstock_cluster.cli.client import screen
from penstock_cluster.cli.picture import picture


def slow(x):
    time.sleep(0.003)
    return x


def said(show, target):
    with screen.capture() as capture:
        show(target)
    return capture.get()


def test_each_pass_that_runs_is_explained(cluster):
    dataset = Dataset.range(100_000).map(slow)
    far = dataset.distribute("distributed_epoch", cluster.target, job_name="explained")
    with iter(far) as elements:
        deadline = time.monotonic() + 60
        mine = {"limit": ""}
        while mine["limit"] != "workers":
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
    monkeypatch.setattr(explain, "fetch", lambda _: b'{"workers": [], "iterations": []}')

    assert said(explain.show_explanations, "nowhere") == "no pass runs\n"
    assert explain.explanations_json("nowhere") == '{"version":1,"trouble":"","passes":[]}'
