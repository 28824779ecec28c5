"""Snapshots in one process, and in several that share a folder."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, PenstockError
from penstock.protocol.recording import SaveStage
from penstock.saved import write_through
from penstock.saved.folder import folder_of
from penstock.saved.manifest import SavedVersions
from penstock.saved.upkeep import datasets_below, remove, too_many
from tests.storage.conftest import bucket
from tests.waiting import wait_until

__all__ = ["bucket"]

pytest.importorskip("pyarrow")

COUNT = 20


class Noted:
    """A function that notes its calls in a file: all its objects have one fingerprint."""

    def __init__(self, path):
        self.path = str(path)

    def __call__(self, x):
        with open(self.path, "a") as file:
            file.write(f"{x} ")
        return {"x": x, "tokens": np.arange(x % 4), "text": str(x)}

    @property
    def calls(self):
        path = Path(self.path)
        return list(map(int, path.read_text().split())) if path.exists() else []


@pytest.fixture
def noted(tmp_path):
    return Noted(tmp_path / "calls")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a folder" / "snapshots"


@pytest.fixture
def small_chunks(monkeypatch):
    """A chunk for every few elements, as after a long time."""
    monkeypatch.setattr(write_through, "_CHUNK_SECONDS", -1.0)


def numbers(elements):
    return [int(element["x"]) for element in elements]


def folders(path):
    return [each for each in path.iterdir() if each.is_dir()]


def manifest_below(path):
    (folder,) = folders(path)
    found = SavedVersions("load", folder_of("load", str(folder))).latest()
    return found.manifest if found else None


def test_later_passes_and_datasets_call_no_function(path, noted):
    for _ in range(3):
        dataset = Dataset.range(COUNT).map(noted).snapshot(path)
        assert numbers(dataset) == numbers(dataset) == list(range(COUNT))

    assert noted.calls == list(range(COUNT))


def test_later_passes_have_equal_elements(path, plain):
    wanted = [plain(element) for element in Dataset.range(9).map(lambda x: (x, str(x))).batch(3)]
    kept = Dataset.range(9).map(lambda x: (x, str(x))).batch(3).snapshot(path)

    assert [plain(element) for element in kept] == wanted
    assert [plain(element) for element in kept] == wanted
    assert kept.element_spec == Dataset.range(9).map(lambda x: (x, str(x))).batch(3).element_spec


def test_an_empty_dataset_has_a_snapshot(path):
    kept = Dataset.range(0).snapshot(path)

    assert list(kept) == list(kept) == []
    assert manifest_below(path).stage is SaveStage.COMPLETE


def test_what_a_loop_writes_into_an_element_is_not_in_the_snapshot(path):
    kept = Dataset.range(3).map(lambda x: {"x": x}).snapshot(path)
    for element in kept:
        element["x"] = 99

    assert numbers(kept) == [0, 1, 2]


def test_a_pass_that_ends_early_is_continued(path, noted):
    dataset = Dataset.range(COUNT).map(noted).snapshot(path)

    assert numbers(dataset.take(7)) == list(range(7))
    assert manifest_below(path).stage is SaveStage.OPEN
    assert numbers(dataset) == list(range(COUNT))
    assert manifest_below(path).stage is SaveStage.COMPLETE
    assert noted.calls == list(range(COUNT))


def test_repeat_behind_a_snapshot_makes_elements_once(path, noted):
    assert numbers(Dataset.range(5).map(noted).snapshot(path).repeat(3)) == list(range(5)) * 3
    assert noted.calls == list(range(5))


def test_states_are_exact_whether_elements_are_made_or_read(tmp_path, check_states, small_chunks):
    paths = iter(range(10_000))

    def made():
        return Dataset.range(7).map(lambda x: x * 2).snapshot(tmp_path / f"{next(paths)}")

    def read():
        return Dataset.range(7).map(lambda x: x * 2).snapshot(tmp_path / "one")

    wanted = [x * 2 for x in range(7)]
    check_states(made, wanted)
    check_states(read, wanted)
    check_states(lambda: read().repeat(2), wanted * 2)
    check_states(lambda: made().filter(lambda x: x % 4 == 0).batch(2))


def test_an_element_that_fails_is_in_no_snapshot(path, check_states, caplog):
    def bad(x):
        if x == 7:
            raise ValueError("seven")
        return x

    def made():
        return Dataset.range(12).map(bad).snapshot(path)

    outcomes = check_states(made)

    assert len(outcomes) == 12
    assert "seven" in str(outcomes[7])
    assert manifest_below(path).elements == 7
    assert manifest_below(path).stage is SaveStage.OPEN
    assert "gets no more elements in this pass" in caplog.text


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_however_passes_are_interrupted_each_gives_each_element_once(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("snapshots")
    count = data.draw(st.integers(0, 40))

    def dataset():
        made = Dataset.range(count).map(lambda x: {"x": x, "text": str(x)})
        return made.snapshot(path, chunk_bytes=60)

    state, seen, it = None, [], None
    for _ in range(data.draw(st.integers(1, 8))):
        match data.draw(st.sampled_from(["resume", "begin", "another", "delete"])):
            case "begin":
                state, seen = None, []
            case "another":
                list(dataset().take(data.draw(st.integers(0, count))))
            case "delete":
                shutil.rmtree(path, ignore_errors=True)
        it = dataset().iterator(state)
        for _ in range(data.draw(st.integers(0, 20))):
            if (element := next(it, None)) is None:
                break
            seen.append(int(element["x"]))
        state = it.state()
        if data.draw(st.booleans()):  # else it is as if the process had died
            it.close()
    seen += numbers(dataset().iterator(state))

    assert seen == list(range(count))
    assert numbers(dataset()) == list(range(count))


def test_the_folder_may_be_deleted_while_it_is_read(path, noted):
    dataset = Dataset.range(COUNT).map(noted).snapshot(path, chunk_bytes=30)
    list(dataset)
    it = iter(dataset)
    begun = [next(it) for _ in range(5)]
    state = it.state()
    shutil.rmtree(path)

    assert numbers([*begun, *it]) == list(range(COUNT))
    assert numbers(dataset.iterator(state)) == list(range(5, COUNT))
    assert numbers(dataset) == numbers(dataset) == list(range(COUNT))


def test_a_damaged_chunk_is_made_again(path, noted, caplog):
    dataset = Dataset.range(COUNT).map(noted).snapshot(path)
    list(dataset)
    (chunk,) = (folders(path)[0] / "data").iterdir()
    text = bytearray(chunk.read_bytes())
    text[len(text) // 2] ^= 1
    chunk.write_bytes(text)

    assert numbers(dataset) == list(range(COUNT))
    assert "cannot be read, and is made again" in caplog.text
    assert numbers(dataset) == numbers(dataset) == list(range(COUNT))
    assert noted.calls == list(range(COUNT)) * 3


def test_a_snapshot_that_gc_removed_is_made_again(path, noted):
    dataset = Dataset.range(COUNT).map(noted).snapshot(path, chunk_bytes=30)
    list(dataset)
    it = iter(dataset)
    begun = [next(it) for _ in range(3)]
    ((folder, version),) = datasets_below(str(path))
    assert too_many([version], None, 0) == [0]
    removed = remove(folder, version)

    assert numbers([*begun, *it]) == list(range(COUNT))  # for an hour its chunks stay
    assert noted.calls == list(range(COUNT))
    for name in {*version.names}:
        folder.delete(name)
    assert removed.manifest.stage is SaveStage.REMOVED
    assert numbers(dataset) == numbers(dataset) == list(range(COUNT))
    assert noted.calls == list(range(COUNT)) * 2


def test_a_whole_snapshot_is_read_from_a_folder_that_nobody_may_write(path, noted, monkeypatch):
    dataset = Dataset.range(COUNT).map(noted).snapshot(path)
    list(dataset)
    other = Dataset.range(3).map(noted).snapshot(path)

    def refused(self, name, data):
        raise PermissionError(13, "Permission denied")

    for method in ("write", "create"):
        monkeypatch.setattr(type(folder_of("save", str(path))), method, refused)
    assert numbers(dataset) == list(range(COUNT))
    assert noted.calls == list(range(COUNT))
    with pytest.raises(DatasetError, match=r"snapshot: .* cannot be written .*Permission denied"):
        list(other)


def test_a_loop_that_stops_in_the_middle_of_parallel_work_leaves_a_snapshot_to_continue(
    path, small_chunks
):
    for _ in range(20):
        made = Dataset.range(200).map(lambda x: {"x": x}, num_parallel_calls=4).snapshot(path)
        with iter(made.map(lambda e: e, num_parallel_calls=4).prefetch(8)) as it:
            for _ in range(15):
                next(it, None)

    assert numbers(made) == list(range(200))
    assert numbers(made) == list(range(200))


def test_of_two_passes_at_once_one_writes_and_both_are_exact(path, small_chunks, noted):
    dataset = Dataset.range(COUNT).map(noted).snapshot(path)
    pairs = zip(iter(dataset), iter(dataset), strict=True)

    assert [(int(a["x"]), int(b["x"])) for a, b in pairs] == [(i, i) for i in range(COUNT)]
    assert manifest_below(path).elements == COUNT
    (folder,) = folders(path)
    (_, version) = next(datasets_below(str(path)))
    assert {f"data/{name.name}" for name in (folder / "data").iterdir()} == {*version.names}
    assert numbers(dataset) == list(range(COUNT))


def test_a_changed_function_gets_a_folder_of_its_own_and_a_warning(path, caplog):
    list(Dataset.range(3).map(lambda x: x + 1).snapshot(path))

    assert list(Dataset.range(3).map(lambda x: x + 2).snapshot(path)) == [2, 3, 4]
    assert "gets it now: map(<lambda>): its constants differ" in caplog.text or (
        "map(<lambda>)" in caplog.text
    )
    assert list(Dataset.range(3).map(lambda x: x + 1).snapshot(path)) == [1, 2, 3]
    assert len(folders(path)) == 2


def test_a_changed_file_gets_a_folder_of_its_own_and_a_warning(tmp_path, path, caplog):
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("a\nb\n")
    two.write_text("c\n")

    def lines():
        return Dataset.text_lines(str(tmp_path / "*.txt")).map(str.upper).snapshot(path)

    def read():
        names = Dataset.list_files(str(tmp_path / "*.txt"), shuffle=False)
        return names.map(lambda name: Path(name).read_text()).snapshot(path)

    assert list(lines()) == ["A", "B", "C"]
    assert list(read()) == ["a\nb\n", "c\n"]
    two.write_text("changed\n")
    caplog.clear()

    assert list(lines()) == ["A", "B", "CHANGED"]
    assert f"the {two} is 2 bytes" in caplog.text
    assert list(read()) == ["a\nb\n", "changed\n"]
    assert len(folders(path)) == 4


@pytest.mark.parametrize(
    ("dataset", "why"),
    [
        (Dataset.range(9).repeat(), "the dataset is infinite"),
        (Dataset.range(9).shuffle(9), "shuffle draws a new order or new numbers in each pass"),
        (Dataset.range(9).global_shuffle(seed=1), "global_shuffle draws a new order"),
        (Dataset.range(9).map(lambda x, *, rng: x), r"map\(<lambda>\) draws random numbers"),
        (Dataset.range(9).map(lambda x: x + np.random.rand()), r"numpy\.random\.rand"),
        (
            Dataset.sample_from_datasets([Dataset.range(9), Dataset.range(9)]),
            "sample_from_datasets draws",
        ),
        (Dataset.range(9).distribute("distributed_epoch", "grpc://x:1"), "distribute reads"),
    ],
)
def test_what_would_be_frozen_is_refused_with_the_operator(dataset, why, path):
    with pytest.raises(DatasetError, match=f"^snapshot: .*{why}.*"):
        dataset.snapshot(path)
    assert not path.exists()


def test_chance_in_a_dataset_that_a_function_returns_is_refused_when_it_is_met(path):
    kept = Dataset.range(3).flat_map(lambda x: Dataset.range(9).shuffle(9)).snapshot(path)

    with pytest.raises(PenstockError, match=r"snapshot: shuffle draws a new order or new numbers"):
        list(kept)


def test_a_shuffle_with_one_order_for_all_passes_is_kept(path):
    kept = Dataset.range(9).shuffle(9, seed=3, reshuffle_each_iteration=False).snapshot(path)

    assert list(kept) == list(kept)


def test_malformed_arguments_are_refused_at_once(path, tmp_path):
    for arguments, why in (
        ({"path": 3}, "snapshot: path must be a folder, not 3"),
        ({"path": path, "compression": "gzip"}, "snapshot: compression must be 'zstd', 'lz4'"),
        ({"path": path, "chunk_bytes": 0}, "snapshot: chunk_bytes must be an integer of at least"),
        ({"path": "http://host/x"}, "is in no store that can create a file"),
    ):
        with pytest.raises(DatasetError, match=why):
            Dataset.range(3).snapshot(**arguments)
    (tmp_path / "file").write_text("x")
    with pytest.raises(DatasetError, match=r"snapshot: .* cannot be written"):
        list(Dataset.range(3).snapshot(tmp_path / "file"))


def test_elements_that_cannot_be_stored_are_made_in_each_pass(path, caplog):
    kept = Dataset.range(4).map(lambda x: (x,) if x < 2 else x).snapshot(path)

    assert list(kept) == list(kept) == [(0,), (1,), 2, 3]
    assert "all elements of a saved dataset have one structure" in caplog.text
    assert manifest_below(path).elements == 2


def test_a_full_disk_ends_the_writing_and_not_the_pass(path, noted, monkeypatch, caplog):
    dataset = Dataset.range(COUNT).map(noted).snapshot(path, chunk_bytes=30)
    folder_type = type(folder_of("save", str(path)))
    write, room = folder_type.write, iter(range(3))

    def full(self, name, data):
        if next(room, None) is None:
            raise OSError(28, "No space left on device")
        write(self, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(folder_type, "write", full)
        assert numbers(dataset) == list(range(COUNT))
    assert "No space left on device" in caplog.text
    assert numbers(dataset) == list(range(COUNT))
    assert manifest_below(path).stage is SaveStage.COMPLETE


@pytest.mark.slow
def test_a_snapshot_is_kept_in_an_object_store(bucket, noted):
    dataset = Dataset.range(COUNT).map(noted).snapshot("s3://data/snapshots", chunk_bytes=60)

    assert numbers(dataset.take(3)) == [0, 1, 2]
    assert numbers(dataset) == numbers(dataset) == list(range(COUNT))
    assert noted.calls == list(range(COUNT))


def test_a_mixture_is_refused_because_its_weights_may_change(path):
    mixed = Dataset.mixture({"a": Dataset.range(9)}, {"a": 1.0})
    with pytest.raises(DatasetError, match=r"mixture has weights that may change"):
        mixed.take(3).snapshot(path)


SCRIPT = """
import sys, time
from penstock import Dataset

def slow(x):
    time.sleep(0.002)
    with open(sys.argv[2], "a") as file:
        file.write(f"{x} ")
    return {"x": x}

seen = [int(e["x"]) for e in Dataset.range(600).map(slow).snapshot(sys.argv[1], chunk_bytes=160)]
assert seen == list(range(600)), seen
"""


@pytest.mark.slow
def test_processes_that_are_killed_or_run_at_once_make_one_snapshot(tmp_path, path):
    script, calls = tmp_path / "script.py", tmp_path / "calls"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(path), str(calls)]
    killed = subprocess.Popen(command)

    def elements():
        found = path.is_dir() and folders(path) and manifest_below(path)
        return found.elements if found else 0

    wait_until(lambda: elements() > 50, 60)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    two = [subprocess.Popen(command) for _ in range(2)]

    assert [process.wait(60) for process in two] == [0, 0]
    assert manifest_below(path).stage is SaveStage.COMPLETE
    before = calls.read_text()
    subprocess.run(command, check=True, timeout=60)
    assert calls.read_text() == before
