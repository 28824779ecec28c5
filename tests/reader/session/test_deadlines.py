"""The patience of a loop that gets nothing."""

import pytest

from penstock.errors import Unavailable, WaitedTooLong
from penstock.protocol.data import StreamEnd
from penstock.reader.core.session_core import NoElement
from penstock.reader.session.deadlines import (
    LEAST,
    SOONER,
    TICKS_WAKE_EVERY,
    Ticks,
    WaitReason,
    WaitTarget,
    WaitTimeout,
    dispatcher_silent,
    wait_reason,
)

NOBODY = WaitReason(WaitTarget.MESH, "a worker: none is registered")
WORK = WaitReason(WaitTarget.WORK, "elements of 1 task(s) of w")


def test_time_is_up_when_the_same_one_is_waited_for_as_long_as_the_timeout():
    patience = WaitTimeout(3.0, 0.0)
    for now in (0.0, 1.0, 2.0, 2.9):
        patience.spend(NOBODY, now)

    with pytest.raises(
        WaitedTooLong, match=r"waited 3.0 s, from .* to .*, for a worker: none"
    ) as e:
        patience.spend(NOBODY, 3.0)

    assert isinstance(e.value, (TimeoutError, Unavailable))
    assert "timeout=3" in str(e.value)


def test_a_wait_for_somebody_else_begins_anew():
    patience = WaitTimeout(3.0, 0.0)
    patience.spend(NOBODY, 0.0)
    patience.spend(NOBODY, 2.0)
    patience.spend(dispatcher_silent("here:1", ""), 2.5)

    patience.spend(NOBODY, 4.0)
    patience.spend(NOBODY, 6.0)

    assert patience.left == 1.0


def test_a_wait_for_a_consumer_counts_from_before_it_was_known_to_be_absent():
    absent = WaitReason(WaitTarget.MESH, "round 3 waits for consumer 1", late=3.0)
    patience = WaitTimeout(4.0, 0.0)
    for now in (0.0, 1.0, 2.0):
        patience.spend(WORK, now)
    patience.spend(absent, 2.5)

    with pytest.raises(WaitedTooLong, match=r"waited 4.0 s, .*round 3 waits for consumer 1"):
        patience.spend(absent, 4.0)


def test_of_long_work_before_it_only_so_much_counts():
    absent = WaitReason(WaitTarget.MESH, "round 3 waits for consumer 1", late=3.0)
    patience = WaitTimeout(4.0, 0.0)
    for now in range(100):
        patience.spend(WORK, float(now))

    patience.spend(absent, 100.0)

    assert patience.left == 1.0


def test_work_may_take_as_long_as_it_takes_and_is_logged():
    patience, lines = WaitTimeout(3.0, 0.0), []
    for now in range(35):
        lines.append(patience.spend(WORK, float(now)))

    said = [line for line in lines if line]
    assert len(said) == 3
    assert "(10 s) for elements of 1 task(s) of w" in said[0]


def test_time_in_which_the_process_stood_still_is_not_held_against_anybody():
    patience = WaitTimeout(10.0, 0.0)
    patience.spend(NOBODY, 0.0)

    patience.spend(NOBODY, 1000.0)

    assert patience.left == 8.0


def test_the_dispatcher_is_waited_for_until_it_has_answered(driven_core):
    reader = driven_core()
    assert wait_reason(reader.core, "here:1", "", 0.0) == dispatcher_silent("here:1", "")
    assert "refused" in wait_reason(reader.core, "here:1", "refused", 0.0).what

    reader.view((1, 1, "w"))

    assert wait_reason(reader.core, "here:1", "refused", 0.0).target is WaitTarget.DISPATCHER
    assert wait_reason(reader.core, "here:1", "", 31.0).target is WaitTarget.DISPATCHER


def test_what_the_dispatcher_waits_for_is_passed_on(driven_core):
    reader = driven_core()
    reader.view(waiting_for="a worker: none is registered")

    assert wait_reason(reader.core, "here:1", "", 0.0) == NOBODY


def test_workers_that_cannot_be_reached_are_named_when_there_are_no_others(driven_core):
    reader = driven_core()
    reader.view((1, 1, "w"), (2, 1, "v"))
    reader.core.on_answered(2, 1, 0.0)
    reader.core.on_stream_broken(1, 1, "refused", 0.0)
    assert wait_reason(reader.core, "here:1", "", 0.0).target is WaitTarget.WORK

    reader.core.on_stream_broken(2, 1, "reset", 0.0)

    why = wait_reason(reader.core, "here:1", "", 0.0)
    assert why == WaitReason(
        WaitTarget.WORKER, "worker w to answer (refused); worker v to answer (reset)"
    )


def test_without_tasks_the_dispatcher_is_waited_for_without_end(driven_core):
    reader = driven_core()
    reader.view()

    assert reader.ask() is NoElement.WAIT
    assert wait_reason(reader.core, "here:1", "", 0.0).target is WaitTarget.WORK


def test_a_task_that_waits_for_a_dead_reader_gets_the_time_for_that(driven_core):
    reader = driven_core()
    reader.view((1, 1, "w"), waiting_for="a worker: none is registered")
    assert wait_reason(reader.core, "here:1", "", 0.0).grace == 0

    reader.view((1, 1, None), waiting_for="a worker: none is registered")
    assert wait_reason(reader.core, "here:1", "", 0.0).grace == 0

    reader.view(
        (1, 1, None), waiting_for="reader 4: silent for 3 s, expires in 30 s", on_readers=True
    )

    why = wait_reason(reader.core, "here:1", "", 0.0)
    assert why.target is WaitTarget.MESH
    assert why.grace > 1.1 * reader.core.membership.lease
    patience = WaitTimeout(2.0, 0.0, longest_step=100.0)
    patience.spend(why, 0.0)
    assert patience.spend(why, 2.0 + 0.9 * why.grace)
    with pytest.raises(WaitedTooLong, match=r"reader 4.*timeout=2\), and 36 s more"):
        patience.spend(why, 2.0 + 1.1 * why.grace)


@pytest.mark.parametrize("task", [(1, 1, "w"), (1, 1, None)])
def test_a_wait_for_work_says_what_silent_readers_hold_and_has_no_limit(driven_core, task):
    reader, patience = driven_core(), WaitTimeout(3.0, 0.0)
    held = "200 elements are unacked at reader 12 (host a, rank 1; silent 12.0 s, expires at 33 s)"
    reader.view((1, 1, "w"))
    reader.view(task, held_by=held)
    reader.core.on_answered(1, 1, 0.0)

    why = wait_reason(reader.core, "here:1", "", 0.0)
    lines = [patience.spend(why, float(now)) for now in range(25)]

    assert why.target is WaitTarget.WORK
    assert [line.endswith(f"; {held}") for line in lines if line] == [True, True]
    reader.view(task)
    assert held not in wait_reason(reader.core, "here:1", "", 0.0).what


def test_a_task_between_two_attempts_is_waited_for_without_end(driven_core):
    reader = driven_core()
    reader.view((1, 1, None), (2, 1, "w"))
    reader.core.on_stream_ended(1, StreamEnd(2, 1), 0.0)

    why = wait_reason(reader.core, "here:1", "", 0.0)

    assert why.target is WaitTarget.WORK
    assert "to run 1 task," in why.what


def test_a_result_is_waited_for_as_long_as_the_dispatcher_answers(driven_core):
    reader = driven_core()
    reader.view((1, 1, "w"), next_save=2)
    reader.core.save("best", 30.0, 0.0)

    why = wait_reason(reader.core, "here:1", "", 0.0)

    assert why.target is WaitTarget.WORK
    assert why.what.startswith("the result of save_job('best'): the job's other readers have 30 s")
    assert wait_reason(reader.core, "here:1", "refused", 0.0).target is WaitTarget.DISPATCHER


def test_a_worker_that_is_opened_again_and_again_is_one_wait(driven_core):
    reader, patience = driven_core(), WaitTimeout(5.0, 0.0)
    reader.view((1, 1, "w"))

    with pytest.raises(WaitedTooLong, match=r"waited 5.* worker w to answer \(refused.*timeout=5"):
        for tenth in range(80):
            reader.now = now = tenth / 10
            if tenth % 3 == 0:
                reader.core.on_stream_broken(1, reader.core.tasks[1].subscription, "refused", now)
            reader.core.on_tick(now)
            patience.spend(wait_reason(reader.core, "here:1", "", now), now)


def test_a_worker_that_is_lost_is_waited_for_as_it_was_before():
    patience = WaitTimeout(3.0, 0.0)
    patience.spend(WaitReason(WaitTarget.WORKER, "worker w to answer (refused)"), 0.0)
    patience.spend(NOBODY, 1.9)

    with pytest.raises(WaitedTooLong, match=r"waited 3\.0 s.*none is registered"):
        patience.spend(NOBODY, 3.0)


def test_ticks_wake_waits_now_and_then_however_many_there_are():
    ticks = Ticks()

    woken = sum(ticks.wakes(at / 8000) for at in range(8000))

    assert woken == pytest.approx(1 / TICKS_WAKE_EVERY, abs=1)


def test_a_long_sleep_is_interrupted_once_and_a_short_one_not():
    ticks = Ticks()

    assert ticks.sleep(7.0, 7.04, 0.05) == pytest.approx(0.04)
    assert not ticks.interrupt()
    assert ticks.sleep(7.0, 8.0, 0.05) == 1.0
    assert [ticks.interrupt(), ticks.interrupt()] == [True, False]


def test_what_is_due_already_does_not_make_the_clock_spin():
    assert Ticks().sleep(7.0, 4.0, 0.05) == pytest.approx(LEAST)


def test_a_tick_comes_sooner_where_that_is_worth_it():
    ticks = Ticks()
    ticks.sleep(7.0, 7.04, 0.05)

    assert not ticks.interrupt_for(7.04 - SOONER / 2)
    assert [ticks.interrupt_for(7.01), ticks.interrupt_for(7.01)] == [True, False]
