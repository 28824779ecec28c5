import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.element import text_array
from penstock.engine.rows import ColumnsOfBlock, Rows
from penstock.saved.taken import RowRun, TakenRows, runs_of


def taken(ordered, *receipts):
    rows = TakenRows(ordered=ordered)
    for run in runs_of(receipts):
        rows.take(run)
    return rows


def test_a_chunk_whose_last_row_was_taken_is_whole():
    rows = taken(True, (7, 0, b""), (7, 1, b"{}"))

    assert [run.is_whole for run in rows.ended()] == [True]
    assert rows.ended() == rows.going_on() == []


def test_chunks_of_several_tasks_may_take_turns_if_no_order_is_wanted():
    rows = taken(False, (1, 0, b""), (2, 0, b""), (1, 1, b"a"), (2, 1, b"b"))

    assert rows.ended() == [RowRun(1, 0, 2, b"a"), RowRun(2, 0, 2, b"b")]


def test_rows_that_are_missing_in_a_chunk_make_two_runs_of_it():
    rows = taken(False, (1, 0, b""), (1, 3, b""), (1, 4, b"a"))

    assert rows.ended() == [RowRun(1, 0, 1), RowRun(1, 3, 5, b"a")]


def test_a_restored_run_goes_on():
    rows = TakenRows(ordered=True, going_on=[RowRun(1, 0, 2)])
    rows.take(RowRun(1, 2, 3, b"a"))

    assert rows.ended() == [RowRun(1, 0, 3, b"a")]


def test_receipts_that_come_as_rows_make_the_same_runs():
    receipts = [(7, 0, b""), (7, 1, b"{}"), (9, 0, b""), (8, 5, b""), (8, 6, b"")]
    chunks, rows, told = zip(*receipts, strict=True)
    columns = [np.array(chunks), np.array(rows), text_array(told)]
    block = Rows(ColumnsOfBlock(tuple(columns), columns), range(5))

    assert list(runs_of(block)) == list(runs_of(receipts))
    assert list(runs_of(block[1:4])) == list(runs_of(receipts[1:4]))


@st.composite
def attempts(draw):
    """The receipts of one task that several attempts made: each begins where the last was cut."""
    total, place, chunk, receipts = draw(st.integers(1, 40)), 0, 0, []
    while place < total:
        back = draw(st.integers(0, place))
        sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=6))
        until = draw(st.integers(place, total))
        number = place - back
        for size in sizes:
            size = min(size, total - number)
            for row in range(size):
                if place <= number < max(until, place + 1):
                    receipts.append((chunk, row, b"{}" if row == size - 1 else b"", number))
                    place = number + 1
                number += 1
            chunk += 1
            if number >= total:
                break
    return total, receipts


@given(attempts(), st.booleans(), st.integers(1, 50))
def test_runs_have_each_row_that_was_taken_once_and_in_order(made, ordered, at_once):
    total, receipts = made
    numbers = {(chunk, row): number for chunk, row, _, number in receipts}
    rows = TakenRows(ordered=ordered)
    runs = []
    for at in range(0, len(receipts), at_once):
        for run in runs_of([receipt[:3] for receipt in receipts[at : at + at_once]]):
            rows.take(run)
        runs += rows.ended()
    rows.end_all()
    runs += rows.ended()

    found = [numbers[run.chunk, row] for run in runs for row in range(run.start, run.stop)]
    assert sorted(found) == list(range(total))
    if ordered:
        assert found == list(range(total))
