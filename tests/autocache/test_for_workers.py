"""The cut of a pipeline that workers run: chosen once, and the same for all readers."""

from __future__ import annotations

import pytest

from penstock.autocache import for_workers, plan
from penstock.autocache.for_workers import with_chosen_cut
from penstock.autocache.store_speed import Curve, StoreSpeed
from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError
from penstock.graph.traversal import topological_order
from penstock.options import AutocacheOptions, Options
from penstock.protocol.types import Mode

pytest.importorskip("pyarrow")

FREE, DEAR = (Curve(((1.0, cost), (2.0, cost))) for cost in (0.0, 1e6))


@pytest.fixture(autouse=True)
def free_store(monkeypatch):
    """A store that takes no time, so that the elements of the last operator are kept."""
    monkeypatch.setattr(plan, "store_speed", lambda _: StoreSpeed(FREE, FREE))
    monkeypatch.setattr(for_workers, "MOST", 4)
    monkeypatch.setattr("penstock.autocache.run.MOST", 4)
    monkeypatch.setattr(plan, "_memories", {})


def slow(x):
    return sum(range(20_000)) + x


def chosen(dataset, path, mode=Mode.DYNAMIC, **limits):
    kept = dataset.with_options(Options(autocache=AutocacheOptions(path=path, **limits)))
    root, table = with_chosen_cut(kept.node, mode)
    kept_after = [n.upstream.label for n in topological_order(root) if n.op == "snapshot"]
    return kept_after, table


def test_the_first_reader_chooses_and_others_have_the_same_pipeline(tmp_path, monkeypatch):
    def dataset():
        return Dataset.range(500).map(slow).map(abs)

    kept, table = chosen(dataset(), tmp_path)
    monkeypatch.setattr(for_workers, "_blocks", None)  # nothing is measured again

    assert kept == ["map(abs)"]
    assert [line[0] for line in table[1:]] == [" ", " ", "*", " "]
    assert chosen(dataset(), tmp_path) == (kept, table)


def test_of_two_readers_that_choose_at_once_the_first_one_to_write_wins(tmp_path, monkeypatch):
    dataset, blocks = Dataset.range(500).map(slow), for_workers._blocks

    def overtaken(*args):
        monkeypatch.setattr(for_workers, "_blocks", blocks)
        monkeypatch.setattr(plan, "store_speed", lambda _: StoreSpeed(DEAR, DEAR))
        monkeypatch.setattr(plan, "_memories", {})  # those of another process
        assert chosen(dataset, tmp_path)[0] == []
        monkeypatch.setattr(plan, "store_speed", lambda _: StoreSpeed(FREE, FREE))
        return blocks(*args)

    monkeypatch.setattr(for_workers, "_blocks", overtaken)
    assert chosen(dataset, tmp_path)[0] == []


def test_a_slow_store_keeps_nothing_and_the_choice_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "store_speed", lambda _: StoreSpeed(DEAR, DEAR))

    kept, table = chosen(Dataset.range(500).map(slow), tmp_path)

    assert kept == []
    assert table[-1].startswith("* keep nothing")


def test_a_cut_that_needs_several_splits_is_refused_and_one_before_it_is_chosen(tmp_path):
    batches = Dataset.range(500).map(slow).filter(bool).batch(2)

    kept, table = chosen(batches, tmp_path)
    assert kept == ["filter(bool)"]
    assert "after batch: refused: snapshot: batch keeps something across splits" in table[-2]
    assert chosen(batches, tmp_path, Mode.OFF)[0] == ["batch"]


def test_elements_that_differ_when_they_are_made_twice_are_not_kept(tmp_path):
    count = iter(range(10_000))

    kept, table = chosen(Dataset.range(500).map(slow).map(lambda x: x + next(count)), tmp_path)

    assert kept == ["map(slow)"]
    assert "an element was another one when it was made again" in table[-2]


def test_elements_that_fail_are_left_to_the_job(tmp_path):
    def fails(x):
        if x % 2 == 0:
            raise ValueError("even")
        return slow(x)

    assert chosen(Dataset.range(500).map(fails), tmp_path)[0] == ["map(fails)"]


def test_a_pipeline_that_cannot_be_measured_here_is_an_error_with_the_remedy(tmp_path):
    def fails(x):
        raise ValueError("no device")

    for dataset in (
        Dataset.text_lines(str(tmp_path / "missing.txt")),
        Dataset.range(9).map(fails),
        Dataset.range(0).map(slow),
    ):
        with pytest.raises(DatasetError, match=r"cannot measure the .* put snapshot\(path\) after"):
            chosen(dataset, tmp_path / "kept")


def test_with_max_bytes_a_pass_of_unknown_length_keeps_only_what_is_known_to_fit(tmp_path):
    odd = Dataset.range(500).map(slow).filter(lambda x: x % 2 == 1)

    assert chosen(odd, tmp_path, max_bytes=10**6)[0] == ["map(slow)"]


def test_a_choice_that_cannot_be_read_is_an_error_that_names_the_file(tmp_path):
    chosen(Dataset.range(500).map(slow), tmp_path)
    (file,) = tmp_path.glob("choice-*.json")
    file.write_bytes(file.read_bytes()[:9])

    with pytest.raises(DatasetError, match=rf"{file.name} cannot be read .*: delete it"):
        chosen(Dataset.range(500).map(slow), tmp_path)
