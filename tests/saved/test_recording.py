import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import msgspec
import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.dataset.local_save import begun
from penstock.dataset.saving import job_of, options_of_save
from penstock.errors import DatasetError, ElementError, Superseded, TransformError
from penstock.protocol.recording import SaveStage
from penstock.saved import folder as folders
from penstock.saved.chunk_format import ChunkWriter
from penstock.saved.folder import folder_of
from penstock.saved.formats import FORMATS
from penstock.saved.layout import SavedLayout
from penstock.saved.manifest import (
    DATA,
    Manifest,
    SavedVersion,
    SavedVersions,
    SaveOptions,
)
from penstock.saved.receipts import ChunkTold, new_name, told_name
from penstock.saved.recording import Recording, position_of
from penstock.saved.taken import runs_of
from penstock.saved.upkeep import damage, leftovers, lost
from penstock.serialization.fingerprint import outline

pytest.importorskip("pyarrow")


class Receipts:
    """Gives *receipts* of elements from number *start* on, three at a time."""

    def __init__(self, start, receipts):
        self.at, self.receipts = start, iter(receipts)

    def block(self, n=3):
        block = list(islice(self.receipts, n))
        self.at += len(block)
        return block

    def state(self):
        return self.at

    waits = False


def written(folder, chunk, start, stop):
    """Write elements *start* to *stop* into a new chunk; return their receipts."""
    layout = SavedLayout.of(np.int64(0))
    writer = ChunkWriter(FORMATS["arrow"], layout, None)
    writer.add([np.int64(i) for i in range(start, stop)], 1 << 30)
    data, contents = writer.finish()
    told = msgspec.json.encode(ChunkTold(layout.to_text(), contents, writer.nbytes, ends=True))
    folder.write(told_name(chunk), told)
    folder.write(new_name(chunk), data)
    return [(chunk, row, told if row == stop - start - 1 else b"") for row in range(stop - start)]


class Died(Exception):
    """This process was killed."""


def die():
    raise Died


@pytest.fixture
def first(folder):
    options = SaveOptions("arrow", None, 1 << 20)
    pipeline = outline(Dataset.range(20).node)
    version = SavedVersion(Manifest(version=1, save_id="x", outline=pipeline, options=options), ())
    SavedVersions("save", folder).commit(version)
    return version


def test_a_process_that_dies_between_files_and_commit_loses_no_row_of_a_chunk_that_goes_on(
    folder, first, monkeypatch
):
    recording = Recording(folder, first)
    monkeypatch.setattr(recording, "_commit_failure", lambda _: None)
    receipts = Receipts(0, written(folder, 1, 0, 20))
    for run in runs_of(receipts.block(5)):
        recording._taken.take(run)
    recording._commit(receipts)

    monkeypatch.setattr(SavedVersions, "commit", lambda *_: die())
    with pytest.raises(Died):
        recording.run(receipts, lambda: False)
    monkeypatch.undo()
    again = SavedVersions("save", folder).latest()
    Recording(folder, again).run(Receipts(5, written(folder, 2, 5, 20)), lambda: False)

    path = folder.path
    assert list(map(int, Dataset.load(path))) == list(range(20))
    assert folder.names("_penstock/new") == []


def test_rows_that_two_attempts_wrote_are_cut_to_those_that_were_taken(folder, first):
    one, other = written(folder, 1, 0, 20), written(folder, 2, 0, 20)

    Recording(folder, first).run(Receipts(0, [*one[:8], *other[8:]]), lambda: False)

    assert list(map(int, Dataset.load(folder.path))) == list(range(20))
    assert [chunk.count for chunk in SavedVersions("load", folder).latest().chunks] == [20]


def test_a_version_with_pieces_is_read_by_numbers_also_when_chunks_have_replaced_these(
    folder, first
):
    recording = Recording(folder, first)
    receipts = Receipts(0, written(folder, 1, 0, 20)[:8] + written(folder, 2, 8, 20))
    for run in runs_of(receipts.block(9)):
        recording._taken.take(run)
    recording._commit(receipts)
    older = Dataset.load(folder.path, at=2)
    before = list(map(int, older.global_shuffle(seed=1)))
    recording.run(receipts, lambda: False)

    assert len(older) == 8
    assert list(map(int, older)) == list(range(8))
    assert list(map(int, older.global_shuffle(seed=1))) == before
    assert sorted(before) == list(range(8)) != before
    assert folder.names("_penstock/new") == []


OPTIONS = options_of_save("arrow", None, 80)


class Crash(BaseException):
    """The process is killed here."""


@pytest.fixture
def crash_at(monkeypatch):
    """Make the process crash at its call number *n* that changes a folder."""

    def arrange(n, *, after):
        calls = 0

        def crashing(method):
            def call(*arguments):
                nonlocal calls
                calls += 1
                if calls == n and not after:
                    raise Crash
                result = method(*arguments)
                if calls == n:
                    raise Crash
                return result

            return call

        for name in ("write", "create", "copy", "delete"):
            method = getattr(folders._LocalFolder, name)
            monkeypatch.setattr(folders._LocalFolder, name, crashing(method))

    return arrange


class TurningReceipts:
    """Receipts of tasks that take turns: two elements each, then the rest of both.

    Each life of it writes the elements that follow the state into new chunks.
    """

    ELEMENTS = ((0, 4), (4, 8))
    TURNS = (0, 0, 1, 1, 1, 1, 0, 0)

    def __init__(self, folder, state):
        self._at = state or 0
        left = []
        for task, elements in enumerate(self.ELEMENTS):
            taken = self.TURNS[: self._at].count(task)
            begin, stop = elements
            begin += taken
            receipts = written(folder, 100 * self._at + task, begin, stop) if begin < stop else []
            left.append(iter(receipts))
        self._receipts = [next(left[task]) for task in self.TURNS[self._at :]]

    def block(self):
        block, self._receipts = self._receipts[:1], self._receipts[1:]
        self._at += len(block)
        return block

    def state(self):
        return self._at


def recorded(path, dataset, options):
    """Save as one life of a process does, committing as often as possible."""
    folder = folder_of("save", str(path))
    version = begun(dataset.node, str(path), options, overwrite=False)
    if version.manifest.stage is SaveStage.COMPLETE:
        return
    receipts = TurningReceipts(folder, position_of(version).state)
    ticks = iter(range(0, 1 << 30, 1000))
    Recording(folder, version, clock=lambda: next(ticks) / 1e6).run(receipts, lambda: False)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("n", range(1, 16))
def test_tasks_that_take_turns_are_saved_once_though_the_saver_dies_at_any_call(
    tmp_path, crash_at, n, after
):
    path, options = tmp_path / "saved", options_of_save("arrow", None, 80, "any")
    dataset = Dataset.range(8)
    crash_at(n, after=after)
    try:
        recorded(path, dataset, options)
    except Crash:
        recorded(path, dataset, options)

    assert sorted(map(int, Dataset.load(path))) == list(range(8))
    assert_intact(path)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("n", range(1, 24))
def test_elements_are_saved_once_though_the_process_dies_at_any_call(tmp_path, crash_at, n, after):
    path, dataset = tmp_path / "saved", Dataset.range(35)
    crash_at(n, after=after)
    try:
        dataset.save(path, chunk_bytes=80)
    except Crash:
        dataset.save(path, chunk_bytes=80)

    assert list(map(int, Dataset.load(path))) == list(range(35))
    assert_intact(path)


def assert_intact(path):
    folder = folder_of("load", str(path))
    version = SavedVersions("load", folder).latest()
    assert not [name for name in leftovers(folder, version) if name.startswith(DATA)]
    assert not list(damage(folder, version))
    assert not list(path.rglob(".*"))


def test_two_processes_that_save_at_once_damage_nothing(tmp_path):
    path = tmp_path / "saved"

    def slow(x):
        time.sleep(0.001)
        return x

    dataset = Dataset.range(400).map(slow)
    saves = []
    with ThreadPoolExecutor() as threads:
        for chunk_seconds in (0.05, 0.033, 0.04):
            job = job_of(dataset, path, OPTIONS, chunk_seconds, overwrite=False)
            saves.append(threads.submit(job.run))
            threading.Event().wait(0.1)
    for one in saves[:-1]:
        with pytest.raises(Superseded, match="another process writes"):
            one.result()
    saves[-1].result()

    assert list(map(int, Dataset.load(path))) == list(range(400))


def test_what_has_ended_is_committed_before_its_time_if_no_receipts_come(folder, first):
    class NoneComes(Receipts):
        waits = True

        def block(self):
            if self.at:
                assert recording.version.manifest.elements == 3
            return super().block()

    receipts = NoneComes(0, written(folder, 1, 0, 3))
    recording = Recording(folder, first, clock=lambda: 0.0)
    recording._spent = 0.3  # commits took too long already
    recording.run(receipts, lambda: False)

    assert recording.version.manifest.stage is SaveStage.COMPLETE


def test_elements_are_readable_in_time_while_a_function_does_not_return(tmp_path):
    gate = threading.Event()

    def held(x):
        assert x < 40 or gate.wait(60)
        return x

    job = job_of(Dataset.range(100).map(held), tmp_path / "s", OPTIONS, 0.05, overwrite=False)
    with ThreadPoolExecutor() as threads:
        saving = threads.submit(job.run)
        found = iter(Dataset.load(tmp_path / "s", wait=True, timeout=60))
        first = [int(next(found)) for _ in range(15)]
        assert not saving.done()
        gate.set()
        assert first + list(map(int, found)) == list(range(100))
        saving.result()


def test_a_saver_that_another_one_follows_stops_at_its_next_version(tmp_path):
    dataset, path = Dataset.range(100), tmp_path / "saved"
    one = job_of(dataset, path, OPTIONS, 10.0, overwrite=False)
    job_of(dataset, path, OPTIONS, 10.0, overwrite=False)

    with pytest.raises(Superseded, match="another process writes"):
        one.run()
    assert not (path / "data").exists()


def test_a_folder_that_is_deleted_while_it_is_written_is_not_complete(tmp_path):
    path = tmp_path / "saved"

    def deletes(x):
        if x == 50:
            for file in (path / "data").iterdir():
                file.unlink()
        return x

    with pytest.raises(DatasetError, match=r"data/00000000-\w+.arrow is gone: someone deleted"):
        Dataset.range(100).map(deletes).save(path, chunk_bytes=80)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    file = tmp_path / "file"
    file.touch()

    with pytest.raises(DatasetError, match=r"file/saved/.*json cannot be written.*Not a directory"):
        Dataset.range(3).save(file / "saved")


def test_a_process_that_died_before_its_first_version_leaves_nothing_in_the_way(tmp_path):
    path = tmp_path / "saved"
    (path / "_penstock").mkdir(parents=True)
    (path / "_penstock" / ".v00000001.json.0123.part").write_text("{")
    Dataset.range(3).save(path)

    assert list(map(int, Dataset.load(path))) == [0, 1, 2]
    assert not list(path.rglob(".*"))


def test_elements_of_two_chunks_that_differ_are_named_by_their_column(tmp_path):
    flag = tmp_path / "mended"

    def changes(x):
        if x == 50 and not flag.exists():
            raise ValueError("no fifty")
        return {"x": x if x < 50 else float(x)}

    dataset = Dataset.range(100).map(changes)
    with pytest.raises(TransformError, match="no fifty"):
        dataset.save(tmp_path / "saved", chunk_bytes=80)
    flag.touch()

    with pytest.raises(
        DatasetError,
        match="element 50 is not like those before it: x is scalars <f8, and was scalars <i8; map",
    ):
        dataset.save(tmp_path / "saved", chunk_bytes=80)


def test_an_element_unlike_those_before_it_is_named_by_its_number(tmp_path):
    flag = tmp_path / "mended"

    def changes(x):
        if x == 20 and not flag.exists():
            raise ValueError("no twenty")
        return x if x < 33 else str(x)

    dataset = Dataset.range(100).map(changes)
    with pytest.raises(TransformError, match="no twenty"):
        dataset.save(tmp_path / "saved", chunk_bytes=200)
    flag.touch()

    with pytest.raises(ElementError, match="save: element 33: str is not like the elements before"):
        dataset.save(tmp_path / "saved", chunk_bytes=200)


def test_a_complete_save_whose_leftover_files_cannot_be_deleted_is_complete(
    folder, first, monkeypatch, caplog
):
    def refuse(*_):
        raise OSError("read-only")

    receipts = written(folder, 1, 0, 20)
    monkeypatch.setattr(type(folder), "delete", refuse)
    recording = Recording(folder, first)
    recording.run(Receipts(0, receipts), lambda: False)

    assert recording.version.manifest.stage is SaveStage.COMPLETE
    assert SavedVersions("load", folder).latest() == recording.version
    assert "could not be deleted: read-only" in caplog.text
    assert list(map(int, Dataset.load(folder.path))) == list(range(20))


def test_a_complete_save_whose_folder_cannot_be_listed_is_not_tidied(
    folder, first, monkeypatch, caplog
):
    def refuse(*_):
        raise OSError("busy")

    recording = Recording(folder, first)
    monkeypatch.setattr(recording, "_complete", lambda _: None)
    recording.run(Receipts(0, []), lambda: False)
    monkeypatch.setattr(type(folder), "names", refuse)

    recording.clean()

    assert "could not be tidied: busy" in caplog.text


def test_a_chunk_that_a_listing_does_not_name_yet_is_not_gone(folder, first, monkeypatch):
    recording = Recording(folder, first)
    receipts = Receipts(0, [*written(folder, 1, 0, 10), *written(folder, 2, 10, 20)])
    for run in runs_of(receipts.block(10)):
        recording._taken.take(run)
    recording._commit(receipts)
    monkeypatch.setattr(type(folder), "names", lambda *_: [])

    assert lost(folder, recording.version) == []
    recording.run(receipts, lambda: False)
    assert recording.version.manifest.elements == 20


def test_a_save_does_not_go_on_with_a_dataset_that_replaces_its_own_at_this_moment(
    tmp_path, monkeypatch
):
    path, commit = str(tmp_path / "saved"), SavedVersions.commit
    mine, other = Dataset.range(9).node, Dataset.range(100, 109).node
    begun(mine, path, OPTIONS, overwrite=False)

    def commit_second(versions, version):
        monkeypatch.setattr(SavedVersions, "commit", commit)
        begun(other, path, OPTIONS, overwrite=True)
        return commit(versions, version)

    monkeypatch.setattr(SavedVersions, "commit", commit_second)
    with pytest.raises(DatasetError, match="another process writes .* at this moment"):
        begun(mine, path, OPTIONS, overwrite=False)


def test_a_saver_whose_files_the_next_one_deleted_says_that_the_next_one_goes_on(folder, first):
    late = Recording(folder, first)
    receipts = Receipts(0, written(folder, 1, 0, 20)[:8] + written(folder, 2, 8, 20))

    def deletes_and_goes_on(*_):
        folder.delete(new_name(1))
        SavedVersions("save", folder).commit(late.version.following((), stage=SaveStage.OPEN))
        raise DatasetError("a file is gone")

    late._chunk = deletes_and_goes_on
    with pytest.raises(Superseded, match="another process writes"):
        late.run(receipts, lambda: False)
