"""`rebatch`: the same rows in batches of another size."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, ElementError
from penstock.graph.node import UNKNOWN


def test_batches_of_all_sizes_are_cut(check_states):
    sizes = [0, 3, 0, 0, 1, 11, 0, 2, 0, 4, 0]
    rows = np.concatenate([10 * i + np.arange(size) for i, size in enumerate(sizes)])
    expected = [rows[i : i + 4] for i in range(0, len(rows), 4)]

    check_states(
        lambda: Dataset.range(11).map(lambda i: 10 * i + np.arange(sizes[i])).rebatch(4), expected
    )


def test_nests_and_text_are_cut_leaf_by_leaf():
    def make(n):
        return {"m": np.full((3, 2), n), "t": np.array([f"{n}{i}" for i in range(3)], object)}

    first, second = Dataset.range(2).map(make).rebatch(4)

    assert first["m"][:, 0].tolist() == [0, 0, 0, 1]
    assert first["t"].tolist() == ["00", "01", "02", "10"]
    assert second["t"].tolist() == ["11", "12"]


def test_a_part_does_not_keep_its_batch_in_memory_and_a_whole_batch_is_handed_on():
    batch = np.arange(8)

    parts = list(Dataset.range(1).map(lambda _: batch).rebatch(4))
    (whole,) = Dataset.range(1).map(lambda _: batch).rebatch(8)

    assert all(part.base is None for part in parts)
    assert whole is batch


@pytest.mark.parametrize(
    "other",
    [
        np.zeros(3, np.float32),
        np.zeros((3, 2)),
        (np.zeros(3),),
        np.array(["a", "b", "c"], object),
    ],
)
def test_batches_that_do_not_go_together_name_both_and_cost_one_output(check_states, other):
    def make():
        return Dataset.range(6).map(lambda n: other if n == 3 else np.zeros(3)).rebatch(4)

    outcome = check_states(make)

    assert [type(x).__name__ for x in outcome] == ["tuple"] * 2 + ["Failure"] + ["tuple"] * 2
    with pytest.raises(ElementError, match="rebatch: .* is followed by"):
        list(make())


def test_text_of_two_kinds_does_not_go_together():
    texts = [np.array(["a"], object), np.array([b"a"], object)]

    with pytest.raises(ElementError, match="rebatch"):
        list(Dataset.range(2).map(lambda n: texts[n]).rebatch(2))


def test_a_batch_without_rows_is_an_error_that_leaves_the_output_open(check_states):
    def make():
        return Dataset.range(6).map(lambda n: n if n in (0, 2) else np.full(3, n)).rebatch(4)

    outcome = check_states(make)

    values = [x[2] for x in outcome if isinstance(x, tuple)]
    assert values == ["[1, 1, 1, 3]", "[3, 3, 4, 4]", "[4, 5, 5, 5]"]
    assert len(outcome) == 5


def test_errors_of_the_input_leave_the_output_open(check_states):
    def check(n):
        if n in (1, 2, 5):
            raise ValueError(f"{n} is bad")
        return np.full(3, n)

    outcome = check_states(lambda: Dataset.range(6).map(check).rebatch(5))

    assert [x[2] for x in outcome if isinstance(x, tuple)] == ["[0, 0, 0, 3, 3]", "[3, 4, 4, 4]"]


def test_a_restored_run_makes_no_batch_again_that_is_used_up(counted):
    fn = counted(lambda n: np.full(6, n))
    dataset = Dataset.range(20).map(fn).rebatch(4)
    for taken in range(1, 20):
        with iter(dataset) as it:
            for _ in range(taken):
                next(it)
            state = it.state()
        fn.calls.clear()

        with dataset.iterator(state) as it:
            next(it)
        assert min(fn.calls) == taken * 4 // 6


def test_a_bad_size_is_named():
    with pytest.raises(DatasetError, match="rebatch: batch_size"):
        Dataset.range(3).batch(2).rebatch(0)


def test_cardinality_is_not_known():
    assert Dataset.range(4).batch(2).rebatch(3).cardinality() == UNKNOWN
