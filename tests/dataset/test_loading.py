"""The arguments of `Dataset.load`; what it reads is in tests/ops/test_load.py."""

import msgspec
import numpy as np
import pytest

from penstock.analysis.array_spec import ArraySpec
from penstock.dataset.dataset import Dataset
from penstock.dataset.loading import check_repair
from penstock.errors import DatasetError
from penstock.saved.folder import folder_of
from penstock.saved.manifest import SavedVersions

pytest.importorskip("pyarrow")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "saved"


def numbers(dataset):
    return [int(x) for x in dataset]


def test_the_elements_may_have_to_be_of_a_spec_and_a_compression(path):
    dataset = Dataset.range(9).map(
        lambda x: {"x": x, "a": np.arange(x % 3 + 2.0), "t": (str(x), np.array([b"a", b"b"]))}
    )
    dataset.save(path)
    spec = dataset.element_spec

    assert len(Dataset.load(path, spec, "zstd")) == 9
    assert len(list(Dataset.load(path, spec, wait=True))) == 9
    for other in (
        spec["x"],
        {**spec, "x": spec["a"]},
        {**spec, "x": ArraySpec((), np.dtype(np.int32))},
        {**spec, "t": (spec["x"], spec["t"][1])},
        {**spec, "t": (spec["t"][0], ArraySpec((), bytes))},
        {"x": 1, "a": 2, "t": (3, 4)},
    ):
        with pytest.raises(DatasetError, match=r"element_spec is .*, but the elements of .* have"):
            Dataset.load(path, other)
    with pytest.raises(DatasetError, match=r"compression is 'lz4', but the files of .* 'zstd'"):
        Dataset.load(path, compression="lz4")


def test_a_reader_function_gets_a_dataset_of_each_chunk(path):
    Dataset.range(40).save(path, chunk_bytes=80)

    def turns(chunks):
        return chunks.shuffle(4, seed=1).interleave(lambda chunk: chunk, cycle_length=2)

    found = numbers(Dataset.load(path, reader_func=turns))
    assert sorted(found) == list(range(40)) != found
    elements = iter(Dataset.load(path, reader_func=turns))
    assert [int(next(elements)) for _ in range(13)] == found[:13]
    state = elements.state()
    assert numbers(Dataset.load(path, reader_func=turns).iterator(state)) == found[13:]
    assert numbers(
        Dataset.load(path, reader_func=lambda chunks: chunks.skip(1).flat_map(lambda chunk: chunk))
    ) == list(range(10, 40))


def test_a_reader_function_must_return_a_dataset_of_one_version(path):
    Dataset.range(9).save(path)
    with pytest.raises(DatasetError, match=r"reader_func must return a Dataset, not \[\]"):
        Dataset.load(path, reader_func=lambda chunks: [])
    with pytest.raises(DatasetError, match="at=, reader_func= and repair= are of one"):
        Dataset.load(path, reader_func=lambda chunks: chunks, wait=True)


def test_only_the_dataset_that_was_saved_in_order_can_repair(path):
    rows = Dataset.range(9).map(lambda x: x + 1)
    rows.save(path)
    with pytest.raises(DatasetError, match="repair must be the Dataset that was saved, not 3"):
        Dataset.load(path, repair=3)
    with pytest.raises(DatasetError, match="repair is not the dataset that was saved: the operat"):
        Dataset.load(path, repair=rows.take(3))
    manifest = SavedVersions("test", folder_of("test", str(path))).latest().manifest
    options = msgspec.structs.replace(manifest.options, order="any")
    with pytest.raises(DatasetError, match='that was not saved with order="any"'):
        check_repair(msgspec.structs.replace(manifest, options=options), rows)


def test_a_folder_of_tensorflow_is_named(path):
    path.mkdir()
    (path / "snapshot.metadata").touch()

    for wait in (False, True):
        with pytest.raises(DatasetError, match=r"TensorFlow's own save wrote .* Dataset.from_tf"):
            Dataset.load(path, wait=wait)
