import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import ConfigError, DatasetError
from penstock.saved.signature import VARIABLE

pytest.importorskip("pyarrow")


@pytest.fixture
def with_key(tmp_path, monkeypatch):
    """Gives this process a key, by its name; None takes it away."""

    def give(name, size=32):
        if name is None:
            monkeypatch.delenv(VARIABLE)
            return
        file = tmp_path / name
        file.write_bytes(name.encode() * size)
        file.chmod(0o600)
        monkeypatch.setenv(VARIABLE, str(file))

    return give


def test_a_signed_dataset_is_read_with_the_key_and_without_one(tmp_path, with_key):
    with_key("a")
    Dataset.range(9).save(tmp_path / "saved", chunk_bytes=24)
    assert list(Dataset.load(tmp_path / "saved")) == list(range(9))

    with_key(None)
    assert list(Dataset.load(tmp_path / "saved")) == list(range(9))


def test_a_manifest_of_another_key_or_of_none_is_refused(tmp_path, with_key):
    Dataset.range(9).save(tmp_path / "unsigned")
    with_key("a")
    Dataset.range(9).save(tmp_path / "saved")
    with pytest.raises(DatasetError, match=r"v0+\d.json is unsigned: someone without this key"):
        Dataset.load(tmp_path / "unsigned")

    with_key("b")
    with pytest.raises(DatasetError, match="has another signature than the key in PENSTOCK_SAVES"):
        Dataset.load(tmp_path / "saved")
    with pytest.raises(DatasetError, match="has another signature than the key in PENSTOCK_SAVES"):
        Dataset.range(9).save(tmp_path / "saved")


def test_no_byte_of_a_signed_manifest_can_change(tmp_path, with_key):
    with_key("a")
    Dataset.range(9).save(tmp_path / "saved")
    manifest = max((tmp_path / "saved" / "_penstock").glob("v*"))
    text = manifest.read_bytes()
    for place in range(len(text)):
        manifest.write_bytes(text[:place] + bytes([text[place] ^ 1]) + text[place + 1 :])

        with pytest.raises(DatasetError):
            Dataset.load(tmp_path / "saved")


def test_a_version_cannot_take_the_place_of_another(tmp_path, with_key):
    with_key("a")
    Dataset.range(9).save(tmp_path / "saved", chunk_bytes=24)
    first, *_, last = sorted((tmp_path / "saved" / "_penstock").glob("v*"))
    last.write_bytes(first.read_bytes())

    with pytest.raises(DatasetError, match="has the manifest of version 1"):
        Dataset.load(tmp_path / "saved")


def test_a_key_must_be_long_and_private(tmp_path, with_key):
    with_key("a", size=31)
    with pytest.raises(ConfigError, match="has 31 bytes, and a key has at least 32: make one with"):
        Dataset.range(2).save(tmp_path / "saved")
    with_key("a")
    (tmp_path / "a").chmod(0o644)
    with pytest.raises(ConfigError, match="chmod"):
        Dataset.range(2).save(tmp_path / "saved")
