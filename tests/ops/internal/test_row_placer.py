"""Results of processes, written into the batch behind them: the same elements as from threads."""

from __future__ import annotations

import os
import random
import signal

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.element import nbytes
from penstock.engine.rows import Rows
from penstock.errors import ElementError, TransformError
from penstock.executors import transfer
from penstock.executors.batch_memory import BatchMemory
from penstock.ops.internal import row_placer
from penstock.ops.internal.row_placer import MOST_LAYOUTS, RowPlacer

pytestmark = pytest.mark.usefixtures("function_processes_end")


@pytest.fixture
def small(monkeypatch):
    """Place small batches, too."""
    monkeypatch.setattr(row_placer, "LEAST_NBYTES", 1)


def nest(x):
    return {"a": np.full((2, 3), x, np.float32), "b": (x, np.int8(x % 100))}


def fails_at(*bad):
    def fails(x):
        if x in bad:
            raise ValueError(f"{x} is bad")
        return nest(x)

    return fails


def changes(x):
    """Another shape from 9 on, and another structure for 20 alone."""
    return "text" if x == 20 else np.full(2 if x < 9 else 3, x)


def outcomes(dataset):
    out, it = [], iter(dataset)
    with it:
        while True:
            try:
                out.append(next(it))
            except StopIteration:
                return out
            except (ElementError, TransformError) as exc:
                out.append(str(exc).partition("\n")[0])


def batches(fn, executor, size, *, n=40, drop=False):
    return Dataset.range(n).map(fn, 2, executor=executor).batch(size, drop_remainder=drop)


@pytest.mark.quick(1)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("size", "drop"), [(3, False), (4, True)])
def test_states_are_exact(check_states, size, drop):
    check_states(lambda: batches(fails_at(5, 6, 11), "process", size, n=14, drop=drop), blocks=(2,))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("fn", [nest, fails_at(0, 7, 8, 30), changes, np.int32, str])
def test_elements_order_and_errors_are_those_of_threads(fn):
    for size in (1, 5, 16):
        expected, found = (outcomes(batches(fn, how, size)) for how in ("thread", "process"))
        np.testing.assert_equal(found, expected)


@pytest.mark.usefixtures("small")
def test_random_errors_and_sizes_change_nothing():
    chance = random.Random(5)
    for _ in range(6):
        bad, size = chance.sample(range(60), chance.randrange(8)), chance.randrange(1, 12)
        ignored = [
            Dataset.range(60).map(fails_at(*bad), 2, executor=how).ignore_errors().batch(size)
            for how in ("thread", "process")
        ]
        np.testing.assert_equal(*map(list, ignored))


@pytest.mark.usefixtures("small")
def test_map_batches_in_processes_writes_there_too():
    made = [
        list(Dataset.range(40).map_batches(lambda x: (x, 2 * x), 2, executor=how).batch(6))
        for how in ("thread", "process")
    ]
    np.testing.assert_equal(*made)


@pytest.fixture
def fetched(monkeypatch):
    """The elements that were made in this process of what others wrote."""
    made = []

    def spied(frames, shared, get=transfer.get):
        out = get(frames, shared)
        made.extend(out)
        return out

    monkeypatch.setattr(transfer, "get", spied)
    return made


def image(x):
    return np.full((64, 64), x, np.float32)


def test_no_element_is_made_in_this_process_once_the_first_are_known(fetched):
    with iter(batches(image, "process", 8, n=400)) as it:
        for k, batch in enumerate(it):
            assert batch[:, 5, 5].tolist() == list(range(8 * k, 8 * k + 8))
            assert batch.flags.writeable
            if k == 10:
                seen = len(fetched)
        assert k == 49
    assert len(fetched) == seen < 88


def test_batches_that_are_kept_stay_as_they_are():
    kept = list(batches(image, "process", 8, n=400))

    assert [batch[:, 0, 0].tolist() for batch in kept] == np.arange(400).reshape(50, 8).tolist()
    assert sum(map(nbytes, kept)) == 400 * 64 * 64 * 4


def test_a_process_that_is_killed_costs_its_element_alone(tmp_path):
    def dies_at_20(x):
        if x == 20 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return image(x)

    found = outcomes(batches(dies_at_20, "process", 8))

    (told,) = (outcome for outcome in found if isinstance(outcome, str))
    assert "20" in told
    assert "SIGKILL" in told
    numbers = [int(x) for batch in found if not isinstance(batch, str) for x in batch[:, 0, 0]]
    assert numbers == [x for x in range(40) if x != 20]


@pytest.fixture
def placer():
    made = RowPlacer(4)
    yield made
    made.close()


def test_what_is_placed_next_begins_where_its_batch_does(placer):
    assert placer.rooms(6) == []
    placer.learn([[image(0)] * 6], 0, [])

    (end, whole) = placer.rooms(5), placer.rooms(5)

    assert [(room.row, room.count) for room in end] == [(2, 2), (0, 3)]
    assert [(room.row, room.count) for room in whole] == [(3, 1), (0, 4)]
    assert whole[0].rows is end[1].rows


def test_a_result_that_is_missing_moves_those_that_are_placed_behind_it(placer):
    placer.rooms(4)
    placer.learn([[image(0)] * 4], 0, [])
    first = placer.rooms(3)

    placer.learn([Rows(first[0].rows, range(2))], 1, first)
    (behind,) = placer.rooms(2)

    assert (behind.row, behind.count) == (2, 2)
    assert behind.rows is not first[0].rows


def test_a_layout_that_never_stays_is_given_up(placer):
    rooms = []
    for length in range(MOST_LAYOUTS + 3):
        placer.learn([[np.zeros(20_000 + length)]], 0, rooms)
        rooms = placer.rooms(4)

    assert rooms == []


def test_small_batches_are_not_placed(placer):
    placer.learn([[np.int64(1)]], 0, [])

    assert placer.rooms(4) == []


def test_more_calls_under_way_get_more_places(placer, monkeypatch):
    monkeypatch.setattr(row_placer, "FIRST_ROWS", 0)
    placer.learn([[image(0)]], 0, [])
    under_way = [placer.rooms(4) for _ in range(2000)]

    assert under_way.count([]) < 10


def test_without_memory_results_come_as_elements(placer, monkeypatch, caplog):
    def no_memory(*_):
        raise OSError("no memory file could be made")

    monkeypatch.setattr(row_placer, "BatchMemory", no_memory)
    with caplog.at_level("INFO", "penstock.map"):
        for _ in range(3):
            placer.learn([[image(0)]], 0, [])
            assert placer.rooms(4) == []

    assert caplog.text.count("no memory file could be made") == 1


def test_memory_that_a_fork_may_look_at_is_replaced(placer, monkeypatch):
    placer.learn([[image(0)]], 0, [])
    (before,) = placer.rooms(4)
    monkeypatch.setattr(BatchMemory, "stale", property(lambda self: self is before.rows.memory))

    (after,) = placer.rooms(4)

    assert after.rows.memory is not before.rows.memory
