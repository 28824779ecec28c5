"""How fast a store is."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.autocache.store_speed import Curve, store_speed
from penstock.errors import DatasetError

CURVE = Curve(((10.0, 1.0), (110.0, 2.0), (210.0, 4.0)))


@pytest.mark.parametrize(
    ("nbytes", "seconds"), [(1, 1), (10, 1), (60, 1.5), (110, 2), (160, 3), (410, 8)]
)
def test_a_time_is_on_the_line_through_the_nearest_points(nbytes, seconds):
    assert CURVE.seconds(nbytes) == pytest.approx(seconds)


@given(st.lists(st.floats(0, 10), min_size=3, max_size=3), st.floats(0, 1e9))
def test_no_time_is_negative_however_the_trials_vary(times, nbytes):
    sizes = (4096.0, 1e6, 16e6)

    assert Curve(tuple(zip(sizes, times, strict=True))).seconds(nbytes) >= 0


def test_a_trial_measures_and_leaves_nothing(tmp_path):
    pytest.importorskip("pyarrow")
    speed = store_speed(str(tmp_path / "kept"))

    assert 0 < speed.read.seconds(4096) < speed.read.seconds(16 << 20)
    assert 0 < speed.write.seconds(4096) < speed.write.seconds(16 << 20)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_trial_deletes_the_files_of_killed_ones_and_no_others(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("penstock.autocache.store_speed._TRIALS", ((4, 1), (8, 1)))
    young, old = f"trial-{time.time():.0f}-ab", "trial-1700000000-ab"
    others = {young, f".{young}.cd.part", "map-0a1b2c3d"}
    for name in (old, f".{old}.cd.part", *others):
        (tmp_path / name).write_text("")

    store_speed(str(tmp_path))

    assert {path.name for path in tmp_path.iterdir()} == others


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "file").write_text("")

    with pytest.raises(DatasetError, match="cannot be written"):
        store_speed(str(tmp_path / "file" / "kept"))
