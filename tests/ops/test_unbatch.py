"""`unbatch`: rows, their types, and batches that have none."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import ElementError
from penstock.graph.node import INFINITE, UNKNOWN


class Pair(NamedTuple):
    left: Any
    right: Any


def test_batches_of_all_sizes_and_none_follow_one_another(check_states):
    sizes = [0, 3, 0, 0, 1, 5, 0, 2, 0]
    rows = [10 * i + k for i, size in enumerate(sizes) for k in range(size)]

    check_states(
        lambda: Dataset.range(9).map(lambda i: 10 * i + np.arange(sizes[i])).unbatch(), rows
    )


def test_rows_of_a_nest_are_nests():
    nest = {"n": np.arange(2), "pair": Pair(np.eye(2), np.array(["a", "b"], object)), "t": ()}

    rows = list(Dataset.range(1).map(lambda _: nest).unbatch())

    assert [row["n"] for row in rows] == [0, 1]
    assert [type(row["pair"]) for row in rows] == [Pair, Pair]
    assert [row["pair"].left.tolist() for row in rows] == [[1, 0], [0, 1]]
    assert [row["pair"].right for row in rows] == ["a", "b"]
    assert [type(row["pair"].right) for row in rows] == [str, str]
    assert [row["t"] for row in rows] == [(), ()]


def test_rows_do_not_keep_the_batch_in_memory_nor_write_to_it():
    batch = np.zeros((4, 3))
    structured = np.zeros(4, [("a", "i4")])

    rows = list(Dataset.range(1).map(lambda _: (batch, structured)).unbatch())
    rows[0][0][:] = 1
    rows[0][1]["a"] = 1

    assert batch.sum() == 0
    assert structured["a"].sum() == 0
    assert all(row.base is None for row, _ in rows)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: np.int64(3),
        lambda: "text",
        lambda: (np.zeros(2), np.zeros(3)),
        lambda: (np.zeros(2), np.int64(1)),
        lambda: (),
    ],
)
def test_a_batch_without_common_rows_is_an_error_of_its_own(check_states, bad):
    def make():
        return Dataset.range(4).map(lambda n: bad() if n == 2 else np.arange(2) + 10 * n).unbatch()

    outcome = check_states(make)

    assert [type(x).__name__ for x in outcome] == ["tuple"] * 4 + ["Failure"] + ["tuple"] * 2
    with pytest.raises(ElementError, match="unbatch: every part of an element must be an array"):
        list(make())


def test_a_restored_run_makes_the_current_batch_again_and_no_other(counted):
    fn = counted(lambda n: np.arange(4) + 4 * n)
    dataset = Dataset.range(20).map(fn).unbatch()
    for taken in range(1, 13):
        with iter(dataset) as it:
            for _ in range(taken):
                next(it)
            state = it.state()
        fn.calls.clear()

        with dataset.iterator(state) as it:
            assert next(it) == taken
        assert fn.calls[0] == taken // 4


def test_cardinality_is_not_known():
    assert Dataset.range(4).batch(2).unbatch().cardinality() == UNKNOWN
    assert Dataset.range(4).batch(2).repeat().unbatch().cardinality() == INFINITE
