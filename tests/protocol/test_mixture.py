"""Weights of a mixture: their parts, plans and changes."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import DatasetError
from penstock.protocol.mixture import (
    MOST_PARTS,
    STAIRS,
    WeightStage,
    changed,
    decode,
    encode,
    parts_of,
    stages_of,
)
from penstock.protocol.turns import Turns
from tests.protocol.test_turns import NAMES, mixtures, parts


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"web": 0.7, "code": 0.2, "wiki": 0.1}, (7, 2, 1)),
        ({"web": 3, "code": 1}, (3, 1, 0)),
        ({"wiki": 0.5}, (0, 0, 1)),
        ({"web": 1e-3, "code": 1 - 1e-3}, (1, 999, 0)),
    ],
)
def test_decimal_weights_are_kept_exactly(weights, expected):
    assert parts_of(weights, NAMES) == expected


def test_finer_weights_are_rounded_and_each_positive_one_has_a_turn():
    made = parts_of({"web": 1 / 3, "code": 2 / 3, "wiki": 1e-9}, NAMES)

    assert sum(made) == MOST_PARTS
    assert made[2] == 1
    assert abs(made[0] - MOST_PARTS / 3) < 2


@pytest.mark.parametrize("weight", [-0.1, float("nan"), float("inf"), "much", None, 10**400])
def test_a_weight_that_is_no_finite_number_of_at_least_0_is_refused(weight):
    with pytest.raises(DatasetError, match="the weight of 'code' must be a finite number"):
        parts_of({"web": 1, "code": weight}, NAMES)


def test_weights_that_are_all_zero_are_refused():
    with pytest.raises(DatasetError, match="at least one weight must be positive"):
        parts_of({"web": 0, "code": 0}, NAMES)


def test_a_weight_of_an_unknown_source_is_refused_with_the_names_there_are():
    with pytest.raises(DatasetError, match="source 'books'; there are 'web', 'code', 'wiki'"):
        parts_of({"books": 1}, NAMES)


@pytest.mark.parametrize("weights", [None, 5, {"web", "code"}, iter([(0, {"web": 1})])])
def test_weights_that_are_neither_a_dict_nor_a_list_are_refused(weights):
    with pytest.raises(DatasetError, match="weights must be a dict, or a list of pairs"):
        stages_of(weights, NAMES)


@given(parts(3), parts(3), st.integers(1, 5000), st.integers(0, 5000))
def test_a_linear_schedule_follows_its_line(first, last, end, turn):
    one, other = (dict(zip(NAMES, each, strict=True)) for each in (first, last))
    stages = stages_of([(0, one), (end, other)], NAMES)
    turns = Turns(stages, (None,) * 3)

    assert len(stages) <= STAIRS + 1
    assert stages[-1].begin == end
    turn = min(turn, end)
    for s in range(3):
        a, b = Fraction(first[s], sum(first)), Fraction(last[s], sum(last))
        wanted = a * turn + (b - a) * turn * turn / (2 * end)
        stair = Fraction(end, STAIRS)
        assert abs(turns.counts(turn)[s] - wanted) <= 3 + stair / STAIRS


@given(
    parts(3), parts(3), st.integers(1, 1200), st.lists(st.integers(0, 60), min_size=3, max_size=3)
)
def test_on_a_line_no_source_is_too_rare_to_have_the_rest_of_the_turns(first, last, end, sizes):
    each = [a + b for a, b in zip(first, last, strict=True)]
    one, other = (dict(zip(NAMES, each, strict=True)) for each in (first, last))
    stages = stages_of([(0, one), (end, other)], NAMES)
    positive = [all(stage.parts[s] for stage in stages[:-1]) for s in range(3)]

    turns = Turns(stages, sizes, "drop")

    for s in range(3):
        assert positive[s] == bool(each[s]) or end < 2
        if positive[s] and last[s]:
            assert turns.counts(turns.length)[s] == sizes[s]


def test_a_rare_source_is_read_whole_when_the_others_have_ended():
    plan = [(0, {"a": 0.99, "b": 0.01}), (1000, {"a": 0.9, "b": 0.1})]

    turns = Turns(stages_of(plan, ("a", "b")), (10, 500), "drop")

    assert turns.counts(turns.length) == (10, 500)


def test_weights_that_do_not_change_between_two_points_are_one_stage():
    points = [(0, {"a": 3, "b": 1}), (99, {"a": 0.75, "b": 0.25}), (100, {"a": 1, "b": 1})]

    assert stages_of(points, ("a", "b"))[0] == WeightStage(0, (3, 1))
    assert [stage.begin for stage in stages_of(points, ("a", "b"))] == [0, 99, 100]


@pytest.mark.parametrize(
    "points",
    [[(5, {"web": 1})], [(0, {"web": 1}), (0, {"code": 1})], []],
)
def test_points_that_do_not_begin_at_turn_0_and_grow_are_refused(points):
    with pytest.raises(DatasetError, match="begin at turn 0 and grow"):
        stages_of(points, NAMES)


@pytest.mark.parametrize("points", ["web", [{"web": 1}], [("0", {"web": 1})], [(0, 1)], [0.5]])
def test_weights_of_another_form_are_refused(points):
    with pytest.raises(DatasetError, match="weights must be"):
        stages_of(points, NAMES)


@given(mixtures())
def test_stages_come_back_from_a_text(mixture):
    assert decode(encode(mixture[0])) == mixture[0]


def test_a_change_takes_the_place_of_all_that_was_planned_from_its_turn_on():
    planned = stages_of([(0, {"web": 1}), (100, {"code": 1})], NAMES)

    now = changed(planned, WeightStage(50, (0, 0, 1)))

    assert now[-1] == WeightStage(50, (0, 0, 1))
    assert now[:-1] == tuple(each for each in planned if each.begin < 50)
