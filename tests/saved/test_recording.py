import msgspec
import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.saved.arrow_file import ArrowWriter
from penstock.saved.layout import SavedLayout
from penstock.saved.manifest import Manifest, SavedVersion, SavedVersions, SaveOptions
from penstock.saved.receipts import ChunkTold, new_name
from penstock.saved.recording import Recording
from penstock.serialization.fingerprint import outline

pytest.importorskip("pyarrow")


class Receipts:
    """An iterator over *receipts* of elements from number *start* on."""

    def __init__(self, start, receipts):
        self.at, self.receipts = start, iter(receipts)

    def __iter__(self):
        return self

    def __next__(self):
        receipt = next(self.receipts)
        self.at += 1
        return receipt

    def state(self):
        return self.at


def written(folder, chunk, start, stop):
    """Write elements *start* to *stop* into a new chunk; return their receipts."""
    layout = SavedLayout.of(np.int64(0))
    writer = ArrowWriter(layout, None)
    writer.add([np.int64(i) for i in range(start, stop)], 1 << 30)
    data, contents = writer.finish()
    folder.write(new_name(chunk), data)
    told = msgspec.json.encode(ChunkTold(layout.to_text(), contents))
    return [(chunk, row, told if row == stop - start - 1 else b"") for row in range(stop - start)]


class Died(Exception):
    """This process was killed."""


def die():
    raise Died


@pytest.fixture
def first(folder):
    options = SaveOptions("arrow", None, 1 << 20)
    pipeline = outline(Dataset.range(20).node)
    version = SavedVersion(Manifest(version=1, outline=pipeline, options=options), ())
    SavedVersions("save", folder).commit(version)
    return version


def test_a_process_that_dies_between_files_and_commit_loses_no_row_of_a_chunk_that_goes_on(
    folder, first, monkeypatch
):
    recording = Recording(folder, first)
    monkeypatch.setattr(recording, "_commit_failure", lambda _: None)
    receipts = Receipts(0, written(folder, 1, 0, 20))
    for _ in range(5):
        recording._taken.take(*next(receipts))
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
    assert [chunk.count for chunk in SavedVersions("load", folder).latest().chunks] == [8, 12]
