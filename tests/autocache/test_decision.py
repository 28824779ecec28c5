"""The choice of a cut: the least time, within bounds, and not back and forth."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.autocache.decision import Cut, choose

times = st.floats(1e-6, 1.0)


@st.composite
def pipelines(draw):
    """Return cuts from the source to the end: each operator adds time."""
    made, compute = [], 0.0
    for number in range(draw(st.integers(1, 5))):
        compute += draw(times)
        nbytes = draw(st.floats(1, 1e6))
        made.append(
            Cut(
                f"op {number}",
                compute,
                nbytes,
                draw(times),
                draw(times),
                visits=draw(st.sampled_from([1, 2, 5])),
                whole=draw(st.none() | st.just(100 * nbytes)),
                stored=draw(st.booleans()),
                refusal=draw(st.sampled_from(["", "", "it draws"])),
            )
        )
    return made


def simulated(cut, end, passes, visits):
    """Return the time of *passes* passes, counted visit by visit."""
    total, stored = 0.0, cut.stored
    for _ in range(passes * visits):
        total += (cut.read + end - cut.compute) if stored else end + cut.write
        stored = True
    return total / visits


@given(pipelines(), st.integers(1, 20), st.none() | st.integers(1, 10**8))
def test_the_choice_takes_the_least_time_of_all_that_are_allowed(cuts, passes, most):
    choice = choose(cuts, passes, most)

    allowed = [
        simulated(cut, cuts[-1].compute, passes, int(cut.visits))
        for cut, refusal in zip(cuts, choice.refusals, strict=True)
        if not refusal
    ]
    assert choice.total == pytest.approx(min([*allowed, passes * cuts[-1].compute]))


@given(pipelines(), st.integers(1, 20), st.integers(1, 10**8))
def test_what_is_kept_has_at_most_max_bytes(cuts, passes, most):
    choice = choose(cuts, passes, most)

    if choice.chosen is not None and not cuts[choice.chosen].stored:
        held = sum(cut.whole or 0 for cut in cuts if cut.stored)
        assert held + cuts[choice.chosen].whole <= most


@given(pipelines(), st.integers(1, 20))
def test_a_refused_cut_is_never_chosen(cuts, passes):
    choice = choose([replace(cut, refusal="it draws") for cut in cuts], passes)

    assert choice.chosen is None


@given(pipelines(), st.integers(2, 20), st.lists(st.floats(0.96, 1.04), min_size=1, max_size=8))
def test_measurements_that_differ_by_a_few_percent_change_no_choice(cuts, passes, noise):
    first = choose(cuts, passes).chosen
    for factor in noise:
        noisy = [replace(cut, compute=cut.compute * factor, read=cut.read / factor) for cut in cuts]
        assume(all(a.compute <= b.compute for a, b in zip(noisy, noisy[1:], strict=False)))
        assert choose(noisy, passes, before=first, decided=True).chosen == first


@given(pipelines(), st.integers(1, 20))
def test_another_choice_replaces_one_in_use_only_for_a_tenth_of_its_time(cuts, passes):
    for before in (None, *range(len(cuts))):
        choice = choose(cuts, passes, before=before, decided=True)
        used = choice.computed if before is None else choice.totals[before]
        if choice.chosen != before:
            assert choice.total <= 0.9 * used
        again = choose(cuts, passes, before=choice.chosen, decided=True)
        assert again.chosen == choice.chosen or choice.chosen == before


def test_of_equal_choices_the_one_with_fewer_bytes_is_made():
    large = Cut("decode", 1.0, 100, 0.5, 0.0)
    small = Cut("crop", 1.0, 10, 0.5, 0.0)

    assert choose([large, small], 10).chosen == 1
    assert choose([replace(small, read=1.0)], 10).chosen is None


def test_one_pass_alone_keeps_nothing():
    assert choose([Cut("decode", 1.0, 1, 0.001, 0.001)], 1).chosen is None


def test_a_cut_below_repeat_pays_within_one_pass():
    assert choose([Cut("decode", 1.0, 1, 0.001, 0.001, visits=5)], 1).chosen == 0


def test_a_cut_that_became_refused_is_left_at_once():
    cut = Cut("decode", 1.0, 1, 0.999, 0.0, stored=True)

    assert choose([cut], 5, before=0, decided=True).chosen == 0
    assert choose([replace(cut, refusal="it differs")], 5, before=0, decided=True).chosen is None


def test_the_table_has_each_cut_with_its_figures_and_why_others_are_refused():
    cuts = [
        Cut("range", 0.001, 8, 0.002, 0.003),
        Cut("map(decode)", 0.011, 3000, 0.001, 0.002, whole=9e6),
    ]

    table = choose(cuts, 10, 10**6).table

    assert "refused: with max_bytes" in table[1]
    assert "refused: all elements have 9,000,000 bytes, and max_bytes is 1,000,000" in table[2]
    assert table[3] == "* keep nothing: 110.000 ms"
    assert choose(cuts, 10).table[2] == (
        "* after map(decode): 11.000 ms, 3,000 bytes, 1.000 ms, 2.000 ms, 22.000 ms"
    )
