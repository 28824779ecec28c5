"""Saved datasets of all formats, as users save and load them."""

import os

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, TransformError
from penstock.saved.folder import folder_of
from penstock.saved.formats import OFFERED
from penstock.saved.manifest import SavedVersions

pytest.importorskip("pyarrow")


@pytest.fixture(params=list(OFFERED))
def form(request):
    return request.param


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a folder"


def sample(x):
    return {"x": x, "name": f"sample {x}", "tokens": np.arange(x % 5, dtype=np.int32)}


DATASET = Dataset.range(300).map(sample)


def contents(path):
    return SavedVersions("load", folder_of("load", str(path))).latest().chunks


def test_what_was_saved_comes_back_from_several_chunks(path, plain, form):
    DATASET.save(path, format=form, chunk_bytes=2000)
    loaded = Dataset.load(path)

    assert list(map(plain, loaded)) == list(map(plain, DATASET))
    assert loaded.cardinality() == 300
    assert len(contents(path)) > 5
    assert {file.suffix for file in (path / "data").iterdir()} >= {f".{OFFERED[form].suffix}"}


def test_any_element_can_be_read_by_its_number(path, plain, form):
    DATASET.save(path, format=form, chunk_bytes=2000)
    shuffled = list(Dataset.load(path).global_shuffle(seed=1))

    assert list(map(plain, shuffled)) == list(map(plain, DATASET.global_shuffle(seed=1)))


def test_states_are_exact(path, check_states, form):
    DATASET.take(20).save(path, format=form, chunk_bytes=200)
    elements = list(DATASET.take(20))

    check_states(lambda: Dataset.load(path), elements)
    check_states(lambda: Dataset.load(path, wait=True), elements)


def test_a_changed_byte_is_found_wherever_it_is_read(path, plain, form):
    Dataset.range(2000).map(sample).save(path, format=form)
    (file,) = (path / "data").glob("0*")
    whole = file.read_bytes()
    expected = list(map(plain, Dataset.range(2000).map(sample)))
    outcomes = set()
    for at in range(0, len(whole), len(whole) // 61):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        os.utime(file, ns=(at, at))  # a version of the file that this process has not compared
        try:
            found = list(map(plain, Dataset.load(path)))
        except TransformError as exc:
            assert "damaged" in str(exc)  # noqa: PT017
            outcomes.add("found")
        else:
            assert found == expected  # it is in what others read beside the rows
    assert outcomes == {"found"}


def test_elements_that_are_no_dicts_come_back(path, plain, form):
    for number, dataset in enumerate(
        [Dataset.range(10), Dataset.range(9).map(lambda x: (x, (str(x), b"%d" % x)))]
    ):
        where = path / str(number)
        dataset.save(where, format=form)

        assert list(map(plain, Dataset.load(where))) == list(map(plain, dataset))


def test_an_empty_dataset_can_be_saved(path, form):
    Dataset.range(0).save(path, format=form)

    assert list(Dataset.load(path)) == []


def test_another_format_is_another_dataset(path):
    DATASET.save(path)

    with pytest.raises(DatasetError, match="its format is 'arrow', and not 'parquet'"):
        DATASET.save(path, format="parquet")
