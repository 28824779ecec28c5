"""What operators cost: from their times and counts."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.autocache.measured import ChainStep, SizedTimes, Sizes, work_of
from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context, open_node
from penstock.engine.op_times import OpTimeNow

SOURCE = ChainStep(".0.0", ".0.0", alike=False, is_source=True)
DECODE = ChainStep(".0", ".0", alike=True, is_source=False)
BATCH = ChainStep("", "", alike=False, is_source=False)
CHAIN = [SOURCE, DECODE, BATCH]


def row(path, elements, worked):
    return OpTimeNow(path, "", elements, worked, 0.0, 0.0, worked)


def test_the_work_for_an_element_of_the_pipeline_is_that_for_all_elements_in_it():
    times = [row("", 10, 1.0), row(".0", 50, 5.0), row(".0.0", 50, 0.5)]

    work = work_of(times, CHAIN, elapsed=100.0)

    assert work[""].seconds == pytest.approx(0.1)
    assert work[".0"].seconds == pytest.approx(5 * 0.1)
    assert work[".0.0"].seconds == pytest.approx(5 * 0.01)
    assert [work[path].count for path in ("", ".0", ".0.0")] == [1, 5, 5]


def test_elements_that_were_made_ahead_do_not_count_as_needed():
    times = [row("", 10, 1.0), row(".0", 50, 5.0), row(".0.0", 80, 0.8)]

    work = work_of(times, CHAIN, elapsed=100.0)

    assert work[".0.0"].count == 5  # `map` has as many as its input
    assert work[".0.0"].seconds == pytest.approx(5 * 0.01)


def test_work_at_the_same_time_counts_as_the_time_that_passed():
    times = [row("", 10, 0.0), row(".0", 50, 8.0), row(".0.0", 50, 0.0)]

    assert work_of(times, CHAIN, elapsed=1.0)[".0"].seconds == pytest.approx(0.1)


def test_the_work_of_all_inputs_of_the_source_counts_as_its_own():
    times = [*(row(path, 10, 1.0) for path in ("", ".0", ".0.0")), row(".0.0.1.0", 10, 4.0)]

    assert work_of(times, CHAIN, elapsed=100.0)[".0.0"].seconds == pytest.approx(0.5)


def test_nothing_is_known_of_operators_that_made_nothing_and_of_those_before():
    times = [row("", 10, 1.0), row(".0", 0, 0.0)]

    assert set(work_of(times, CHAIN, elapsed=9.0)) == {""}


def test_operators_before_a_cut_are_found_where_two_more_run_after_them():
    assert DECODE.moved(None) == DECODE
    assert BATCH.moved(".0") == BATCH
    assert DECODE.moved(".0").row == ".0.0.0"
    assert SOURCE.moved(".0").row == ".0.0.0.0"


def test_sizes_of_the_first_elements_are_measured_at_each_operator():
    made = Dataset.range(40).map(lambda x: np.zeros(3)).batch(4)
    times = SizedTimes()
    running = open_node(made.node, Context(0, times=times))
    while running.block(2):
        pass

    sizes = {path: one.each for path, one in times.sizes.items()}
    assert 4 * 24 <= sizes[""] < 4 * 24 + 20
    assert 24 <= sizes[".0"] < 24 + 10
    assert sizes[".0.0"] == 8


def test_an_element_that_no_file_can_hold_has_a_reason_in_place_of_a_size():
    sizes = Sizes()
    sizes.add([()])

    assert "cannot be saved" in sizes.refusal
