"""What operators count: sums that merge by addition, and the figures that follow from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.measures import (
    LARGEST,
    MADE,
    MEAN,
    MOST,
    PADDING,
    POSITIONS,
    Measure,
    OperatorFigures,
    added,
    figures_of,
    merged,
)


def tokens(number, path="", part=""):
    return Measure(path, "pack", MADE, "tokens", number, part)


MEASURES = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 1000), max_size=4).map(
    lambda sums: tuple(tokens(number, path) for path, number in sums.items())
)


def sums(measures):
    return {each.key: each.sum for each in measures}


@given(MEASURES, MEASURES, MEASURES)
def test_sums_do_not_depend_on_the_order_in_which_they_are_merged(one, two, three):
    left, right = merged(merged(one, two), three), merged(one, merged(two, three))

    assert sums(left) == sums(right) == sums(merged(three, merged(two, one)))


@given(MEASURES, MEASURES)
def test_what_was_added_and_what_was_before_give_the_sums(before, more):
    last = merged(before, more)

    known = {key: number for key, number in sums(last).items() if number}
    found = {k: n for k, n in sums(merged(before, added(before, last))).items() if n}
    assert found == known


def test_sums_that_are_smaller_than_before_added_nothing():
    assert added((tokens(10),), (tokens(4),)) == ()


def test_measures_beyond_the_most_are_left_out():
    many = tuple(tokens(1, f".{i}") for i in range(MOST))

    assert merged(many, (tokens(1, "more"),)) == many


def test_the_padding_share_is_that_of_all_positions():
    measures = (
        tokens(900),
        Measure("", "pack", POSITIONS, "positions", 1000),
        Measure("", "pack", PADDING, "positions", 100),
    )

    (found,) = figures_of(measures, {tokens(0).key: 45.0})

    assert found == OperatorFigures("pack", "tokens", 900, 45.0, padding_share=0.1)
    assert str(found) == "pack: 900 tokens; 45 tokens a second; 10.0 % padding"


def test_the_imbalance_is_the_largest_cost_over_the_mean_cost():
    balance = ("", "balance")
    measures = (Measure(*balance, LARGEST, "cost", 30.0), Measure(*balance, MEAN, "cost", 24.0))

    (found,) = figures_of(measures)

    assert found == OperatorFigures("balance", imbalance=1.25)
    assert str(found) == "balance: imbalance 1.25"


def test_the_shares_of_a_mixture_are_those_of_what_its_datasets_gave():
    (found,) = figures_of((tokens(75, part="web"), tokens(25, part="code")))

    assert (found.made, dict(found.shares)) == (100, {"web": 0.75, "code": 0.25})
    assert str(found).endswith("of tokens: web 75.0 %, code 25.0 %")


def test_operators_with_one_label_have_figures_of_their_own_the_outermost_first():
    found = figures_of((tokens(5, ".0.1"), tokens(7, ".0")))

    assert [each.made for each in found] == [7, 5]


@pytest.mark.parametrize("name", [POSITIONS, MEAN])
def test_nothing_divided_by_nothing_is_no_figure(name):
    (found,) = figures_of((Measure("", "pack", name, "", 0),))

    assert (found.padding_share, found.imbalance, found.made) == (None, None, None)
