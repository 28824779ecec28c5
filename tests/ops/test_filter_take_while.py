import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, TransformError
from penstock.graph.node import UNKNOWN


def test_what_would_hold_again_later_is_not_taken():
    seen = list(Dataset.range(10).take_while(lambda x: x % 4 != 3))

    assert seen == [0, 1, 2]


def test_nothing_behind_the_first_no_is_read_or_asked(counted):
    made = counted(lambda x: x)
    asked = counted(lambda x: x < 5)

    assert len(list(Dataset.range(1000).map(made).take_while(asked))) == 5
    assert made.calls == asked.calls == [0, 1, 2, 3, 4, 5]


def test_behind_a_restored_end_nothing_is_asked(counted):
    asked = counted(lambda x: x < 3)
    it = iter(Dataset.range(1000).take_while(asked))
    list(it)
    state = it.state()
    asked.calls.clear()

    assert list(Dataset.range(1000).take_while(asked).iterator(state)) == []
    assert asked.calls == []


def test_a_restored_one_asks_only_for_what_was_not_delivered(counted):
    asked = counted(lambda x: x < 6)
    it = iter(Dataset.range(1000).take_while(asked))
    for _ in range(4):
        next(it)
    state = it.state()
    asked.calls.clear()

    assert list(Dataset.range(1000).take_while(asked).iterator(state)) == [4, 5]
    assert asked.calls == [4, 5, 6]


def test_errors_belong_to_their_elements(check_states):
    def picky(x):
        if x in (0, 3, 4):
            raise ValueError("no")
        return x < 8

    check_states(
        lambda: Dataset.range(20).take_while(picky),
        [
            TransformError("take_while(picky)", 0, "ValueError: no"),
            1,
            2,
            TransformError("take_while(picky)", 3, "ValueError: no"),
            TransformError("take_while(picky)", 4, "ValueError: no"),
            5,
            6,
            7,
        ],
    )


def test_an_error_of_the_input_does_not_end_it(check_states):
    def fussy(x):
        if x == 2:
            raise ValueError("not two")
        return x

    check_states(
        lambda: Dataset.range(9).map(fussy).take_while(lambda x: x < 5),
        [0, 1, TransformError("map(fussy)", 2, "ValueError: not two"), 3, 4],
    )


def test_tuples_are_unpacked_and_arrays_of_one_bool_will_do():
    pairs = Dataset.range(5).map(lambda x: (x, np.full(3, x)))

    seen = list(pairs.take_while(lambda x, row: (row < 3).all()))

    assert [int(x) for x, _ in seen] == [0, 1, 2]


def test_an_answer_that_is_no_bool_is_an_error():
    it = iter(Dataset.range(5).take_while(lambda x: int(x)))

    with pytest.raises(TransformError, match=r"take_while.*must return one bool, not int '0'"):
        next(it)


def test_a_predicate_must_be_callable():
    with pytest.raises(DatasetError, match="take_while: predicate must be callable, not 5"):
        Dataset.range(5).take_while(5)


@pytest.mark.parametrize(("size", "cardinality"), [(0, 0), (5, UNKNOWN)])
def test_how_many_there_are_only_reading_tells(size, cardinality):
    assert Dataset.range(size).take_while(lambda x: True).cardinality() == cardinality
