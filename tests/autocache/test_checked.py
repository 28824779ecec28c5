"""Kept elements that are made again."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.autocache.checked import EACH, Checked
from penstock.dataset.dataset import Dataset
from penstock.ops.snapshot import Snapshot

pytest.importorskip("pyarrow")


class Judged(list):
    """A list of what was compared."""

    is_against = False

    def compared(self, number, *, same):
        self.append((number, same))


def checked(made, path, judge):
    return Dataset(Checked(Snapshot(made.node, str(path), None, 1 << 20), judge))


def numbers(dataset):
    return [int(x) for x in dataset]


@pytest.mark.parametrize("count", [1, 5, 2500])
def test_one_of_a_thousand_elements_is_made_again(tmp_path, count):
    made, judge, expected = Dataset.range(count).map(lambda x: -x), Judged(), -(-count // EACH)
    numbers(checked(made, tmp_path, judge))
    assert not judge, "nothing is kept yet"

    assert numbers(checked(made, tmp_path, judge)) == [-x for x in range(count)]
    assert expected - 1 <= len(judge) <= expected
    assert all(same for _, same in judge)


def test_other_passes_compare_other_elements(tmp_path):
    made, judge = Dataset.range(500).map(lambda x: -x), Judged()
    dataset = checked(made, tmp_path, judge)

    for _ in range(6):
        numbers(dataset)
    assert len({number for number, _ in judge}) > 1


def test_elements_without_an_index_are_compared_from_the_first_on(tmp_path):
    made, judge = Dataset.range(4000).filter(lambda x: x % 2 == 0), Judged()
    dataset = checked(made, tmp_path, judge)

    numbers(dataset)
    numbers(dataset)
    assert [number for number, _ in judge][:1] == [0]


def test_equal_elements_are_the_same_to_the_bit(tmp_path):
    judge = Judged()
    made = Dataset.range(9).map(
        lambda x: {
            "nan": np.float32("nan"),
            "text": f"é{x}",
            "raw": b"\x00" * int(x),
            "many": (x, x),
        }
    )
    dataset = checked(made, tmp_path, judge)

    list(dataset)
    list(dataset)
    assert judge
    assert all(same for _, same in judge)


def test_a_state_in_the_middle_goes_on(tmp_path):
    made, judge = Dataset.range(30).map(lambda x: -x), Judged()
    dataset = checked(made, tmp_path, judge)
    numbers(dataset)

    elements = iter(dataset)
    for _ in range(11):
        next(elements)
    assert numbers(dataset.iterator(elements.state())) == [-x for x in range(11, 30)]


def test_a_pass_that_begins_after_a_difference_makes_its_elements_and_so_does_its_state(tmp_path):
    made, judge = Dataset.range(30).map(lambda x: -x), Judged()
    dataset = checked(made, tmp_path, judge)
    numbers(dataset)
    judge.is_against = True

    elements = iter(dataset)
    for _ in range(11):
        next(elements)
    judge.is_against = False
    assert numbers(dataset.iterator(elements.state())) == [-x for x in range(11, 30)]
    assert not judge, "kept elements were read"


def test_each_visit_of_a_repeated_part_is_checked(tmp_path):
    made, judge = Dataset.range(30).map(lambda x: -x), Judged()

    numbers(checked(made, tmp_path, judge).repeat(3))
    assert len(judge) == 2


def test_an_element_that_cannot_be_made_again_is_read_and_not_compared(tmp_path):
    class Fails:
        broken = False

        def __call__(self, x):
            if Fails.broken:
                raise ValueError("the source is gone")
            return x

    made, judge = Dataset.range(30).map(Fails()), Judged()
    numbers(checked(made, tmp_path, judge))
    Fails.broken = True

    assert numbers(checked(made, tmp_path, judge)) == list(range(30))
    assert not judge
