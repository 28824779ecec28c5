"""What operators held at a save comes first, in its order; else they begin anew."""

import pytest

from penstock.reader.core.deliveries import NotAsBefore, Replay
from penstock.reader.core.effects import SendAck
from penstock.reader.core.limits import FrameLimit
from penstock.reader.core.session_core import NoElement


@pytest.fixture
def replay():
    made = Replay()
    made.expect([(7, 3, 5), (8, 0, 2)])
    return made


def test_runs_are_next_one_after_another_however_they_are_divided(replay):
    assert replay.next == (7, 3, 5)
    replay.take(7, 3, 1)
    assert replay.next == (7, 4, 5)
    replay.take(7, 4, 1)
    assert replay.next == (8, 0, 2)
    replay.take(8, 0, 2)
    assert replay.next is None


def test_no_more_is_taken_at_once_than_the_next_run_has(replay):
    assert replay.bound(None) == 2
    assert replay.bound(1) == 1
    assert Replay().bound(None) is None


def test_behind_the_last_run_anything_may_come(replay):
    replay.take(7, 3, 2)
    replay.take(8, 0, 5)
    replay.take(1, 9, 1)


@pytest.mark.parametrize("other", [(8, 0), (7, 4), (6, 3)])
def test_another_element_in_its_place_is_told_once(replay, other):
    with pytest.raises(NotAsBefore):
        replay.take(*other, 1)
    replay.take(*other, 1)


def test_what_was_given_up_is_told_with_the_next_element(replay):
    replay.give_up()
    assert replay.next is None
    with pytest.raises(NotAsBefore):
        replay.take(7, 3, 1)


def test_what_was_not_delivered_yet_is_told_in_its_order():
    replay = Replay()
    replay.expect([(3, 5, 9), (1, 0, 2)])
    replay.take(3, 5, 3)
    assert replay.left == ((3, 8, 9), (1, 0, 2))
    replay.give_up()
    assert replay.left == ()


def test_the_task_that_comes_first_has_room_though_frames_of_others_fill_the_limit(driven_core):
    reading = driven_core(FrameLimit(1))
    reading.follow(9)
    reading.core.replay.expect([(1, 0, 2)])
    reading.view((1, 1, "v"), (2, 1, "w"))
    reading.effects()
    reading.frame(0, 1, task=1)
    reading.now += 2  # the other is asked, too: task 1 did not answer for long
    reading.frame(0, 1, task=2)

    assert reading.pull_slice(1) == (1, 0, 1)
    reading.core.replay.take(1, 0, 1)
    assert reading.pull_slice(1) is NoElement.WAIT, "number 1 of task 1 is next"
    sent = [effect for effect in reading.effects() if isinstance(effect, SendAck)]
    assert [effect.task for effect in sent if effect.ack.credit] == [1]

    reading.frame(1, 2, task=1)
    assert reading.pull_slice(1) == (1, 1, 2)
    reading.core.replay.take(1, 1, 1)
    assert reading.pull_slice(1) == (2, 0, 1)
