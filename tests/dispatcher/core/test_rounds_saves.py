"""Saves of coordinated reads: at equal rounds, and restored by more or fewer consumers."""

import json

import pytest

from penstock.protocol.calls import OpenIterationReply
from penstock.protocol.types import Checkpoint, Mode
from tests.dispatcher.core.coordinated import Coordinated


def reading(workers=2, **more):
    world = Coordinated(**more)
    for number in range(workers):
        world.worker(f"w{number}")
    world.joins(0), world.joins(1)
    return world, *world.readers.values()


def result(consumer):
    one = consumer.result
    return one if one.failure is None else str(one.failure.error())


def saved(**more):
    """Return a pass and its state at round 3, with rounds in hand behind that."""
    world, a, b = reading(**more)
    world.all_hold(t0=4, t1=4)
    world.reports(a, taken=3)
    world.reports(b, taken=3)
    world.made(world.tasks[0], 9, checkpoint=Checkpoint(2))
    world.saves(a)
    world.saves(b)
    return world, result(a).state


def test_a_save_at_equal_rounds_says_where_each_task_goes_on():
    world, state = saved()

    known = json.loads(state)
    assert known["rounds"] == {"round": 3, "turn": 0, "consumers": 2, "log": [1, 0, 1, 0, 1]}
    assert [task["acked"]["floor"] for task in known["tasks"]] == [4, 2]
    assert known["tasks"][0]["checkpoint"]["number"] == 2


def test_a_save_at_different_rounds_fails_for_all_and_says_why():
    world, a, b = reading()
    world.all_hold(t0=4, t1=4)
    world.reports(a, taken=3)
    world.reports(b, taken=2)

    world.saves(a)
    world.saves(b)

    assert result(a) == result(b)
    assert "consumer 0 (host host, pid 101) at round 3" in result(a)
    assert "consumer 1 (host host, pid 101) at round 2" in result(a)
    assert "belong before distribute" in result(a)


def test_a_save_waits_for_consumers_that_are_not_there():
    world = Coordinated(consumers=3)
    world.worker("w")
    a, b = world.joins(0), world.joins(1)
    world.saves(a)
    world.saves(b)
    assert a.result is None

    world.passes(61, a, b)

    assert "consumer 2 did not come to it" in result(a)


def test_a_restored_pass_begins_with_the_rounds_that_were_released():
    world, state = saved()
    world.opens(restore=state)
    world.readers.clear()
    world.joins(0), world.joins(1)

    world.all_hold(t0=2)
    assert world.released == [], "the round of task 1 comes first"
    world.all_hold(t1=2)
    assert world.released == [1, 0, 1, 0]
    world.all_hold(t0=4)
    assert world.released == [1, 0, 1, 0], "another round of task 1 was released, too"
    world.all_hold(t1=4)
    assert world.released == [1, 0, 1, 0, 1, 0, 1, 0], "then tasks take turns"
    restarted = world.core.state
    world.restart()
    assert world.core.state == restarted


def test_a_plan_ends_where_a_task_has_less_than_before():
    world, state = saved()
    world.opens(restore=state)
    world.readers.clear()
    world.joins(0), world.joins(1)
    _, t1 = world.tasks[-2:]

    world.made(t1, 4, ended=True)  # of which 2 were taken before
    world.all_hold(t0=4, t1=1)
    assert world.released == [1, 0, 0, 0, 0]


@pytest.mark.parametrize("consumers", [1, 3])
def test_a_restored_pass_goes_on_at_the_round_with_any_number_of_consumers(consumers):
    world, state = saved()

    world.parameters["num_consumers"] = consumers
    world.opens(restore=state)
    world.readers.clear()
    for index in range(consumers):
        world.joins(index)

    assert world.rounds.floor == 3
    assert [consumer.view.rounds.start for consumer in world.readers.values()] == [3] * consumers
    runs = {run.index: run for name in ("w0", "w1") for run in world.assignments[name].tasks}
    assert {index: run.grouped.base for index, run in runs.items()} == {0: 4, 1: 2}
    assert {run.grouped.consumers for run in runs.values()} == {consumers}
    assert runs[0].checkpoint.number == 2
    world.all_hold(t0=1, t1=1)
    assert world.released == [1, 0], "the turn is that of the task behind the last round"
    restarted = world.core.state
    world.restart()
    assert world.core.state == restarted


def test_all_who_restore_have_the_same_number_of_consumers():
    world, state = saved()
    world.opens(restore=state, num_consumers=3)
    world.parameters["num_consumers"] = 3
    world.joins(0)

    assert isinstance(world.open(restore=state), OpenIterationReply)
    assert "its num_consumers is 3, not 4" in world.refused(restore=state, num_consumers=4)


def test_rounds_are_not_restored_without_rounds_nor_the_other_way_round():
    world, state = saved()
    other = Coordinated(consumers=None)
    plain = {**json.loads(state)}
    del plain["rounds"]

    assert "read in rounds, not without num_consumers" in other.refused(restore=state)
    assert "read without, not in rounds" in world.refused(restore=json.dumps(plain).encode())


@pytest.mark.parametrize(
    "rounds, place",
    [
        ({"round": 3, "turn": 7, "consumers": 2}, "$.rounds.turn"),
        ({"round": -3, "turn": 0, "consumers": 2}, "$.rounds.round"),
        ({"round": 3, "turn": 0, "consumers": 0}, "$.rounds.consumers"),
        ({"round": 3, "turn": 0}, "consumers"),
        ({"round": 3, "turn": 0, "consumers": 2, "log": [0, 2]}, "$.rounds.log"),
    ],
)
def test_a_state_that_makes_no_sense_is_refused_with_the_place(rounds, place):
    world, state = saved()
    damaged = json.dumps({**json.loads(state), "rounds": rounds}).encode()

    assert place in world.refused(restore=damaged)


def test_a_pass_that_is_over_is_saved_and_restored():
    world, a, b = reading(workers=1)
    world.made(*world.tasks, 4, ended=True)
    world.all_hold(t0=2)
    world.reports(a, taken=2)
    world.reports(b, taken=2)
    assert world.record.finished
    world.saves(a)
    state = result(a).state

    assert json.loads(state)["rounds"]["round"] == 2
    world.opens(restore=state)
    assert world.record.finished


def test_the_account_of_a_restored_pass_balances():
    world, state = saved(mode=Mode.DYNAMIC, units=12)
    world.opens(restore=state, num_consumers=1)
    world.readers.clear()
    (a,) = [world.joins(0)]
    world.parameters["num_consumers"] = 1
    while world.record.providers[0].left:
        world.ask(world.tasks[0])
    world.made(world.tasks[0], 9, ended=True)
    world.made(world.tasks[1], 3, ended=True)
    world.all_hold(t0=5, t1=1)
    assert a.view.rounds.last == 3 + 6

    world.reports(a, taken=9)

    (known,) = [one for one in world.core.stats(world.now).iterations if one.finished]
    assert known.faults == ()
    assert known.account.acked == known.account.elements == 12
