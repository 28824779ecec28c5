"""The cuts of a pipeline, and why some are refused."""

from __future__ import annotations

import pytest

from penstock.autocache.cuts import places_of
from penstock.dataset.dataset import Dataset
from penstock.options import Options

NUMBERS = Dataset.range(20)


def shown(dataset, passes=3):
    return [(one.node.op, one.visits, one.refusal) for one in places_of(dataset.node, passes)]


def test_each_operator_has_a_cut_after_it_except_those_that_pass_elements_on():
    dataset = NUMBERS.map(lambda x: x).with_options(Options(threads=1)).prefetch(2).batch(4)

    assert [one.node.op for one in places_of(dataset.node, 3) if one.is_cut] == [
        "range",
        "map",
        "batch",
    ]


def test_the_first_cut_is_after_the_last_operator_with_several_inputs():
    dataset = Dataset.zip((NUMBERS, NUMBERS.map(lambda x: x))).batch(2)

    assert shown(dataset) == [("zip", 1, ""), ("batch", 1, "")]


def test_an_operator_below_with_options_is_measured_in_its_row():
    dataset = NUMBERS.map(lambda x: x).with_options(Options(threads=1)).batch(2)

    assert [(one.step.path, one.step.row) for one in places_of(dataset.node, 3)] == [
        (".0.0.0", ".0.0.0"),
        (".0.0", ".0"),
        ("", ""),
    ]


@pytest.mark.parametrize(("count", "visits"), [(4, 4), (None, 3)])
def test_a_pass_visits_what_is_below_repeat_several_times(count, visits):
    assert [one.visits for one in places_of(NUMBERS.repeat(count).node, 3)] == [visits, 1]


def test_an_endless_cut_is_refused_and_the_ones_below_are_not():
    below, above = places_of(NUMBERS.repeat().node, 3)

    assert not below.refusal
    assert "infinite" in above.refusal


def test_cuts_below_take_are_refused_because_their_end_may_never_be_read():
    assert [why for _, _, why in shown(NUMBERS.take(5))] == [
        "take may stop before the last element",
        "",
    ]


def test_cuts_up_to_a_cache_are_refused_because_it_keeps_them():
    assert [bool(one.refusal) for one in places_of(NUMBERS.cache().batch(2).node, 3)] == [
        True,
        True,
        False,
    ]


def test_a_cut_behind_chance_is_refused_by_the_name_of_the_operator():
    first, shuffled, batched = shown(NUMBERS.shuffle(5).batch(2))

    assert not first[2]
    assert shuffled[2] == batched[2]
    assert shuffled[2].startswith("shuffle draws")
