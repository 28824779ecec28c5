from typing import Any, NamedTuple

import pytest

from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.errors import DatasetError, TransformError
from penstock.graph.node import INFINITE, UNKNOWN
from penstock.graph.run import open_root


class Pair(NamedTuple):
    left: Any
    right: Any


def fives(x):
    if x % 5 == 0:
        raise ValueError(f"not {x}")
    return x


@pytest.mark.parametrize("sizes", [(5, 9), (9, 5), (0, 5), (5, 0), (9, 5, 7), (4,)])
def test_the_shortest_ends_it(check_states, sizes):
    check_states(
        lambda: Dataset.zip(tuple(map(Dataset.range, sizes))),
        [(i,) * len(sizes) for i in range(min(sizes))],
    )


def test_inputs_with_blocks_of_different_lengths_stay_side_by_side(check_states):
    left = lambda: Dataset.range(60).filter(lambda x: x % 7 in (0, 1, 4))
    right = lambda: Dataset.range(4).repeat()

    check_states(
        lambda: Dataset.zip((left(), right())),
        [(x, i % 4) for i, x in enumerate(x for x in range(60) if x % 7 in (0, 1, 4))],
    )


def test_elements_have_the_nest_of_the_datasets(check_states):
    check_states(
        lambda: Dataset.zip({"a": Dataset.range(3), "b": (Dataset.range(3), Dataset.range(9))}),
        [{"a": i, "b": (i, i)} for i in range(3)],
    )
    check_states(
        lambda: Dataset.zip(Pair(Dataset.range(3), (Dataset.range(3),))),
        [Pair(i, (i,)) for i in range(3)],
    )


def test_all_ways_to_name_the_datasets():
    a, b = Dataset.range(2), Dataset.range(5, 9)

    assert list(Dataset.zip(a, b)) == [(0, 5), (1, 6)]
    assert list(Dataset.zip((a, b))) == [(0, 5), (1, 6)]
    assert list(Dataset.zip(datasets=(a, b))) == [(0, 5), (1, 6)]
    assert list(Dataset.zip(a)) == [0, 1]
    assert list(Dataset.zip((a,))) == [(0,), (1,)]
    assert list(Dataset.zip(((a,),))) == [((0,),), ((1,),)]
    assert list(Dataset.zip(((), (a, b)))) == [((), (0, 5)), ((), (1, 6))]


def test_a_failed_element_is_as_if_it_did_not_exist(check_states):
    def failed(i):
        return TransformError("map(fives)", i, f"ValueError: not {i}")

    whole = check_states(lambda: Dataset.zip((Dataset.range(6), Dataset.range(9).map(fives))))

    assert [x for x in whole if isinstance(x, tuple)] == [
        ("tuple", ("int64", str(i)), ("int64", str(j))) for i, j in enumerate([1, 2, 3, 4, 6, 7])
    ]


def test_errors_on_both_sides_keep_their_places(check_states):
    check_states(lambda: Dataset.zip((Dataset.range(12).map(fives), Dataset.range(13).map(fives))))


def test_a_restored_zip_calls_the_functions_for_nothing_already_returned(counted):
    left, right = counted(lambda x: x), counted(lambda x: x)
    make = lambda: Dataset.zip((Dataset.range(90).map(left), Dataset.range(90).map(right, 2)))
    it = iter(make())
    for _ in range(40):
        next(it)
    state = it.state()
    it.close()
    left.calls.clear()
    right.calls.clear()

    with make().iterator(state) as it:
        assert next(it) == (40, 40)

    assert min(left.calls) == min(right.calls) == 40


def test_the_cardinality():
    nine, many = Dataset.range(9), Dataset.range(3).repeat()

    assert Dataset.zip(nine, Dataset.range(4), many).cardinality() == 4
    assert Dataset.zip(many, many).cardinality() == INFINITE
    assert Dataset.zip(nine, nine.filter(bool)).cardinality() == UNKNOWN


@pytest.mark.parametrize(
    "nest", [(), {}, ((Dataset.range(1), 3),), ([Dataset.range(1), Dataset.range(2)],), (5,)]
)
def test_what_is_no_nest_of_datasets_is_named(nest):
    with pytest.raises(DatasetError, match="zip: give datasets, or a nest of tuples and dicts"):
        Dataset.zip(*nest)


def test_two_ways_at_once_are_one_too_many():
    with pytest.raises(DatasetError, match="not both"):
        Dataset.zip(Dataset.range(1), datasets=(Dataset.range(1),))


def test_a_zip_that_has_ended_reads_no_more(counted):
    fn = counted(lambda x: x)
    make = lambda: Dataset.zip((Dataset.range(90).map(fn), Dataset.range(4)))
    it = iter(make())
    assert len(list(it)) == 4
    ended = it.state()
    fn.calls.clear()

    assert list(it) == list(make().iterator(ended)) == []
    run = open_root(make().node, Context.local(1))
    assert run.skip(9) == 4
    assert run.block(9) == []
    assert fn.calls == []
