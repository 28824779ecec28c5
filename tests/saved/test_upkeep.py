"""Which files nobody needs; the command that deletes them is in tests/cluster/cli/test_saves.py."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.protocol.recording import SaveStage
from penstock.saved import upkeep
from penstock.saved.folder import folder_of
from penstock.saved.manifest import Manifest, SavedVersion, SavedVersions, SaveOptions
from penstock.saved.upkeep import leftovers, too_many
from penstock.serialization.fingerprint import outline

HOUR, DAY = 3600.0, 86_400.0
NOW = 1000 * DAY


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(upkeep.time, "time", lambda: NOW)


def version(written, nbytes, *, is_cache, stage=SaveStage.COMPLETE):
    options = SaveOptions("arrow", "zstd", 1 << 20)
    return SavedVersion(
        Manifest(
            version=1,
            save_id="x",
            outline=outline(Dataset.range(3).node),
            options=options,
            written=written,
            nbytes=nbytes,
            is_cache=is_cache,
            stage=stage,
        ),
        (),
    )


VERSIONS = st.lists(
    st.builds(
        version,
        st.floats(0, NOW),
        st.integers(0, 1000),
        is_cache=st.booleans(),
        stage=st.sampled_from(SaveStage),
    ),
    max_size=8,
)


@given(VERSIONS, st.none() | st.floats(0, NOW), st.none() | st.integers(0, 4000))
def test_the_oldest_caches_go_until_the_bounds_hold_and_no_save_goes(found, seconds, most):
    removed = too_many(found, seconds, most)
    caches = {
        number
        for number, one in enumerate(found)
        if one.manifest.is_cache and one.manifest.stage is not SaveStage.REMOVED
    }
    kept = caches - set(removed)

    assert set(removed) <= caches
    ages = {number: NOW - found[number].manifest.written for number in caches}
    if most is not None:
        assert sum(found[number].manifest.nbytes for number in kept) <= most
    if seconds is not None:
        assert all(ages[number] <= seconds for number in kept)
    assert all(ages[one] <= ages[other] for one in kept for other in removed)
    if seconds is None and most is None:
        assert not removed


@pytest.fixture
def replaced(tmp_path):
    """A folder where four datasets replaced each other, and when each was complete."""

    def at(hours_ago):
        path = tmp_path / "saved"
        for count in range(1, 5):
            Dataset.range(100 * count).save(path, overwrite=True)
        folder = folder_of("test", str(path))
        versions = SavedVersions("test", folder)
        newest = versions.latest()
        numbers = [newest.manifest.version]
        while before := versions.read(numbers[-1]).manifest.replaces:
            numbers.append(before)
        for number, hours in zip(reversed(numbers), hours_ago, strict=True):
            manifest = versions.read(number).manifest
            dated = msgspec.structs.replace(manifest, written=NOW - hours * HOUR)
            folder.write(dated.name, msgspec.json.encode(dated))
        return folder, versions.latest()

    return at


@pytest.mark.parametrize(
    ("hours_ago", "kept"),
    [((9, 8, 7, 6), 1), ((9, 8, 7, 0.5), 2), ((9, 8, 0.9, 0.5), 3), ((0.9, 0.8, 0.7, 0.5), 4)],
)
def test_a_dataset_is_kept_for_an_hour_after_the_next_one_was_complete(replaced, hours_ago, kept):
    folder, newest = replaced(hours_ago)

    for name in leftovers(folder, newest):
        folder.delete(name)
    assert len(folder.names("data")) == kept
    assert leftovers(folder, newest) == []
    assert list(Dataset.load(folder.path)) == list(range(400))


def test_a_crash_in_between_leaves_nothing_that_the_next_call_does_not_find(replaced):
    folder, newest = replaced((9, 8, 7, 6))
    names = leftovers(folder, newest)

    for count, name in enumerate(names, 1):
        folder.delete(name)
        assert leftovers(folder, newest) == names[count:]
        assert list(Dataset.load(folder.path)) == list(range(400))
