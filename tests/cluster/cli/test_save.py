"""`penstock save`, and the saves of a cluster: listed, cancelled, and shown by `status`."""

import json
from functools import partial

import pytest

from penstock.dataset.dataset import Dataset
from penstock.service import SaveJob
from penstock_cluster.cli.save_rows import saves_table
from penstock_dispatcher.core.stats import SaveStats
from tests.cluster.cli.shown import shown
from tests.waiting import wait_until

pytest.importorskip("pyarrow")

MODULE = """
import time
from penstock import Dataset

SQUARES = Dataset.range(50).map(lambda x: x * x)

def slowly():
    return Dataset.range(100_000).map(lambda x: time.sleep(0.002) or x)
"""


@pytest.fixture
def module(tmp_path, monkeypatch, request):
    """A module with datasets, in the current folder."""
    name = f"data_of_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return name


@pytest.fixture
def save(called):
    return partial(called, "save")


@pytest.fixture
def saves(called):
    return partial(called, "saves")


@pytest.fixture
def running(module, save, one_worker, called):
    """The path of a save that does not end by itself."""
    code, out, _ = save(f"{module}:slowly", "slow save", one_worker.target, "--detach")
    assert code == 0
    assert out.startswith("save ")
    path = out.strip().partition(" to ")[2]
    yield path
    called("saves", "cancel", one_worker.target, path)


def listed(saves, cluster, path):
    """Return the save to *path*, as ``penstock saves list`` prints it."""
    every = json.loads(saves("list", cluster.target, "--json")[1])["saves"]
    return next(one for one in every if one["path"] == path)


def test_a_dataset_of_a_module_is_saved(module, save, one_worker):
    code, out, _ = save(f"{module}:SQUARES", "saved", one_worker.target)

    assert code == 0
    assert "saved 50 elements to " in out
    assert sum(map(int, Dataset.load("saved"))) == sum(x * x for x in range(50))


def test_ctrl_c_leaves_the_save_alone_and_says_so(
    running, module, save, one_worker, monkeypatch, saves
):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(SaveJob, "wait", interrupt)
    code, out, _ = save(f"{module}:slowly", running, one_worker.target)

    assert code == 130
    assert "the save goes on: penstock saves list" in out
    assert listed(saves, one_worker, running)["stage"] == "open"


def test_a_narrow_screen_leaves_out_counts_and_neither_stage_nor_path():
    path = "s3://a-bucket/with/long/names/of/folders/and/of/the/save"
    one = SaveStats("save-0123456789", path, "open", "worker-0:41234", 10, 100, 1000, 2.0)
    (line, *folded) = shown(saves_table([one]), width=80).splitlines()[3:-1]

    assert "open" in line
    assert "worker-0:41234" in line
    assert "".join(part.split("│")[2].strip() for part in (line, *folded)) == path


def test_saves_are_listed_and_shown_by_status(running, saves, one_worker, called):
    wait_until(lambda: listed(saves, one_worker, running)["worker"])
    known, (one,) = listed(saves, one_worker, running), [one.address for one in one_worker.workers]

    assert (known["stage"], known["total"]) == ("open", 100_000)
    for out in (saves("list", one_worker.target)[1], called("status", one_worker.target)[1]):
        assert known["save_id"] in out
        assert one in out


def test_a_save_is_cancelled_by_its_path(running, saves, one_worker):
    code, out, _ = saves("cancel", one_worker.target, running)
    assert code == 0
    assert f"the save to {running} is being cancelled; it has " in out
    wait_until(lambda: listed(saves, one_worker, running)["stage"] == "cancelled")

    code, _, err = saves("cancel", one_worker.target, running)
    assert code == 2
    assert "is the id or the path of 0 saves" in err
