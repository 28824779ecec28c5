"""Stories about the reader's core: what it opens, hands out and acknowledges."""

import pytest

from penstock.protocol.control import TaskReport
from penstock.protocol.data import FrameHeader
from penstock.protocol.ranges import NO_RANGES, NOTHING_ACKED, AckedSet, RangeSet
from penstock.reader.core.limits import FrameLimit
from penstock.reader.core.session_core import NoElement
from penstock.reader.core.task_stream import Held, held_by_worker

WAIT, OVER = NoElement.WAIT, NoElement.END


# --- joining and opening ---


def test_the_first_heartbeat_asks_to_be_let_in(driven_core):
    heartbeat = driven_core().core.heartbeat(0.0)

    assert heartbeat.reader is None
    assert heartbeat.seq == 1
    assert not heartbeat.reports


def test_a_task_in_the_view_is_opened_with_nothing_held_and_all_credit(reading):
    request = reading.request

    assert (request.reader, request.task, request.attempt, request.subscription) == (7, 1, 1, 1)
    assert request.acked == NOTHING_ACKED
    assert request.buffered == NO_RANGES
    assert request.credit == 64 << 20


def test_views_of_others_and_older_views_are_ignored(reading):
    reading.view((1, 1, "w"), (2, 1, "v"), at=0)
    reading.view((1, 1, "w"), (2, 1, "v"), reader=8)

    assert set(reading.core.tasks) == {1}


def test_a_broken_stream_is_opened_anew_after_a_pause_that_grows(reading):
    waits = []
    for _ in range(7):
        share = reading.core.tasks[1]
        reading.core.on_answered(1, share.subscription, reading.now)
        reading.core.on_stream_broken(1, share.subscription, "refused", reading.now)
        due = reading.core.due(reading.now)
        waits.append(round(due - reading.now, 3))
        reading.core.on_tick(due - 0.001)
        assert not reading.subscribes()
        reading.now = due
        reading.core.on_tick(due)
        (request,) = reading.subscribes()
        assert request.subscription == share.subscription

    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_what_is_here_of_each_worker_is_counted_until_it_is_delivered(reading):
    reading.frame(0, 4)
    nbytes = reading.core.tasks[1].nbytes

    assert nbytes > 0
    assert held_by_worker(reading.core.tasks.values()) == {"w": Held(nbytes, 64 << 20)}

    reading.core.deliver(reading.core.next_slice(reading.now), reading.now)
    assert held_by_worker(reading.core.tasks.values()) == {"w": Held(0, 64 << 20)}


def test_a_subscription_says_what_is_buffered_and_acked(reading):
    reading.frame(0, 4)
    reading.ask()
    reading.block.at = 2

    reading.core.on_stream_broken(1, 1, "cut", 0.0)
    reading.now = 1.0
    reading.core.on_tick(1.0)

    (request,) = reading.subscribes()
    assert request.acked == AckedSet(2)
    assert request.buffered == RangeSet.of((2, 4))
    assert request.credit == 64 << 20  # what is delivered takes no room


# --- frames ---


def test_elements_are_handed_out_in_order_and_counted_as_the_loop_takes_them(reading):
    reading.frame(0, 3)
    reading.frame(3, 5)

    assert reading.ask() == (1, 0, 3)
    assert reading.core.heartbeat(0.0).reports[1] == TaskReport(1, AckedSet(1), RangeSet.of((1, 5)))
    reading.block.at = 3
    assert reading.ask() == (1, 3, 5)
    reading.block.at = 2
    assert reading.ask() is WAIT
    assert reading.core.heartbeat(0.0).reports[1] == TaskReport(1, AckedSet(5), NO_RANGES)


def test_without_a_tracker_all_that_is_pulled_is_acked(reading):
    reading.frame(0, 5)

    assert reading.pull(limit=3) == (1, 0, 3)
    assert reading.core.heartbeat(0.0).reports[1].acked == AckedSet(3)
    assert reading.pull(limit=3) == (1, 3, 5)


def test_only_the_numbers_of_the_part_are_this_readers(reading):
    reading.frame(0, 10, part=[(2, 4), (7, 8)])

    assert reading.pull() == (1, 2, 4)
    assert reading.pull() == (1, 7, 8)
    assert reading.pull() is WAIT


def test_numbers_that_are_here_or_acked_are_dropped(reading):
    reading.frame(0, 3)
    reading.pull()
    reading.frame(3, 6)
    reading.frame(0, 8)

    assert reading.pull() == (1, 3, 6)
    assert reading.pull() == (1, 6, 8)


@pytest.mark.parametrize("stale", [{"subscription": 0}, {"attempt": 0}])
def test_frames_of_another_subscription_or_attempt_are_dropped(reading, stale):
    reading.frame(0, 3, **stale)

    assert reading.ask() is WAIT


def test_frames_of_a_task_that_no_view_named_are_dropped(reading):
    frame = FrameHeader(2, 1, 1, 0, 3, 0, RangeSet.of((0, 3)), b"")

    reading.core.on_frame(frame, None, 1, 0.0)

    assert reading.ask() is WAIT


def test_tasks_take_turns_by_arrival(reading):
    reading.view((1, 1, "w"), (2, 1, "v"))
    reading.frame(0, 1, task=2)
    reading.frame(0, 1, task=1)
    reading.frame(1, 2, task=2)

    assert [reading.pull()[0] for _ in range(3)] == [2, 1, 2]


def test_what_lies_below_the_floor_was_acked_by_another_and_is_dropped(reading):
    reading.frame(0, 4)
    reading.ask()

    reading.frame(6, 8, floor=3)

    assert reading.block.count == 2  # the rest of the block was revoked
    assert reading.ask() == (1, 3, 4)
    assert reading.ask() == (1, 6, 8)
    assert reading.core.heartbeat(0.0).reports[1].acked.floor == 4


# --- acknowledgements and credit ---


def test_what_a_loop_has_got_is_acknowledged_soon_when_it_waits_with_its_block_used_up(reading):
    reading.frame(0, 5)
    reading.ask()
    reading.block.at = 5
    reading.now = 0.002

    assert reading.ask() is WAIT

    assert [ack.acked for ack in reading.acks()] == [RangeSet.of((0, 5))]


def test_several_acknowledgements_travel_as_one(reading):
    for start in range(3):
        reading.frame(start, start + 1)
    for _ in range(3):
        reading.pull()
    assert reading.acks() == []

    reading.now = 0.05
    reading.core.on_tick(0.05)

    assert [ack.acked for ack in reading.acks()] == [RangeSet.of((0, 3))]


def test_a_loop_that_waits_with_nothing_acknowledges_when_it_is_quiet(reading):
    reading.now = 0.01
    reading.frame(0, 10)
    reading.pull()
    assert reading.ask() is WAIT
    assert reading.acks() == []  # more may follow on its heels

    reading.now = reading.core.due(0.01)
    reading.core.on_tick(reading.now)

    assert reading.now == pytest.approx(0.011)
    assert [ack.acked for ack in reading.acks()] == [RangeSet.of((0, 10))]


def test_a_loop_that_is_faster_than_its_worker_does_not_acknowledge_each_frame(reading):
    count = 0
    for turn in range(100):
        reading.now = turn / 1000
        reading.frame(turn, turn + 1)
        reading.pull()
        assert reading.ask() is WAIT
        count += len(reading.acks())

    assert count <= 100 / 1000 / 0.05 + 1


def test_a_task_that_does_not_answer_keeps_the_others_for_a_second_only(driven_core):
    reader = driven_core(FrameLimit(1))
    reader.view((1, 1, "w"), (2, 1, "v"))
    reader.effects()
    assert reader.ask() is WAIT
    reader.now = 0.9
    assert reader.ask() is WAIT
    assert reader.effects() == []

    reader.now = 1.1
    assert reader.ask() is WAIT

    assert [(o.task, o.ack.credit) for o in reader.effects()] == [(2, 1)]
