"""`Reference`: bytes of files that travel as their places, and are read later."""

from __future__ import annotations

import gzip
import pickle

import fsspec
import numpy as np
import pytest

from penstock import Dataset, Reference
from penstock.element import nbytes
from penstock.errors import DatasetError, FileChanged, TransformError
from penstock.frames.frame import FrameBuilder, unpack
from tests.ops.test_webdataset import write

PARTS = [b"one", b"", b"three" * 9000, b"four"]


@pytest.fixture
def tar(tmp_path):
    files = [(f"{i}.{field}", data) for i, data in enumerate(PARTS) for field in ("jpg", "cls")]
    write(tmp_path / "f.tar", files)
    return tmp_path / "f.tar"


def test_a_lazy_sample_has_references_that_read_what_an_eager_one_has(tar):
    lazy = list(Dataset.webdataset(tar, lazy=True))
    eager = list(Dataset.webdataset(tar))

    assert all(type(sample["jpg"]) is Reference for sample in lazy)
    assert [{**s, "jpg": s["jpg"].read(), "cls": s["cls"].read()} for s in lazy] == eager
    assert list(Dataset.webdataset(tar, lazy=True).resolve()) == eager


def test_a_lazy_pass_reads_headers_only(tar, tmp_path):
    write(tmp_path / "big.tar", [(f"{i}.jpg", bytes(1 << 20)) for i in range(8)])

    with open("/proc/self/io") as io:
        before = int(io.readline().split()[1])
        assert len(list(Dataset.webdataset(tmp_path / "big.tar", lazy=True))) == 8
        io.seek(0)
        assert int(io.readline().split()[1]) - before < 1 << 20


def test_a_frame_brings_references_back_as_references(tar):
    sent = list(Dataset.webdataset(tar, lazy=True))
    builder = FrameBuilder()
    assert builder.add(sent) == len(sent)
    layout, elements = builder.take()
    payload = bytearray(layout.nbytes)
    layout.write(elements, memoryview(payload))

    received = unpack(layout.to_bytes(), payload)

    assert received == sent
    assert type(received[2]["jpg"]) is Reference
    assert received[2]["jpg"].read() == PARTS[2]
    assert layout.nbytes < len(sent) * (3 * len(str(tar)) + 400)


def test_a_reference_is_small_and_can_be_pickled(tar):
    reference = list(Dataset.webdataset(tar, lazy=True))[2]["jpg"]

    assert nbytes(reference) < 200
    assert pickle.loads(pickle.dumps(reference)) == reference


def test_batches_are_not_decoded_and_the_error_says_where_to_resolve(tar):
    lazy = Dataset.webdataset(tar, lazy=True, select="jpg")

    for batches in (lazy.batch(2), lazy.padded_batch(2).shuffle(4).prefetch(1)):
        with pytest.raises(DatasetError, match=r"batch has made a batch: put resolve\(decode=..."):
            batches.resolve(decode={"jpg": len})
    hidden = lazy.batch(2).map(lambda batch: batch).resolve(decode={"jpg": len})
    with pytest.raises(TransformError, match=r"the field 'jpg' holds a batch: put resolve\(deco"):
        next(iter(hidden))
    assert len(list(lazy.batch(2).resolve())) == 2
    assert [int(s["jpg"]) for s in lazy.resolve(decode={"jpg": len})] == list(map(len, PARTS))


def test_a_batch_of_references_to_several_files_is_read_in_its_shape(tmp_path):
    for name in "ab":
        (tmp_path / name).write_bytes(name.encode() * 10)
    references = [Reference(str(tmp_path / name), at, 2) for at in (8, 0) for name in "ba"]

    (batch,) = Dataset.from_sequence(references).batch(2).batch(2)

    assert batch.read().tolist() == [[b"bb", b"aa"], [b"bb", b"aa"]]


def test_a_reference_to_a_file_that_was_replaced_is_an_error_that_names_it(tar):
    reference = next(iter(Dataset.webdataset(tar, lazy=True)))["jpg"]
    write(tar, [("other.jpg", b"?" * 1000)])

    with pytest.raises(FileChanged, match=rf"{tar} was changed since it was listed"):
        reference.read()
    with pytest.raises(TransformError, match=rf"FileChanged: .*{tar} was changed"):
        list(Dataset.from_sequence([reference]).resolve())


def test_a_reference_beyond_the_end_and_one_to_no_file_are_errors(tmp_path):
    (tmp_path / "f").write_bytes(b"12345")

    with pytest.raises(OSError, match=rf"{tmp_path}/f ends before byte 9"):
        Reference(str(tmp_path / "f"), 4, 5).read()
    with pytest.raises(Exception, match=rf"there is no file '{tmp_path}/g'"):
        Reference(str(tmp_path / "g"), 4, 5).read()


def test_a_remote_reference_is_read_by_its_range():
    fs = fsspec.filesystem("memory")
    for name in "abc":
        fs.pipe(f"/refs/{name}", name.encode() * 100)
    references = [Reference(f"memory://refs/{name}", 98, 2) for name in "cab"]

    (batch,) = Dataset.from_sequence(references).batch(3).resolve()

    assert batch.tolist() == [b"cc", b"aa", b"bb"]


def test_fields_are_decoded_after_they_are_read(tmp_path):
    write(tmp_path / "f.tar", [("1.json", b"[1, 2]"), ("2.json", b"{")])
    dataset = Dataset.webdataset(tmp_path / "f.tar", lazy=True).resolve("json").iterator()

    assert np.array_equal(next(dataset)["json"], [1, 2])
    with pytest.raises(TransformError, match="DecodeError") as info:
        next(dataset)
    assert "in field 'json' of sample '2'" in str(getattr(info.value.__cause__, "__notes__", ""))


def test_lazy_refuses_what_it_cannot_do(tmp_path):
    write(tmp_path / "f.tar", [("1.jpg", b"x")])
    (tmp_path / "f.tar.gz").write_bytes(gzip.compress((tmp_path / "f.tar").read_bytes()))

    with pytest.raises(DatasetError, match=r"f.tar.gz is compressed, so that no reference"):
        list(Dataset.webdataset(tmp_path / "f.tar.gz", lazy=True))
    with pytest.raises(DatasetError, match=r"there are no bytes to decode yet: give decode to"):
        Dataset.webdataset(tmp_path / "f.tar", decode="json", lazy=True)
