import msgspec
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, MissingFile, VersionMismatch
from penstock.protocol.recording import SaveStage
from penstock.saved.chunks import ChunkContents
from penstock.saved.manifest import Manifest, SavedVersion, SavedVersions, SaveOptions
from penstock.saved.pieces import Piece
from penstock.serialization.fingerprint import outline


@pytest.fixture
def first():
    options = SaveOptions("arrow", "zstd", 1 << 20)
    return SavedVersion(
        Manifest(version=1, save_id="x", outline=outline(Dataset.range(3).node), options=options),
        (),
    )


def chunk(count):
    return ChunkContents(count, 100 * count, 7, ())


def committed(versions, version, number):
    assert versions.commit(version)
    for i in range(2, number + 1):
        version = version.following((chunk(i),), position={"state": i})
        assert versions.commit(version)
    return version


def test_each_version_has_the_chunks_before_it(folder, first):
    versions = SavedVersions("load", folder)
    last = committed(versions, first, 9)

    assert versions.latest() == last
    assert last.manifest.elements == sum(range(2, 10))
    assert [versions.read(n).chunks for n in (1, 2, 5)] == [(), last.chunks[:1], last.chunks[:4]]


def test_long_saves_write_the_whole_list_now_and_then(folder, first):
    versions = SavedVersions("load", folder)
    last = committed(versions, first, 130)
    sizes = [len(folder.read(f"_penstock/v{n:08}.json")) for n in (63, 64, 65, 128, 130)]

    assert versions.latest() == last
    assert versions.read(100).chunks == last.chunks[:99]
    assert sizes[1] > 3 * sizes[0] > 3 * sizes[2] / 2
    assert sizes[3] > 5 * sizes[4]


def test_pieces_are_read_behind_the_chunks_until_a_later_version_replaces_them(folder, first):
    versions = SavedVersions("load", folder)
    three = tuple(Piece(number, chunk(number)) for number in (1, 2, 3))
    older = first.following((chunk(9),), pieces=three[:2])
    newer = older.following((chunk(3),), pieces=three[2:])
    for version in (first, older, newer):
        versions.commit(version)

    assert versions.latest() == newer
    assert versions.read(2) == older
    assert [version.manifest.elements for version in (older, newer)] == [12, 15]
    assert older.names[1:] == ("_penstock/new/0000000000000001", "_penstock/new/0000000000000002")
    assert [one.count for one in newer.contents] == [9, 3, 3]


def test_a_version_is_committed_once(folder, first):
    versions = SavedVersions("load", folder)
    versions.commit(first)

    assert versions.commit(first.following((chunk(1),)))
    assert not versions.commit(first.following((chunk(2),)))
    assert versions.latest().manifest.elements == 1


def test_whoever_follows_finds_the_next_versions_without_a_listing(folder, first, monkeypatch):
    versions = SavedVersions("load", folder)
    known = committed(versions, first, 3)
    last = known.following((chunk(1),), stage=SaveStage.COMPLETE)
    versions.commit(last)
    monkeypatch.setattr(folder, "names", None)

    assert versions.latest(known) == last
    assert versions.latest(last) is last


def test_a_listing_that_lags_behind_hides_no_version(folder, first, monkeypatch):
    versions = SavedVersions("load", folder)
    last = committed(versions, first, 5)
    monkeypatch.setattr(folder, "names", lambda _: ["v00000002.json", "other", "vx.json"])

    assert versions.latest() == last


def test_versions_that_cannot_be_read_are_errors(folder, first):
    versions = SavedVersions("load", folder)
    assert versions.latest() is None
    with pytest.raises(MissingFile, match="has no version 3: leave out at="):
        versions.read(3)

    newer = msgspec.to_builtins(first.manifest) | {"penstock": 9}
    folder.create("_penstock/v00000001.json", msgspec.json.encode(newer))
    with pytest.raises(VersionMismatch, match="has the format 9, and this Penstock reads up to 1"):
        versions.latest()

    folder.write("_penstock/v00000001.json", b'{"version": "x"}')
    with pytest.raises(DatasetError, match=r"v00000001.json is no manifest"):
        versions.latest()
