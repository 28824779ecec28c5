from hypothesis import given
from hypothesis import strategies as st

from penstock.saved.taken import RowRun, TakenRows


def taken(ordered, *receipts):
    rows = TakenRows(ordered=ordered)
    for receipt in receipts:
        rows.take(*receipt)
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
    rows.take(1, 2, b"a")

    assert rows.ended() == [RowRun(1, 0, 3, b"a")]


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


@given(attempts(), st.booleans())
def test_runs_have_each_row_that_was_taken_once_and_in_order(made, ordered):
    total, receipts = made
    numbers = {(chunk, row): number for chunk, row, _, number in receipts}
    rows = TakenRows(ordered=ordered)
    runs = []
    for chunk, row, told, _ in receipts:
        rows.take(chunk, row, told)
        runs += rows.ended()
    rows.end_all()
    runs += rows.ended()

    found = [numbers[run.chunk, row] for run in runs for row in range(run.start, run.stop)]
    assert sorted(found) == list(range(total))
    if ordered:
        assert found == list(range(total))
