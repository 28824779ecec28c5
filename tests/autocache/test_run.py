"""Passes with autocache: the same elements and states as without, and what is kept."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import threading
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.autocache import plan, run
from penstock.autocache.store_speed import Curve, StoreSpeed
from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, StateError, TransformError
from penstock.explanation.ask import explain
from penstock.options import AutocacheOptions, Options
from tests.storage.conftest import bucket

__all__ = ["bucket"]

pytest.importorskip("pyarrow")

FREE, DEAR = (Curve(((1.0, cost), (2.0, cost))) for cost in (0.0, 1e6))


@pytest.fixture(autouse=True)
def free_store(monkeypatch):
    """A store that takes no time, so that the elements of the last operator are kept."""
    monkeypatch.setattr(plan, "store_speed", lambda _: StoreSpeed(FREE, FREE))
    monkeypatch.setattr(run, "MOST", 4)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a folder" / "kept"


class Noted:
    """A dear function that notes its calls in a file: all its objects have one fingerprint."""

    def __init__(self, path):
        self.path = str(path)

    def __call__(self, x):
        with open(self.path, "a") as file:
            file.write(f"{x} ")
        time.sleep(0.005)  # longer than to read an element, so that the choice stays
        return x * 2

    @property
    def calls(self):
        path = Path(self.path)
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def noted(tmp_path):
    return Noted(tmp_path / "calls")


def kept(dataset, path, **limits):
    return dataset.with_options(Options(autocache=AutocacheOptions(path=path, **limits)))


def plain(elements):
    return [np.asarray(element).tolist() for element in elements]


def manifests(path):
    return sorted(path.rglob("v*.json")) if path.exists() else []


SHAPES = {
    "map": lambda ds: ds.map(lambda x: x + 1),
    "filter": lambda ds: ds.filter(lambda x: x % 3 > 0),
    "flat_map": lambda ds: ds.flat_map(lambda x: Dataset.range(x, x + 2)),
    "batch": lambda ds: ds.batch(3),
    "options in the middle": lambda ds: (
        ds.map(lambda x: x + 1).with_options(Options(threads=2)).batch(2)
    ),
    "prefetch": lambda ds: ds.map(lambda x: x + 1, 2).prefetch(2),
    "repeat": lambda ds: ds.map(lambda x: -x).repeat(3),
    "zip": lambda ds: Dataset.zip((ds, ds.map(lambda x: x + 1))).map(lambda a, b: a * b),
    "shuffle": lambda ds: ds.map(lambda x: -x).shuffle(5, seed=1),
    "take": lambda ds: ds.map(lambda x: -x).take(7),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_each_pass_has_the_elements_that_it_has_without(shape, path):
    made = SHAPES[shape](Dataset.range(20))

    expected = plain(made) if shape != "shuffle" else None
    dataset = kept(made, path)

    for _ in range(3):
        found = plain(dataset)
        assert (expected or sorted(plain(Dataset.range(20).map(lambda x: -x)))) == (
            found if expected else sorted(found)
        )


def test_later_passes_and_processes_call_no_function_before_the_cut(path, noted):
    dataset = kept(Dataset.range(20).map(noted).batch(3), path)
    first = plain(dataset)
    calls = len(noted.calls)

    again = plain(dataset)
    plan._memories.clear()  # as in another process
    other = plain(kept(Dataset.range(20).map(noted).batch(3), path))

    assert first == again == other
    assert len(noted.calls) - calls <= 2 * 3  # one batch in each pass is made again


def test_a_dear_store_keeps_nothing(path, monkeypatch):
    monkeypatch.setattr(plan, "store_speed", lambda _: StoreSpeed(DEAR, DEAR))
    dataset = kept(Dataset.range(20).map(lambda x: x + 1), path)

    assert [plain(dataset) for _ in range(2)] == 2 * [list(range(1, 21))]
    assert not manifests(path)


def test_one_pass_alone_keeps_nothing(path):
    assert plain(kept(Dataset.range(9).map(lambda x: x), path, passes=1)) == list(range(9))
    assert not manifests(path)


@given(st.data())
def test_a_state_of_any_pass_continues_at_its_element(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("kept")
    made = SHAPES[data.draw(st.sampled_from(["map", "filter", "batch", "repeat"]))]
    dataset = kept(made(Dataset.range(20)), folder)
    for _ in range(data.draw(st.integers(0, 2))):
        plain(dataset)
    count = data.draw(st.integers(0, 8))

    with iter(dataset) as elements:
        head = plain(islice(elements, count))
        state = elements.state()
    match data.draw(st.sampled_from(["same", "another process", "no folder"])):
        case "another process":
            plan._memories.clear()
        case "no folder":
            plan._memories.clear()
            shutil.rmtree(folder)

    assert head + plain(dataset.iterator(state)) == plain(made(Dataset.range(20)))
    shutil.rmtree(folder, ignore_errors=True)


def test_a_pass_that_ends_early_is_continued(path, noted):
    dataset = kept(Dataset.range(20).map(noted), path)
    with iter(dataset) as elements:
        for _ in range(10):
            next(elements)

    assert plain(dataset) == plain(dataset) == [2 * x for x in range(20)]
    assert len(noted.calls) < 20 + 10 + 5, "no element was made in two whole passes"


def test_chance_is_never_kept(path):
    def noisy(x, *, rng):
        return x + rng.random()

    dataset = kept(Dataset.range(20).map(lambda x: 2 * x).map(noisy), path)

    assert plain(dataset) != plain(dataset)
    table = "\n".join(iter(dataset).stats().cuts)
    assert "refused: map(noisy) draws random numbers in each pass" in table


def test_a_function_that_depends_on_more_than_its_input_is_found_and_said_once(
    path, tmp_path, caplog
):
    factor = tmp_path / "factor"
    factor.write_text("1")

    def scaled(x):
        return x * int(Path(factor).read_text())

    dataset = kept(Dataset.range(1, 21).map(scaled), path, passes=9)
    assert plain(dataset) == list(range(1, 21))
    factor.write_text("3")

    with caplog.at_level(logging.WARNING, "penstock"):
        plain(dataset)
        assert plain(dataset) == list(range(3, 63, 3))
        elements = iter(dataset)
        assert plain(elements) == list(range(3, 63, 3))

    (warning,) = [each for each in caplog.messages if each.startswith("autocache")]
    assert "map(scaled)" in warning
    assert elements.stats().cuts[-1].endswith(" kept elements were made again, 1 differ")
    plan._memories.clear()
    assert plain(dataset) == list(range(3, 63, 3)), "another process uses it"


def test_with_max_bytes_a_pipeline_of_unknown_size_is_kept_from_the_second_pass_on(path):
    def is_even(x):
        until = time.thread_time() + 0.001  # so that the choice is clear
        while time.thread_time() < until:
            pass
        return x % 2 == 0

    dataset = kept(Dataset.range(20).filter(is_even), path, max_bytes=1000)

    plain(dataset)
    assert not list(path.glob("filter-*"))
    plain(dataset)
    assert list(path.glob("filter-*"))


def test_more_than_max_bytes_is_not_kept(path):
    dataset = kept(Dataset.range(20).map(lambda x: np.zeros(100)), path, max_bytes=200)

    for _ in range(2):
        assert len(plain(dataset)) == 20
    for manifest in manifests(path):
        assert "range" in str(manifest)


def test_a_folder_that_cannot_be_written_is_said_once_and_elements_are_made(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    dataset = kept(Dataset.range(20).map(lambda x: x), tmp_path / "file" / "kept")

    with caplog.at_level(logging.WARNING, "penstock"):
        assert plain(dataset) == plain(dataset) == list(range(20))

    assert len([each for each in caplog.messages if "autocache: nothing is kept" in each]) == 1


def test_errors_of_elements_are_those_of_a_pipeline_without(path):
    def bad(x):
        if x % 7 == 2:
            raise ValueError(f"{x} is bad")
        return x

    dataset = kept(Dataset.range(20).map(bad), path)
    for _ in range(3):
        elements, found, errors = iter(dataset), [], 0
        while True:
            try:
                found.append(int(next(elements)))
            except StopIteration:
                break
            except TransformError:
                errors += 1
        assert (found, errors) == ([x for x in range(20) if x % 7 != 2], 3)


def test_elements_that_no_file_can_hold_are_not_kept(path):
    dataset = kept(Dataset.range(20).map(lambda x: ()), path)

    assert list(dataset) == list(dataset) == 20 * [()]
    assert "without any part" in "\n".join(iter(dataset).stats().cuts)


def test_explain_has_the_table_of_cuts(path):
    elements = iter(kept(Dataset.range(20).map(lambda x: x + 1), path))
    list(elements)

    assert "* after map(<lambda>)" in str(explain(elements))
    assert "keep nothing: " in str(explain(elements))


def test_a_state_with_a_cut_needs_the_option(path):
    made = Dataset.range(20).map(lambda x: x + 1)
    elements = iter(kept(made, path))
    list(elements)

    with pytest.raises(StateError, match=r"taken with Options\(autocache=...\)"):
        made.with_options(Options(threads=1)).iterator(elements.state())


@pytest.mark.parametrize("cut", [99, "x", -7, 1.5])
def test_a_state_with_no_such_cut_is_refused(path, cut):
    dataset = kept(Dataset.range(20).map(lambda x: x + 1), path)
    elements = iter(dataset)
    list(elements)

    with pytest.raises(StateError, match="its cut is"):
        dataset.iterator({**elements.state(), "cut": cut})


def test_a_save_keeps_nothing_and_writes_each_element_once(path, tmp_path):
    kept(Dataset.range(20).map(lambda x: x + 1), path).save(tmp_path / "saved")

    assert plain(Dataset.load(tmp_path / "saved")) == list(range(1, 21))
    assert not manifests(path)


def test_workers_refuse_it_with_a_remedy(path):
    dataset = Dataset.range(4)

    with pytest.raises(DatasetError, match="put with_options.* directly before distribute"):
        kept(dataset.distribute("distributed_epoch", "grpc://localhost:1"), path)


def test_chance_after_the_cut_gives_each_element_once_also_in_the_pass_that_begins_again(path):
    made = Dataset.range(50).map(lambda x: -x).shuffle(9)
    dataset = kept(made, path)

    first, second = plain(dataset), plain(dataset)

    assert sorted(first) == sorted(second) == [-x for x in range(49, -1, -1)]
    assert first != second
    assert list(path.glob("map-*"))


def test_an_endless_pipeline_is_kept_below_repeat_and_checked(path, noted):
    dataset = kept(Dataset.range(20).map(noted).repeat(), path)

    with iter(dataset) as elements:
        assert plain(islice(elements, 100)) == 5 * [2 * x for x in range(20)]
        cuts = "\n".join(elements.stats().cuts)
    assert len(noted.calls) < 20 + 10 + 4
    assert "* after map(Noted)" in cuts
    assert "kept elements were made again, 0 differ" in cuts


@pytest.mark.parametrize("call", [3, 6, 9, 30])
def test_an_interrupt_loses_no_element_wherever_it_comes(path, call):
    calls = []

    def interrupted(x):
        calls.append(x)
        if len(calls) == call:
            raise KeyboardInterrupt
        return x

    elements, found = iter(kept(Dataset.range(20).map(interrupted), path)), []
    while True:
        try:
            found.append(int(next(elements)))
        except KeyboardInterrupt:
            continue
        except StopIteration:
            break
    assert found == list(range(20))


def test_a_folder_that_is_deleted_in_a_pass_costs_no_element(path):
    dataset = kept(Dataset.range(50).map(lambda x: -x), path)
    plain(dataset)

    elements = iter(dataset)
    head = plain(islice(elements, 5))
    shutil.rmtree(path)
    assert head + plain(elements) == [-x for x in range(50)]
    assert plain(dataset) == [-x for x in range(50)]


def test_iterators_that_are_not_read_count_as_no_pass(path):
    dataset = kept(Dataset.range(20).map(lambda x: -x), path, passes=2)
    for _ in range(5):
        iter(dataset).close()

    plain(dataset)
    assert manifests(path)


def test_elements_are_kept_in_an_object_store(bucket, noted):
    pytest.importorskip("obstore")
    dataset = kept(Dataset.range(20).map(noted), "s3://data/some folder/kept")

    assert plain(dataset) == plain(dataset) == [2 * x for x in range(20)]
    assert len(noted.calls) < 20 + 10 + 3
    assert any("/map-" in name and name.endswith(".arrow") for name in bucket.objects)


def test_several_threads_read_one_pass(path):
    elements, found = iter(kept(Dataset.range(500).map(lambda x: x + 1), path)), []

    def read():
        found.extend(map(int, elements))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1, 501))


@pytest.mark.slow
def test_a_process_that_is_killed_is_continued_by_the_next_one(path, noted):
    code = f"""
from tests.autocache.test_run import Noted, kept, plan, run, StoreSpeed, FREE
from penstock.dataset.dataset import Dataset
from penstock.saved import write_through
import os
plan.store_speed, run._MOST = lambda _: StoreSpeed(FREE, FREE), 4
write_through._CHUNK_SECONDS = -1.0
for number, _ in enumerate(kept(Dataset.range(200).map(Noted({noted.path!r})), {str(path)!r})):
    if number == 150:
        os.kill(os.getpid(), 9)
"""
    died = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=False)
    assert died.returncode == -9
    before = len(noted.calls)

    dataset = kept(Dataset.range(200).map(Noted(noted.path)), path)
    assert plain(dataset) == plain(dataset) == [2 * x for x in range(200)]
    assert len(noted.calls) - before < 200, "the elements that were written are not made again"
