"""Workers that do not answer a reader: what it says of them, and to whom."""

import pytest

from penstock.protocol.control import UnreachableWorker
from penstock.protocol.nearness import TargetWorkers, WorkerProfile
from penstock.protocol.ranges import RangeSet
from penstock.reader.core import reachability
from penstock.reader.core.effects import AskWorker, OpenTaskStream, TellLog
from penstock.reader.core.limits import FrameLimit
from penstock.reader.core.reachability import Vicinity
from penstock.reader.core.session_core import NoElement
from tests.reader.core.driven_core import LEASE


@pytest.fixture
def reading(driven_core):
    """A reader with a task on worker w, which answers, and one on v, which does not."""
    made = driven_core()
    made.view((1, 1, "w", None, 3), (2, 1, "v", None, 5))
    made.core.on_answered(1, 1, 0.0)
    return made


def lines(reader):
    return [effect.line for effect in reader.effects() if isinstance(effect, TellLog)]


def pass_by(reader, seconds):
    reader.now += seconds
    reader.core.on_tick(reader.now)


def level(reader):
    return reader.core.heartbeat(reader.now).unreachable


def test_one_line_after_a_second_names_the_worker_why_and_the_remedy(reading):
    pass_by(reading, 0.9)
    assert not lines(reading)
    assert reading.core.due(reading.now) <= 1.0

    pass_by(reading, 0.1)
    (line,) = lines(reading)
    assert "worker v does not answer, for 1.0 s now (no answer yet)" in line
    assert "task(s) 2" in line
    assert "--worker-address" in line

    for _ in range(20):
        reading.core.on_stream_broken(2, reading.core.tasks[2].subscription, "refused", reading.now)
        pass_by(reading, 1.0)
    assert not lines(reading)


def test_heartbeats_say_who_is_not_reached_in_which_life_and_since_when(reading):
    pass_by(reading, 0.9)
    assert level(reading) == {}

    pass_by(reading, 3.1)

    assert level(reading) == {"v": UnreachableWorker(5, 4.0)}


def test_a_worker_that_answers_at_last_is_said_to(reading):
    pass_by(reading, 2.0)
    lines(reading)

    reading.core.on_answered(2, 1, 3.0)

    assert lines(reading) == ["worker v answers, after 3.0 s"]
    assert level(reading) == {}


def test_a_frame_is_an_answer(reading):
    reading.frame(0, 4, task=2)
    pass_by(reading, 5.0)

    assert level(reading) == {}


def test_the_answer_to_an_older_subscription_is_none(reading):
    reading.core.on_stream_broken(2, 1, "reset", 0.0)
    pass_by(reading, 0.1)
    reading.core.on_answered(2, 1, 0.1)
    pass_by(reading, 2.0)

    assert set(level(reading)) == {"v"}


def test_a_worker_whose_stream_broke_is_unreached_from_then_on(reading):
    pass_by(reading, 100.0)
    reading.core.on_answered(2, 1, 100.0)

    reading.core.on_stream_broken(1, 1, "reset", 100.0)
    pass_by(reading, 2.0)

    assert level(reading) == {"w": UnreachableWorker(3, 2.0)}


def test_a_worker_that_was_left_is_remembered_for_a_while_and_longer_each_time(reading):
    def found_and_left(attempt):
        reading.view((1, 1, "w", None, 3), (2, attempt, "v", None, 5))
        pass_by(reading, 2.0)
        reading.view((1, 1, "w", None, 3), (2, attempt, None))
        reading.view((1, 1, "w", None, 3), (2, attempt + 1, "w", None, 3))
        reading.core.on_answered(2, reading.core.tasks[2].subscription, reading.now)
        pass_by(reading, 0.1)

    found_and_left(1)
    pass_by(reading, reachability.KEPT - 1)
    assert set(level(reading)) == {"v"}
    pass_by(reading, 2.0)
    assert level(reading) == {}

    found_and_left(3)
    pass_by(reading, 2 * reachability.KEPT - 1)
    assert set(level(reading)) == {"v"}
    pass_by(reading, 2.0)
    assert level(reading) == {}
    pass_by(reading, reachability.KEPT_LONGEST)
    assert not reading.core.reachability._trials


def test_who_was_left_before_it_was_late_is_not_remembered(reading):
    pass_by(reading, 0.5)
    reading.view((1, 1, "w", None, 3), (2, 1, None))
    pass_by(reading, 5.0)

    assert level(reading) == {}


def test_another_life_of_a_worker_begins_anew(reading):
    pass_by(reading, 10.0)
    reading.view((1, 1, "w", None, 3), (2, 2, "v", None, 6))
    pass_by(reading, 0.5)
    assert level(reading) == {}

    pass_by(reading, 1.5)
    assert level(reading) == {"v": UnreachableWorker(6, 2.0)}


def test_a_worker_that_does_not_answer_gets_no_credit_until_it_does(driven_core):
    reader = driven_core(FrameLimit(1))
    reader.view((1, 1, "v"))
    pass_by(reader, 2.0)
    reader.core.on_stream_broken(1, 1, "refused", 2.0)
    reader.effects()
    pass_by(reader, 1.0)

    (request,) = reader.subscribes()
    assert request.credit == 0
    assert not reader.acks()

    reader.core.on_answered(1, request.subscription, 3.0)
    assert [ack.credit for ack in reader.acks()] == [1]


def test_operators_make_do_with_what_they_hold_if_the_rest_is_not_reached(reading):
    reading.follow(4)
    reading.frame(0, 2)
    reading.core.loop_waiting()
    assert reading.pull_slice() == (1, 0, 2)
    reading.core.loop_waiting()
    assert reading.pull_slice() is NoElement.WAIT
    pass_by(reading, 2.0)

    reading.recall(last=True)

    assert reading.pull_slice() is NoElement.FLUSH


def asked(reader):
    return [effect.worker for effect in reader.effects() if isinstance(effect, AskWorker)]


def test_a_worker_whose_streams_are_silent_is_asked_sooner_while_the_loop_waits(reading):
    reading.frame(0, 2)
    pass_by(reading, 10.0)
    assert asked(reading) == []

    reading.pull()
    reading.ask()
    pass_by(reading, reachability.ASK_AFTER)
    assert asked(reading) == ["w"]
    pass_by(reading, reachability.ASK_AFTER / 2)
    assert asked(reading) == []


def test_who_is_asked_and_does_not_answer_is_unreached_since_then(reading):
    reading.ask()
    pass_by(reading, reachability.ASK_AFTER)
    assert asked(reading) == ["w"]
    pass_by(reading, 3.0)

    reading.core.reachability.silent("w", "nothing came", reading.now)
    pass_by(reading, 0.1)

    assert level(reading)["w"].seconds == pytest.approx(3.1)
    assert any(
        isinstance(effect, OpenTaskStream) and effect.task == 1 for effect in reading.effects()
    )


def test_a_frame_that_came_meanwhile_speaks_for_the_worker(reading):
    reading.ask()
    pass_by(reading, reachability.ASK_AFTER)
    pass_by(reading, 1.0)
    reading.frame(0, 2)

    reading.core.reachability.silent("w", "nothing came", reading.now)

    assert reading.core.tasks[1].flows


def test_a_stream_closed_before_its_answer_says_nothing_of_a_worker_whose_others_stand(reading):
    reading.view((1, 1, "w", None, 3), (3, 1, "w", None, 3))
    reading.frame(0, 2)
    reading.view((1, 1, "w", None, 3))
    reading.effects()
    pass_by(reading, 2.0)
    assert not lines(reading)
    assert level(reading) == {}

    reading.pull()
    pass_by(reading, 0.1)
    assert [ack.acked.spans for ack in reading.acks()] == [((0, 2),)]


HERE, FAR = WorkerProfile("here"), WorkerProfile("far")


def test_nearer_workers_come_first_if_the_reader_takes_what_is_best():
    vicinity = Vicinity(TargetWorkers.AUTO, "here")
    vicinity.see({"w:1": 5})

    ranks = [vicinity.rank(*one) for one in [("w:1", 5, HERE), ("w:1", 6, HERE), ("w:2", 5, FAR)]]

    assert ranks == [0, 1, 2]


def test_all_workers_are_alike_to_a_reader_of_any():
    vicinity = Vicinity()
    vicinity.see({"w:1": 5})

    assert vicinity.rank("w:1", 5, HERE) == vicinity.rank("w:2", 5, FAR) == 0


def test_a_worker_is_in_this_process_in_one_of_its_lives():
    vicinity = Vicinity(TargetWorkers.LOCAL)
    vicinity.see({"w:1": 5})

    assert vicinity.reads("w:1", 5, HERE)
    assert not vicinity.reads("w:1", 6, HERE)
    assert not vicinity.reads("w:2", 5, HERE)
    vicinity.see({})
    assert not vicinity.reads("w:1", 5, HERE)


def held(reader):
    return reader.core.heartbeat(reader.now).reports[2].buffered


def lose(reader):
    reader.frame(0, 4, task=2)
    reader.core.on_stream_broken(2, reader.core.tasks[2].subscription, "reset", reader.now)


def test_elements_that_a_worker_cannot_ask_for_go_back_when_the_loop_is_busy_for_long(reading):
    lose(reading)
    pass_by(reading, 1.0)

    pass_by(reading, 2 * LEASE - 1.1)
    assert held(reading) == RangeSet.of((0, 4))

    pass_by(reading, 0.1)
    assert not held(reading)


def test_a_loop_that_takes_elements_keeps_the_others_for_as_long_from_then(reading):
    lose(reading)
    pass_by(reading, 1.0)
    reading.ask()

    pass_by(reading, 2 * LEASE - 0.1)
    assert held(reading) == RangeSet.of((1, 4))

    pass_by(reading, 0.1)
    assert not held(reading)
