"""Stories about the reader's mind, told step by step."""

import pytest

from penstock.errors import PenstockError, TransformError
from penstock.messages import Failure, Frame, Holding, Recall, StreamEnd
from penstock.numbers import NO_RUNS, NOTHING, Runs, Standing, Taken
from penstock.reader.credit import ByteLimit, FrameLimit
from penstock.reader.hand import Pause
from penstock.reader.orders import CloseStream, OpenStream, SendAck, SendBeat

WAIT, OVER = Pause.WAIT, Pause.OVER
FAILED = Failure.of(TransformError("map(f)", 3, "ValueError: no"))


@pytest.fixture
def reading(table):
    """A reader with one task, running on worker w."""
    made = table()
    made.view((1, 1, "w"))
    (made.opening,) = made.opens()
    return made


# --- joining and opening ---


def test_the_first_beat_asks_to_be_let_in(table):
    beat = table().core.beat(0.0)

    assert beat.reader is None
    assert beat.beat == 1
    assert not beat.holdings


def test_a_task_in_the_view_is_opened_with_nothing_held_and_all_credit(reading):
    opening = reading.opening

    assert (opening.reader, opening.task, opening.attempt, opening.opening) == (7, 1, 1, 1)
    assert opening.taken == NOTHING
    assert opening.buffered == NO_RUNS
    assert opening.credit == 64 << 20


def test_the_bytes_are_divided_among_tasks_with_a_frame_for_each_at_least(table):
    two, many = table(), table(ByteLimit(2 << 20))
    two.view((1, 1, "w"), (2, 1, "v"))
    many.view(*((task, 1, "w") for task in range(1, 6)))

    assert [opening.credit for opening in two.opens()] == [32 << 20] * 2
    assert [opening.credit for opening in many.opens()] == [1 << 20] * 5


def test_views_of_others_and_older_views_are_ignored(reading):
    reading.view((1, 1, "w"), (2, 1, "v"), at=0)
    reading.view((1, 1, "w"), (2, 1, "v"), reader=8)

    assert set(reading.core.shares) == {1}


def test_a_broken_stream_is_opened_anew_after_a_pause_that_grows(reading):
    waits = []
    for _ in range(7):
        share = reading.core.shares[1]
        reading.core.answered(1, share.opening, reading.now)
        reading.core.stream_broken(1, share.opening, "refused", reading.now)
        due = reading.core.due(reading.now)
        waits.append(round(due - reading.now, 3))
        reading.core.tick(due - 0.001)
        assert not reading.opens()
        reading.now = due
        reading.core.tick(due)
        (opening,) = reading.opens()
        assert opening.opening == share.opening

    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_an_opening_says_what_is_buffered_and_taken(reading):
    reading.frame(0, 4)
    reading.ask()
    reading.block.at = 2

    reading.core.stream_broken(1, 1, "cut", 0.0)
    reading.now = 1.0
    reading.core.tick(1.0)

    (opening,) = reading.opens()
    assert opening.taken == Taken(2)
    assert opening.buffered == Runs.of((2, 4))
    assert opening.credit == (64 << 20) - 100


# --- frames ---


def test_elements_are_handed_out_in_order_and_counted_as_the_loop_takes_them(reading):
    reading.frame(0, 3)
    reading.frame(3, 5)

    assert reading.ask() == (1, 0, 3)
    assert reading.core.beat(0.0).holdings[1] == Holding(1, Taken(1), Runs.of((1, 5)))
    reading.block.at = 3
    assert reading.ask() == (1, 3, 5)
    reading.block.at = 2
    assert reading.ask() is WAIT
    assert reading.core.beat(0.0).holdings[1] == Holding(1, Taken(5), NO_RUNS)


def test_an_operator_that_asks_takes_all_it_is_given(reading):
    reading.frame(0, 5)

    assert reading.pull(limit=3) == (1, 0, 3)
    assert reading.core.beat(0.0).holdings[1].taken == Taken(3)
    assert reading.pull(limit=3) == (1, 3, 5)


def test_only_the_numbers_of_the_part_are_this_readers(reading):
    reading.frame(0, 10, part=[(2, 4), (7, 8)])

    assert reading.pull() == (1, 2, 4)
    assert reading.pull() == (1, 7, 8)
    assert reading.pull() is WAIT


def test_numbers_that_are_here_or_taken_are_dropped(reading):
    reading.frame(0, 3)
    reading.pull()
    reading.frame(3, 6)
    reading.frame(0, 8)

    assert reading.pull() == (1, 3, 6)
    assert reading.pull() == (1, 6, 8)


@pytest.mark.parametrize("stale", [{"opening": 0}, {"attempt": 0}])
def test_frames_of_another_opening_or_attempt_are_dropped(reading, stale):
    reading.frame(0, 3, **stale)

    assert reading.ask() is WAIT


def test_frames_of_a_task_that_no_view_named_are_dropped(reading):
    frame = Frame(2, 1, 1, 0, 3, 0, Runs.of((0, 3)), b"")

    reading.core.received(frame, None, 1, 0.0)

    assert reading.ask() is WAIT


def test_tasks_take_turns_by_arrival(reading):
    reading.view((1, 1, "w"), (2, 1, "v"))
    reading.frame(0, 1, task=2)
    reading.frame(0, 1, task=1)
    reading.frame(1, 2, task=2)

    assert [reading.pull()[0] for _ in range(3)] == [2, 1, 2]


def test_what_lies_below_the_floor_was_taken_by_another_and_is_dropped(reading):
    reading.frame(0, 4)
    reading.ask()

    reading.frame(6, 8, floor=3)

    assert reading.block.count == 1  # the rest of the block was withdrawn
    assert reading.ask() == (1, 3, 4)
    reading.block.at = 1
    assert reading.ask() == (1, 6, 8)
    assert reading.core.shares[1].taken.floor == 4


# --- acknowledgements and credit ---


def test_several_acknowledgements_travel_as_one(reading):
    for start in range(3):
        reading.frame(start, start + 1)
    for _ in range(3):
        reading.pull()
    assert reading.acks() == []

    reading.now = 0.05
    reading.core.tick(0.05)

    assert [ack.taken for ack in reading.acks()] == [Runs.of((0, 3))]


def test_a_loop_that_waits_with_nothing_acknowledges_when_it_is_quiet(reading):
    reading.now = 0.01
    reading.frame(0, 10)
    reading.pull()
    assert reading.ask() is WAIT
    assert reading.acks() == []  # more may follow on its heels

    reading.now = reading.core.due(0.01)
    reading.core.tick(reading.now)

    assert reading.now == pytest.approx(0.011)
    assert [ack.taken for ack in reading.acks()] == [Runs.of((0, 10))]


def test_a_loop_that_is_faster_than_its_worker_does_not_acknowledge_each_frame(reading):
    count = 0
    for turn in range(100):
        reading.now = turn / 1000
        reading.frame(turn, turn + 1)
        reading.pull()
        assert reading.ask() is WAIT
        count += len(reading.acks())

    assert count <= 100 / 1000 / 0.05 + 1


def test_half_the_window_is_given_back_without_delay(table):
    reader = table(ByteLimit(4 << 20))
    reader.view((1, 1, "w"))
    reader.orders()
    reader.frame(0, 1, nbytes=2 << 20)
    reader.frame(1, 2, nbytes=2 << 20)
    reader.pull()
    assert [ack.credit for ack in reader.acks()] == [2 << 20]


def test_dropped_frames_give_their_credit_back(table):
    reader = table(ByteLimit(4 << 20))
    reader.view((1, 1, "w"))
    reader.orders()
    reader.frame(0, 1, nbytes=1 << 20)
    reader.pull()
    reader.frame(0, 1, nbytes=1 << 20)

    assert sum(ack.credit for ack in reader.acks()) == 2 << 20


def test_a_limit_in_frames_asks_for_one_frame_at_a_time(table):
    reader = table(FrameLimit(1))
    reader.view((1, 1, "w"), (2, 1, "v"))
    assert [opening.credit for opening in reader.opens()] == [1, 0]

    reader.frame(0, 1, nbytes=1000)
    assert reader.acks() == []
    reader.now = 1.0
    reader.pull()

    acks = [(o.task, o.ack.credit) for o in reader.orders() if isinstance(o, SendAck)]
    assert [(task, credit) for task, credit in acks if credit] == [(2, 1)]


def test_a_task_that_does_not_answer_keeps_the_others_for_a_second_only(table):
    reader = table(FrameLimit(1))
    reader.view((1, 1, "w"), (2, 1, "v"))
    reader.orders()
    assert reader.ask() is WAIT
    reader.now = 0.9
    assert reader.ask() is WAIT
    assert reader.orders() == []

    reader.now = 1.1
    assert reader.ask() is WAIT

    assert [(o.task, o.ack.credit) for o in reader.orders()] == [(2, 1)]


# --- recall ---


def test_recall_gives_back_what_the_loop_does_not_ask_for(reading):
    reading.frame(0, 5)
    reading.frame(5, 9)
    reading.ask()

    reading.recall()

    (opening,) = reading.opens()
    assert opening.opening == 2
    assert opening.taken == Taken(1)
    assert opening.buffered == NO_RUNS
    assert reading.block.count == 1
    assert reading.ask() is WAIT


def test_recall_waits_until_a_loop_that_asks_has_its_element(reading):
    assert reading.core.ask(0.0) is WAIT
    reading.frame(0, 5)
    reading.recall()
    assert reading.opens() == []

    assert reading.ask() == (1, 0, 5)

    (opening,) = reading.opens()
    assert opening.taken == Taken(1)
    assert opening.buffered == NO_RUNS
    assert reading.block.count == 1


def test_recall_is_honoured_when_a_loop_stops_asking(reading):
    assert reading.core.ask(0.0) is WAIT
    reading.frame(0, 5)
    reading.recall()

    reading.core.came_back(0.0)

    (opening,) = reading.opens()
    assert opening.buffered == NO_RUNS


def test_recall_of_nothing_or_of_another_attempt_does_nothing(reading):
    reading.recall()
    reading.frame(0, 2)
    reading.core.recalled(Recall(1, 2), 0.0)

    assert reading.opens() == []
    assert reading.ask() == (1, 0, 2)


def test_a_block_that_is_recalled_while_it_is_decoded_is_not_used(reading):
    reading.frame(0, 2)
    hand = reading.core.ask(0.0)
    reading.view((1, 1, "w"), standing=Standing.GONE)

    assert not reading.core.accept(hand, None, 0.0)
    assert reading.core.shares[1].taken == NOTHING


# --- permission and standing ---


def test_a_block_whose_decoding_outlasts_the_lease_is_used_when_that_is_renewed(reading):
    reading.frame(0, 2)
    hand = reading.core.ask(0.0)

    assert not reading.core.accept(hand, None, 31.0)
    assert reading.core.shares[1].taken == NOTHING

    reading.now = 31.0
    reading.view((1, 1, "w"))

    assert reading.ask() == (1, 0, 2)


def test_nothing_is_handed_out_after_the_lease_until_it_is_renewed(reading):
    reading.frame(0, 2)
    reading.frame(2, 4)
    reading.ask()
    reading.now = 31.0
    assert reading.ask() is WAIT

    reading.view((1, 1, "w"))

    assert reading.ask() == (1, 1, 2)


def test_permission_runs_from_the_sending_of_the_beat_that_was_answered(table):
    reader = table()
    reader.core.beat(0.0)
    reader.core.beat(10.0)
    reader.now = 20.0
    reader.view((1, 1, "w"), answers=False)
    assert reader.core.member.permitted_until == float("-inf")

    reader.now = 12.0
    reader.view((1, 1, "w"))

    assert reader.core.member.permitted_until == 42.0


def test_a_reader_that_was_given_up_drops_its_buffer_keeps_what_it_took_and_joins_anew(reading):
    reading.frame(0, 4)
    reading.ask()
    reading.orders()

    reading.view(standing=Standing.GONE)

    assert reading.orders() == [CloseStream(1), SendBeat()]
    beat = reading.core.beat(0.0)
    assert beat.reader is None
    assert beat.holdings[1] == Holding(1, Taken(1), NO_RUNS)
    assert reading.ask() is WAIT

    reading.view((1, 1, "w"), reader=8)
    (opening,) = reading.opens()
    assert (opening.reader, opening.opening, opening.taken) == (8, 2, Taken(1))


def test_leaving_says_what_was_taken_and_takes_the_rest_from_the_loop(reading):
    reading.frame(0, 4)
    reading.ask()
    reading.block.at = 2
    reading.orders()

    reading.core.leave(0.0)

    ack, beat_now = reading.orders()
    assert ack.ack.taken == Runs.of((0, 2))
    assert beat_now == SendBeat()
    assert reading.block.count == 2
    beat = reading.core.beat(0.0)
    assert beat.leaving
    assert beat.holdings[1].taken == Taken(2)
    reading.view(standing=Standing.LEFT)
    assert reading.core.member.left


def test_a_reader_that_was_never_let_in_simply_goes(table):
    reader = table()
    reader.core.leave(0.0)

    assert reader.core.member.left
    assert reader.orders() == []


def test_a_reader_whose_first_beat_is_not_answered_yet_does_not_simply_go(table):
    reader = table()
    reader.core.beat(0.0)

    reader.core.leave(0.0)

    assert not reader.core.member.left
    assert reader.orders() == [SendBeat()]
    beat = reader.core.beat(0.0)
    assert beat.leaving
    assert beat.reader is None
    reader.view((1, 1, "w"), reader=7)  # the answer to the first beat
    assert not reader.core.member.left
    reader.view(standing=Standing.LEFT, reader=7)
    assert reader.core.member.left


# --- the end, losses, failures ---


def test_the_pass_is_over_when_the_dispatcher_says_so(reading):
    reading.frame(0, 1)
    reading.pull()
    assert reading.ask() is WAIT

    reading.view(finished=True)

    assert reading.ask() is OVER
    assert reading.ask() is OVER


def test_a_done_task_is_dropped_with_what_another_took_of_it(reading):
    reading.frame(0, 4)
    reading.ask()

    reading.view((2, 1, "v"))

    assert reading.block.count == 1
    assert reading.ask() is WAIT
    assert reading.core.shares[1].buffered == NO_RUNS


def test_a_task_between_two_attempts_gives_its_word_and_is_opened_by_the_next(reading):
    reading.frame(0, 3)
    reading.view((1, 1, None))
    orders = reading.orders()
    assert orders == [CloseStream(1), SendBeat()]
    assert reading.core.beat(0.0).holdings[1] == Holding(2, NOTHING, Runs.of((0, 3)))

    reading.view((1, 2, "v"))

    (opening,) = reading.opens()
    assert (opening.attempt, opening.buffered) == (2, Runs.of((0, 3)))
    assert reading.ask() == (1, 0, 3)


def test_a_failure_on_the_stream_is_raised_behind_the_elements_before_it(reading):
    reading.frame(0, 3)
    reading.end(failure=FAILED)

    assert reading.pull() == (1, 0, 3)
    for _ in range(2):
        with pytest.raises(TransformError, match="element 3"):
            reading.ask()


def test_a_failure_told_by_the_dispatcher_does_not_overtake_elements_on_the_stream(reading):
    reading.view((1, 1, "w", FAILED))
    assert reading.ask() is WAIT
    reading.frame(0, 3)

    assert reading.pull() == (1, 0, 3)
    assert reading.ask() is WAIT
    reading.end(failure=FAILED)
    with pytest.raises(TransformError):
        reading.ask()


def test_a_failure_told_by_the_dispatcher_counts_when_the_stream_is_silent(reading):
    reading.view((1, 1, "w", FAILED))
    assert reading.ask() is WAIT
    reading.now = 1.1

    with pytest.raises(TransformError):
        reading.ask()


def test_a_failed_task_does_not_keep_the_others_from_being_read(reading):
    reading.view((1, 1, "w"), (2, 1, "v"))
    reading.end(failure=FAILED)
    reading.frame(0, 1, task=2)
    with pytest.raises(TransformError):
        reading.ask()

    assert reading.pull() == (2, 0, 1)
    assert reading.ask() is WAIT


def test_the_end_of_a_superseded_stream_is_ignored(reading):
    reading.frame(0, 2)
    reading.ask()
    reading.recall()
    share = reading.core.shares[1]
    assert share.opening == 2

    reading.core.stream_ended(1, StreamEnd(1, 1), 0.0)

    assert share.streaming
    assert not share.ended


def test_unknown_errors_cross_as_what_they_are(reading):
    reading.end(failure=Failure("FromTheFuture", ("words",)))

    with pytest.raises(PenstockError, match="words"):
        reading.ask()


def test_orders_are_given_once(reading):
    reading.view((1, 1, "w"), (2, 1, "v"))

    assert [type(order) for order in reading.orders()] == [OpenStream]
    assert reading.orders() == []
    assert not reading.core.pressing
