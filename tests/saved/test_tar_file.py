import io
import tarfile

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError
from penstock.saved.layout import SavedLayout
from penstock.saved.tar_file import WebDatasetFormat
from tests.saved.test_chunk_format import written

pytest.importorskip("pyarrow")


def archive(elements):
    data, _ = written(WebDatasetFormat(), elements)
    return tarfile.open(fileobj=io.BytesIO(data.to_pybytes()))


def test_the_end_of_a_name_tells_how_to_decode_a_file():
    element = {
        "jpg": b"\xff\xd8",
        "txt": "a caption",
        "label": np.int32(7),
        "cls": np.int64(8),
        "mask": np.zeros((2, 3), np.uint8),
        "score": np.float32(0.5),
        "about": {"json": "{}"},
    }
    with archive([element, element]) as tar:
        names = tar.getnames()

    assert [name.removeprefix("00000000.") for name in names[:7]] == [
        "jpg", "txt", "label.cls", "cls", "mask.npy", "score.npy", "about.json",
    ]  # fmt: skip
    assert names[7] == "00000001.jpg"


def test_a_given_key_names_the_files_and_comes_back(tmp_path):
    elements = [{"__key__": f"{i % 2}/ä{i}" + "x" * 100, "n": np.int64(i)} for i in range(9)]
    with archive(elements) as tar:
        assert tar.getnames() == [f"{one['__key__']}.n.cls" for one in elements]

    Dataset.from_sequence(elements).save(tmp_path / "saved", format="webdataset")

    assert list(Dataset.load(tmp_path / "saved")) == elements


def test_headers_are_those_of_the_library():
    elements = [{"x": b"x" * size} for size in (0, 511, 512, 100_000)]
    data, _ = written(WebDatasetFormat(), elements)
    theirs = io.BytesIO()
    with tarfile.open(fileobj=theirs, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for number, element in enumerate(elements):
            member = tarfile.TarInfo(f"{number:08}.x")
            member.size = len(element["x"])
            tar.addfile(member, io.BytesIO(element["x"]))

    assert theirs.getvalue().startswith(data.to_pybytes())


@pytest.mark.parametrize("key", ["", "a.b", "/a", "__a__", "./a", "a/", "\ud800"])
def test_a_key_that_no_reader_finds_again_is_refused(key):
    with pytest.raises(DatasetError, match="'__key__' .* is no key"):
        archive([{"__key__": key, "n": np.int64(1)}])


def test_a_key_of_two_neighbours_is_refused():
    with pytest.raises(DatasetError, match="'__key__' 'a' is that of the element before"):
        archive([{"__key__": "a", "n": np.int64(1)}] * 2)


@pytest.mark.parametrize(
    ("element", "text"),
    [
        ({"a": np.array(["x"], object)}, "cannot hold 'a', which is an array of text: map it to"),
        ({"__url__": "x"}, "cannot have a file for '__url__'"),
        ({"a/b": b""}, "cannot have a file for 'a/b'"),
        ({"A": b"", "a": b""}, "'A' and 'a' would both be the file 'a'"),
        ({"a": "", "a.txt": ""}, "'a' and 'a.txt' would both be the file 'a.txt'"),
        ({"__key__": "a"}, "needs a part beside '__key__'"),
    ],
)
def test_elements_that_an_archive_cannot_hold_are_refused(element, text):
    with pytest.raises(DatasetError, match=text):
        WebDatasetFormat().check(SavedLayout.of(element))
