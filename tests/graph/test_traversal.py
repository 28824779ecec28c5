"""How large a graph may be, and what a diamond costs."""

import sys
import time
import traceback

import pytest

from penstock.dataset.dataset import Dataset
from penstock.definition import decode, encode
from penstock.errors import DatasetError
from penstock.graph.traversal import DEEPEST, MOST_PLACES, extent


@pytest.fixture
def calls_within_calls():
    before = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(before)


def in_a_loop(change, times):
    ds = Dataset.range(20)
    for _ in range(times):
        ds = change(ds)
    return ds


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "change",
    [
        lambda ds: ds.map(abs),
        lambda ds: ds.concatenate(Dataset.range(0)),
        lambda ds: Dataset.range(0).concatenate(ds),
    ],
)
def test_as_many_operators_as_may_be_run_from_a_state_and_travel(change, calls_within_calls):
    ds = in_a_loop(change, 500)

    with iter(ds) as it:
        first = next(it)
        state = it.state()
        rest = list(it)
    assert list(ds.iterator(state)) == rest
    again = Dataset(decode(encode(ds.node)))
    assert next(iter(again)) == first
    assert ds.cardinality() in (again.cardinality(), -2)


@pytest.mark.parametrize(
    "change", [lambda ds: ds.map(abs), lambda ds: ds.concatenate(Dataset.range(1))]
)
def test_more_operators_than_may_be_are_refused_by_their_number(change, calls_within_calls):
    with pytest.raises(DatasetError, match=f"{DEEPEST + 1} operators deep") as caught:
        in_a_loop(change, 5000)

    text = "".join(traceback.format_exception(caught.value))
    assert len(text) < 4000
    assert "interleave" in text


def test_a_diamond_costs_what_its_stages_cost():
    began = time.monotonic()

    ds = in_a_loop(lambda ds: Dataset.zip((ds, ds)), 14)

    assert extent(ds.node).places == 2**15 - 1
    assert ds.cardinality() == 20
    assert time.monotonic() - began < 1


def test_a_diamond_that_would_run_too_many_operators_is_refused_at_once():
    with pytest.raises(DatasetError, match=rf"131071 operators, and {MOST_PLACES} is .*map"):
        in_a_loop(lambda ds: Dataset.zip((ds, ds)), 18)


@pytest.mark.parametrize(
    "change",
    [
        lambda ds, n: ds.shuffle(n),
        lambda ds, n: ds.batch(n),
        lambda ds, n: ds.interleave(Dataset.from_tensors, cycle_length=n),
        lambda ds, n: ds.assert_cardinality(n),
        lambda ds, n: ds.take(n),
    ],
)
@pytest.mark.parametrize("number", [2**63, 2**70, 1 << 5000])
def test_numbers_that_do_not_fit_are_refused_where_they_are_given(change, number):
    with pytest.raises(DatasetError, match="must fit int64"):
        change(Dataset.range(3), number)
