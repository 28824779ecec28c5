"""Archives that WebDataset's own writer made, read as its own reader reads them."""

import io
import tarfile

import pytest
import webdataset
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset

KEYS = st.lists(
    st.text("abXY01_-/", min_size=1, max_size=12).filter(
        lambda key: key.strip("/") == key and "//" not in key and "__" not in key
    ),
    unique=True,
    min_size=1,
    max_size=8,
)
NAMES = st.sampled_from(["jpg", "seg.png", "json", "cls", "TXT"])


def theirs(file):
    """Return what WebDataset reads, without where it found it."""
    samples = webdataset.WebDataset(
        str(file), shardshuffle=False, nodesplitter=None, empty_check=False
    )
    return [fields(sample) for sample in samples]


def fields(sample):
    return {name: data for name, data in sample.items() if name == "__key__" or name[0] != "_"}


@given(
    keys=KEYS,
    names=st.lists(NAMES, unique=True, min_size=1),
    data=st.binary(max_size=1500),
    packed=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_any_samples_are_those_that_webdataset_reads(tmp_path_factory, keys, names, data, packed):
    file = tmp_path_factory.mktemp("tar") / ("f.tar.gz" if packed else "f.tar")
    with webdataset.TarWriter(str(file), encoder=False) as writer:
        for i, key in enumerate(keys):
            writer.write({"__key__": key, **{name: data + bytes([i]) for name in names}})

    ours = [fields(sample) for sample in Dataset.webdataset(file)]

    assert ours == theirs(file)
    assert len(ours) == len(keys)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_names_that_are_no_samples_are_left_out_as_webdataset_does(tmp_path, form):
    file = tmp_path / "f.tar"
    names = [
        "a.jpg", "a.CLS", "__meta__/x.txt", "plain", ".hidden", "d/b.x.y", "d/b.z",
        "long/" * 40 + "c.txt",
    ]  # fmt: skip
    if form == tarfile.USTAR_FORMAT:
        names.pop()
    with tarfile.open(file, "w", format=form) as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(name)
            tar.addfile(info, io.BytesIO(name.encode()))

    ours = [fields(sample) for sample in Dataset.webdataset(file)]

    assert ours == theirs(file)
    assert [sample["__key__"] for sample in ours][:2] == ["a", "d/b"]


def test_a_hidden_file_in_a_folder_is_no_sample_though_webdataset_makes_one_of_it(tmp_path):
    with tarfile.open(tmp_path / "f.tar", "w") as tar:
        for name in ("d/._a.jpg", "d/a.jpg"):
            tar.addfile(tarfile.TarInfo(name))

    assert [each["__key__"] for each in Dataset.webdataset(tmp_path / "f.tar")] == ["d/a"]
    assert [each["__key__"] for each in theirs(tmp_path / "f.tar")] == ["d/", "d/a"]
