"""Datasets that workers save: processes die, and each element is in the folder once."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import (
    DatasetError,
    FileChanged,
    Refused,
    TransformError,
    WaitedTooLong,
)
from penstock.reader.registration import call
from penstock.saved.folder import folder_of
from penstock.saved.formats import OFFERED
from penstock.saved.manifest import SavedVersions
from penstock.service import save
from penstock_dispatcher import DispatchServer
from tests.process_tree import below
from tests.storage.stand_in import served
from tests.waiting import wait_until

pytest.importorskip("pyarrow")

COUNT = 1500


def element(x):
    time.sleep(0.0005)
    return {"x": x, "tokens": np.arange(x % 9), "text": str(x)}


def seen(path):
    return [int(e["x"]) for e in Dataset.load(path)]


def elements_of(path):
    found = SavedVersions("load", folder_of("load", str(path))).latest()
    return found.manifest.elements if found else 0


def data(path):
    return {file.name: file.read_bytes() for file in (path / "data").iterdir()}


@pytest.mark.parametrize("order", ["split", "any"])
def test_workers_save_each_element_once(cluster, tmp_path, order):
    job = save(Dataset.range(COUNT).map(element), tmp_path / "saved", cluster.target, order=order)
    manifest = job.wait(120)

    assert manifest.elements == COUNT
    assert job.progress().total == COUNT
    found = seen(tmp_path / "saved")
    assert sorted(found) == list(range(COUNT))
    assert order == "any" or found == list(range(COUNT))


def test_a_reader_on_workers_reads_a_saved_dataset_by_chunks(cluster, tmp_path):
    Dataset.range(COUNT).save(tmp_path / "saved", chunk_bytes=1000)
    loaded = Dataset.load(tmp_path / "saved")
    far = loaded.distribute("distributed_epoch", cluster.target)
    one = loaded.global_shuffle(seed=3).distribute(
        "distributed_epoch", cluster.target, ordered=True
    )

    assert sorted(map(int, far)) == list(range(COUNT))
    assert list(map(int, one)) == list(map(int, loaded.global_shuffle(seed=3)))


def test_a_save_is_read_while_workers_write_it(cluster, tmp_path):
    dataset = Dataset.range(COUNT).map(element)
    job = save(dataset, tmp_path / "saved", cluster.target, chunk_seconds=0.2)
    followed = Dataset.load(tmp_path / "saved", wait=True, timeout=60)

    assert [int(e["x"]) for e in followed] == list(range(COUNT))
    assert job.wait(60).elements == COUNT


def test_workers_share_a_save_that_goes_on(cluster, tmp_path):
    path = tmp_path / "saved"
    dataset = Dataset.range(COUNT).map(element)
    followed = Dataset.load(path, wait=True, timeout=60)
    far = iter(followed.distribute("distributed_epoch", cluster.target))
    job = save(dataset, path, cluster.target, chunk_seconds=0.1)
    found = [int(e["x"]) for e in far]

    assert job.wait(60).elements == COUNT
    assert sorted(found) == list(range(COUNT))


def test_workers_that_share_a_save_that_has_ended_read_it_once_in_each_pass(cluster, tmp_path):
    Dataset.range(COUNT).save(tmp_path / "saved", chunk_bytes=1000)
    followed = Dataset.load(tmp_path / "saved", wait=True)
    far = followed.distribute("distributed_epoch", cluster.target).repeat(2)

    assert sorted(map(int, far)) == sorted([*range(COUNT)] * 2)
    with pytest.raises(DatasetError, match="put repeat behind distribute"):
        followed.repeat(2).distribute("distributed_epoch", cluster.target)
    with pytest.raises(DatasetError, match="follow reads a save whose end is not known yet"):
        followed.distribute("distributed_epoch", cluster.target, ordered=True)


def test_an_error_of_a_worker_ends_the_save_and_names_the_element(cluster, tmp_path):
    def bad(x):
        if x == 700:
            raise ValueError("not this one")
        return x

    job = save(Dataset.range(COUNT).map(bad), tmp_path / "saved", cluster.target)

    with pytest.raises(TransformError, match="not this one"):
        job.wait(60)
    assert job.progress().stage == "failed"


def test_a_pipeline_without_one_order_says_so_at_once(cluster, tmp_path):
    shuffled = Dataset.range(9).shuffle(9)
    with pytest.raises(DatasetError, match=r"ordered=True: shuffle keeps") as caught:
        save(shuffled, tmp_path / "saved", cluster.target)
    assert 'save: order="any" saves the elements as they come' in caught.value.__notes__
    assert not (tmp_path / "saved").exists()

    assert save(shuffled, tmp_path / "saved", cluster.target, order="any").wait(60).elements == 9


def uneven(x):
    time.sleep(0.0005)
    return {"x": x, "text": "a" * (x * 7919 % 50)}


def chunks_of(path):
    return SavedVersions("load", folder_of("load", str(path))).latest().chunks


@pytest.mark.parametrize("chunk_bytes", [700, pytest.param(60_000, marks=pytest.mark.slow)])
def test_saves_by_other_workers_that_time_cuts_elsewhere_are_equal_to_the_byte(
    cluster, another, tmp_path, chunk_bytes
):
    dataset = Dataset.range(COUNT).map(uneven)
    one, other = tmp_path / "one", tmp_path / "other"
    save(dataset, one, cluster.target, chunk_bytes=chunk_bytes).wait(120)
    with another(workers=3) as three:
        job = save(dataset, other, three.target, chunk_bytes=chunk_bytes, chunk_seconds=0.005)
        followed = Dataset.load(other, wait=True, timeout=60)

        assert [int(e["x"]) for e in followed] == list(range(COUNT))
        job.wait(120)

    assert data(one) == data(other)
    assert chunks_of(one) == chunks_of(other)
    assert seen(other) == list(range(COUNT))


@pytest.mark.slow
def test_a_save_whose_workers_are_killed_one_after_another_is_equal_to_the_byte(another, tmp_path):
    def slow(x):
        time.sleep(0.004)
        return uneven(x)

    dataset, calm, wild = Dataset.range(COUNT).map(slow), tmp_path / "calm", tmp_path / "wild"
    with another(workers=3) as cluster:
        save(dataset, calm, cluster.target, chunk_bytes=2000).wait(120)
        followed = Dataset.load(wild, wait=True, timeout=100)
        far = iter(followed.distribute("distributed_epoch", cluster.target))
        job = save(dataset, wild, cluster.target, chunk_bytes=2000, chunk_seconds=0.1)
        with ThreadPoolExecutor(1) as threads:
            found = threads.submit(lambda: [int(e["x"]) for e in far])
            for worker in cluster.workers:
                before = elements_of(wild)
                wait_until(lambda before=before: elements_of(wild) > before, 60)
                worker.kill()
                worker.restart()

            assert sorted(found.result(100)) == list(range(COUNT))
            job.wait(60)

    assert data(wild) == data(calm)
    assert chunks_of(wild) == chunks_of(calm)


@pytest.mark.slow
@pytest.mark.parametrize("form", [form for form in OFFERED if form != "arrow"])
def test_workers_of_which_one_dies_write_each_format_exactly_once(another, tmp_path, form):
    dataset, path = Dataset.range(COUNT).map(uneven), tmp_path / "a folder" / "saved"
    with another(workers=3) as cluster:
        job = save(dataset, path, cluster.target, format=form, chunk_bytes=3000, chunk_seconds=0.02)
        wait_until(lambda: elements_of(path), 60)
        cluster.workers[-1].kill()
        job.wait(120)

    assert seen(path) == list(range(COUNT))
    assert [int(e["x"]) for e in Dataset.load(path).shard(7, 3)] == list(range(3, COUNT, 7))
    assert list((path / "_penstock" / "new").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("order", ["split", "any"])
@pytest.mark.parametrize("victims", ["caller", "host", "dispatcher", "all"])
def test_a_save_goes_on_whoever_is_killed_and_each_element_is_saved_once(
    another, tmp_path, order, victims
):
    path, script = tmp_path / "a folder" / "saved", tmp_path / "script.py"
    script.write_text(SCRIPT)
    with another(workers=3) as cluster:
        command = [sys.executable, str(script), str(path), cluster.target, order]
        caller = subprocess.Popen(command)
        wait_until(lambda: elements_of(path), 60)
        everybody = victims == "all"
        if everybody or victims == "caller":
            caller.kill()
        host = host_of(cluster)
        (recorder,) = recorders(host)
        if everybody or victims == "dispatcher":
            cluster.dispatcher.kill()
        if everybody or victims == "host":
            host.kill()
        if everybody or victims == "dispatcher":
            cluster.dispatcher.restart()
        before = elements_of(path)
        wait_until(lambda: elements_of(path) > before, 60)  # though nobody calls save again
        assert caller.wait(120) == (-signal.SIGKILL if caller.returncode else 0)
        subprocess.run(command, check=True, timeout=120)
        assert not [one for worker in cluster.workers if worker.pid for one in recorders(worker)]
        assert not Path(f"/proc/{recorder}").exists()
        calm = tmp_path / "calm"
        subprocess.run([*command[:2], str(calm), *command[3:]], check=True, timeout=120)

    assert order == "any" or data(path) == data(calm)
    found = seen(path)
    assert sorted(found) == list(range(COUNT))
    assert order == "any" or found == list(range(COUNT))
    assert list((path / "_penstock" / "new").iterdir()) == []


def recorders(worker):
    """Return the processes that commit saves for *worker*."""
    return [pid for pid in below(worker.pid) if b"penstock_worker.recorder" in words_of(pid)]


def words_of(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def hosted(cluster):
    """Return the newest save of *cluster*, as its status shows it."""
    status = call(cluster.dispatcher.address, 20.0, lambda dispatcher: dispatcher.status())
    return json.loads(status)["saves"][-1]


def host_of(cluster):
    """Return the worker that hosts the newest save."""
    wait_until(lambda: hosted(cluster)["worker"])
    return next(one for one in cluster.workers if one.address == hosted(cluster)["worker"])


SCRIPT = """
import sys, time
from penstock import Dataset
from penstock.reader.registration import call
from penstock.service import save

COUNT = 1500

def element(x):
    time.sleep(0.002)
    return {"x": x, "text": str(x)}

path, target, order = sys.argv[1:]
dataset = Dataset.range(COUNT).map(element)
save(dataset, path, target, chunk_bytes=900, chunk_seconds=0.05, order=order).wait(100)
"""


ANOTHER = """
import os, sys, time
from penstock import Dataset, errors
from penstock.service import save

COUNT = 1500

def element(x):
    while x > 700 and not os.path.exists(path + " may go on"):
        time.sleep(0.01)
    if x == int(bad):
        raise ValueError("not this one")
    return {"x": x}

path, target, what, bad = sys.argv[1:]
job = save(Dataset.range(COUNT).map(element), path, target, chunk_seconds=0.2)
if what == "cancel":
    job.cancel()
    print(job.progress().stage)
else:
    try:
        print(job.save_id, job.wait(100).elements)
    except errors.TransformError as exc:
        print(exc)
"""


@pytest.fixture
def elsewhere(tmp_path):
    """Calls `save` in a process of its own."""
    script = tmp_path / "script.py"
    script.write_text(ANOTHER)

    def begin(path, cluster, what="wait", bad=-1):
        command = [sys.executable, str(script), str(path), cluster.target, what, str(bad)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    return begin


def test_the_same_call_from_two_processes_at_once_is_the_same_save(cluster, tmp_path, elsewhere):
    (tmp_path / "saved may go on").touch()
    processes = [elsewhere(tmp_path / "saved", cluster) for _ in range(2)]
    said = {process.communicate(timeout=100)[0] for process in processes}

    (line,) = said
    assert line.split()[1] == str(COUNT)
    assert seen(tmp_path / "saved") == list(range(COUNT))


@pytest.mark.slow
def test_an_error_arrives_at_another_process_with_the_failing_element(cluster, tmp_path, elsewhere):
    first = elsewhere(tmp_path / "saved", cluster, bad=700)
    second = elsewhere(tmp_path / "saved", cluster, bad=700)
    for process in (first, second):
        said, _ = process.communicate(timeout=100)
        assert "not this one" in said
        assert "700" in said


@pytest.mark.slow
def test_a_save_is_cancelled_from_another_process_and_continued(cluster, tmp_path, elsewhere):
    waiting = elsewhere(tmp_path / "saved", cluster)
    wait_until(lambda: elements_of(tmp_path / "saved"), 60)
    said, _ = elsewhere(tmp_path / "saved", cluster, "cancel").communicate(timeout=100)
    waiting.communicate(timeout=100)

    assert said == "cancelled\n"
    assert waiting.returncode == 1  # SaveIncomplete
    assert 0 < elements_of(tmp_path / "saved") < COUNT
    (tmp_path / "saved may go on").touch()
    said, _ = elsewhere(tmp_path / "saved", cluster).communicate(timeout=100)
    assert said.split()[1] == str(COUNT)
    assert seen(tmp_path / "saved") == list(range(COUNT))


@pytest.fixture
def held(tmp_path):
    """A dataset of which the second half waits; and a function that lets it go on."""
    gate = tmp_path / "gate"

    def waits(x):
        while x >= COUNT // 2 and not gate.exists():
            time.sleep(0.01)
        return {"x": x}

    return Dataset.range(COUNT).map(waits), gate.touch


def test_elements_before_a_function_that_does_not_return_are_readable(cluster, tmp_path, held):
    dataset, go_on = held
    job = save(dataset, tmp_path / "saved", cluster.target, chunk_seconds=0.2)
    found = iter(Dataset.load(tmp_path / "saved", wait=True, timeout=60))
    first = [int(next(found)["x"]) for _ in range(300)]
    go_on()

    assert first + [int(each["x"]) for each in found] == list(range(COUNT))
    assert job.wait(60).elements == COUNT


@pytest.mark.slow
def test_a_worker_that_drains_and_a_process_that_dies_give_the_save_to_another(
    another, tmp_path, held
):
    dataset, go_on = held
    with another(workers=2) as cluster:
        job = save(dataset, tmp_path / "saved", cluster.target, chunk_seconds=0.1)
        wait_until(lambda: job.progress().elements, 60)
        host = host_of(cluster)
        (recorder,) = recorders(host)
        os.kill(recorder, signal.SIGKILL)
        wait_until(lambda: hosted(cluster)["worker"] not in ("", host.address), 60)
        host_of(cluster).terminate()
        wait_until(lambda: hosted(cluster)["worker"] == host.address, 60)
        go_on()

        assert job.wait(120).elements == COUNT
    assert seen(tmp_path / "saved") == list(range(COUNT))


@pytest.mark.slow
def test_a_save_waits_for_workers_and_a_caller_no_longer_than_it_says(another, tmp_path, held):
    dataset, go_on = held
    go_on()
    with another(workers=1) as cluster:
        cluster.workers[0].kill()
        job = save(dataset, tmp_path / "saved", cluster.target, timeout=1.0)
        with pytest.raises(WaitedTooLong, match="has 0 elements after 0.2 s, and goes on"):
            job.wait(0.2)
        cluster.workers[0].restart()

        assert job.wait(120).elements == COUNT
        assert job.progress().worker == ""


@pytest.mark.slow
def test_a_caller_waits_no_longer_than_it_says_though_the_dispatcher_is_away(
    another, tmp_path, held
):
    dataset, _ = held
    with another(workers=1) as cluster:
        job = save(dataset, tmp_path / "saved", cluster.target, timeout=600.0)
        cluster.dispatcher.kill()
        with pytest.raises(WaitedTooLong):
            job.wait(0.2)


def test_a_process_and_workers_leave_the_save_of_the_other_alone(cluster, tmp_path, held):
    dataset, go_on = held
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    job = save(dataset, theirs, cluster.target, chunk_bytes=800)
    wait_until(lambda: job.progress().elements, 60)
    with pytest.raises(DatasetError, match=r"begun by penstock.service.save, which alone can"):
        dataset.save(theirs, chunk_bytes=800)
    saving = threading.Thread(target=dataset.save, args=(mine,), kwargs={"chunk_bytes": 800})
    saving.start()
    wait_until(lambda: elements_of(mine), 60)
    with pytest.raises(DatasetError, match=r"begun by Dataset.save, which alone can continue it"):
        save(dataset, mine, cluster.target, chunk_bytes=800)
    go_on()
    saving.join()

    assert job.wait(60).elements == COUNT
    assert seen(theirs) == seen(mine) == list(range(COUNT))


def test_a_save_that_another_dataset_replaces_says_so(cluster, tmp_path, held):
    dataset, go_on = held
    job = save(dataset, tmp_path / "saved", cluster.target, chunk_bytes=800)
    wait_until(lambda: job.progress().elements, 60)
    other = save(Dataset.range(9), tmp_path / "saved", cluster.target, overwrite=True)
    go_on()

    assert other.wait(60).elements == 9
    for asked in (job.progress, job.wait):
        with pytest.raises(FileChanged, match="another dataset replaced this one"):
            asked()
    assert [int(x) for x in Dataset.load(tmp_path / "saved")] == list(range(9))


def test_a_dispatcher_without_a_work_dir_hosts_no_save(tmp_path):
    with DispatchServer() as dispatcher:
        with pytest.raises(Refused, match=r"has no work_dir.*or call Dataset.save"):
            save(Dataset.range(9), tmp_path / "saved", dispatcher.target)


@pytest.mark.slow
def test_workers_save_into_an_object_store(monkeypatch, another):
    with served() as bucket:
        for name, value in bucket.env.items():
            monkeypatch.setenv(name, value)
        bucket.write_fault = lambda number: {3: "503", 5: "lost", 8: "lost"}.get(number, "")
        with another(workers=2) as cluster:
            path = "s3://data/saved"
            save(Dataset.range(COUNT), path, cluster.target, chunk_bytes=2000).wait(60)
            far = Dataset.load(path).distribute("distributed_epoch", cluster.target)

            assert sorted(map(int, far)) == list(range(COUNT))
        assert not [name for name in bucket.objects if "/new/" in name]


def test_workers_do_not_write_what_workers_already_make(cluster, tmp_path):
    far = Dataset.range(9).distribute("distributed_epoch", cluster.target)
    with pytest.raises(DatasetError, match=r"already reads from workers: leave out distribute"):
        save(far, tmp_path / "saved", cluster.target)

    far.save(tmp_path / "saved")

    assert sorted(map(int, Dataset.load(tmp_path / "saved"))) == list(range(9))


@pytest.mark.slow
def test_workers_make_damaged_chunks_again_that_other_workers_saved(cluster, tmp_path):
    rows, path = Dataset.range(COUNT).map(element), tmp_path / "saved"
    save(rows, path, cluster.target, chunk_bytes=20_000).wait(120)
    for file in sorted((path / "data").iterdir())[::2]:
        file.write_bytes(b"short")

    repaired = Dataset.load(path, repair=rows)
    far = repaired.distribute("distributed_epoch", cluster.target)
    assert sorted(int(e["x"]) for e in far) == list(range(COUNT))
    with pytest.raises(TransformError, match="bytes instead of .*; give load repair="):
        list(Dataset.load(path).distribute("distributed_epoch", cluster.target))
