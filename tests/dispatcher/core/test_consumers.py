"""Consumers of coordinated reads: who joins, who takes whose place, and who is lost."""

from dataclasses import replace

import pytest

from penstock.protocol.control import ReaderHeartbeat, UnreachableWorker
from penstock.protocol.types import ReaderStatus
from penstock_dispatcher.core.events import Tick
from penstock_dispatcher.core.facts import ConsumerEnded
from penstock_dispatcher.core.settings import CoreSettings
from tests.dispatcher.core.coordinated import Coordinated


def reading(consumers=2, taken=(), released=8, **more):
    """Return a pass of one task in which so many rounds are released, and taken by each."""
    world = Coordinated(consumers=consumers, **more)
    world.worker("w")
    for index in range(consumers):
        world.joins(index)
    world.all_hold(t0=released)
    for consumer, rounds in zip(world.readers.values(), taken, strict=False):
        world.reports(consumer, taken=rounds)
    return world, *world.readers.values()


def at_the_end(taken, consumers=2):
    """Return a pass of 8 rounds, all released, taken by each."""
    world = Coordinated(consumers=consumers)
    world.worker("w")
    for index in range(consumers):
        world.joins(index)
    world.made(world.tasks[0], 8 * consumers, ended=True)
    world.all_hold(t0=8)
    assert world.rounds.last == 8
    for consumer, rounds in zip(world.readers.values(), taken, strict=True):
        world.reports(consumer, taken=rounds)
    return world, *world.readers.values()


def failure(consumer):
    return f"{consumer.failure.kind}: {consumer.failure.error()}"


# --- joining ---


def test_consumers_begin_with_round_0_in_whatever_order_they_come():
    world = Coordinated(consumers=3)
    world.worker("w")

    starts = [world.joins(index).view.rounds.start for index in (2, 0, 1)]

    assert starts == [0, 0, 0]
    assert sorted(world.rounds.members) == [0, 1, 2]


def test_a_session_that_asks_twice_is_one_reader():
    world = Coordinated()
    a = world.joins(0)
    known = a.id
    a.id = None

    world.reports(a)

    assert a.id == known
    assert len(world.record.readers) == 1


def test_an_index_beyond_the_consumers_is_refused():
    world = Coordinated(consumers=2)

    assert "consumer_index must be below num_consumers, 2" in failure(world.joins(2))


def test_a_reader_that_says_not_which_consumer_it_is_is_refused():
    world = Coordinated()
    a = world.joins(0)

    world.tell(ReaderHeartbeat(world.iteration, a.session, None, 9))

    assert "give consumer_index and num_consumers" in failure(a)


def test_a_consumer_of_a_job_that_is_not_read_in_rounds_is_refused():
    world = Coordinated(consumers=None)

    assert "is not read in rounds" in failure(world.joins(0))


def test_a_job_has_one_number_of_consumers():
    world = Coordinated(consumers=2)

    assert "its num_consumers is 2, not 3" in world.refused(num_consumers=3)
    assert "its patience is None, not 1" in world.refused(patience=1)


def test_without_a_round_a_newcomer_begins_where_the_foremost_is():
    world, a, b, c = reading(3, taken=(5, 2, 3))

    again = world.joins(1, stamp=2)

    assert again.view.rounds.start == 5
    assert again.view.rounds.first == 5


def test_a_newcomer_is_not_behind_one_that_has_only_joined():
    world, a, b, c = reading(3, taken=(5, 2, 3))
    world.joins(0, stamp=2, start=8)

    assert world.joins(1, stamp=2).view.rounds.start == 8


@pytest.mark.parametrize("start", [2, 5, 8])
def test_a_newcomer_may_begin_with_any_round_that_is_there(start):
    world, a, b = reading(taken=(2, 5))

    again = world.joins(1, stamp=2, start=start)

    assert again.view.rounds.start == start
    assert len(again.log) == 8 - start


@pytest.mark.parametrize("start", [1, 9])
def test_a_newcomer_hears_which_rounds_there_are(start):
    world, a, b = reading(taken=(2, 5))

    again = world.joins(1, stamp=2, start=start)

    assert f"begin with round {start}, and rounds 2 to 8 can be had" in failure(again)
    assert again.failure.kind == "DatasetError"
    assert b.failure is None, "nobody is displaced by one that cannot begin"


def test_the_floor_does_not_move_because_somebody_joins_again():
    world, a, b = reading(taken=(7, 3))

    again = world.joins(1, stamp=2, start=6)
    world.reports(a)
    assert world.rounds.floor == 3
    third = world.joins(1, stamp=3, start=3)
    assert third.view.rounds.start == 3, "its predecessor took nothing"
    world.reports(third)
    assert world.rounds.floor == 3
    world.reports(third, taken=5)

    assert world.rounds.floor == 5
    assert again.failure.kind == "Superseded"


def test_a_consumer_that_goes_back_keeps_the_floor():
    world, a, b = reading(taken=(7, 5))
    assert world.rounds.floor == 5
    again = world.joins(0, stamp=2, start=5)
    world.reports(again)
    world.reports(b, taken=8)

    assert world.rounds.floor == 5
    assert again.log == b.log or len(again.log) == 3


# --- who has a place ---


def test_a_later_process_takes_the_place_of_an_earlier_one():
    world, a, b = reading(taken=(2, 5))

    world.joins(1, stamp=7)

    assert failure(b).startswith("Superseded: another process (host host, pid 107) reads job 'j'")
    assert "as consumer 1" in failure(b)
    assert len(world.record.live) == 2


def test_an_earlier_process_does_not_displace_a_later_one():
    world, a, b = reading()
    later = world.joins(1, stamp=7)

    earlier = world.joins(1, stamp=3)

    assert "Superseded: another process (host host, pid 107)" in failure(earlier)
    assert later.failure is None


def test_an_earlier_process_comes_into_the_place_of_one_that_is_silent():
    world, a, b = reading(taken=(2, 5))
    later = world.joins(1, stamp=7)
    world.passes(11, a)

    earlier = world.joins(1, stamp=3)

    assert earlier.view.rounds.start == 5
    assert later.failure.kind == "Superseded"


def test_one_that_was_displaced_and_did_not_hear_of_it_is_told():
    world, a, b = reading()
    world.joins(1, stamp=7)
    b.failure = None

    world.reports(b)

    assert b.failure.kind == "Superseded"


def test_a_process_whose_reader_expired_goes_on_where_it_was():
    world, a, b = reading(taken=(2, 5))
    world.passes(60)
    assert not world.record.live
    assert world.rounds.floor == 2

    world.reports(b, taken=6)
    assert b.view.status is ReaderStatus.EXPIRED
    b.start = 6
    world.reports(b)

    assert b.view.rounds.start == 6
    assert world.rounds.account.missed == 0, "it took what it had not reported"


def test_a_newcomer_begins_where_one_is_that_expired_and_is_heard_again():
    world, a, b = reading(taken=(2, 5))
    world.passes(60)
    world.reports(a, taken=6)
    assert a.view.status is ReaderStatus.EXPIRED

    assert world.joins(1, stamp=2).view.rounds.start == 6


def test_what_a_displaced_process_says_behind_the_end_is_neither_missed_nor_unreported():
    world, a, b = at_the_end(taken=(7, 8))
    later = world.joins(0, stamp=2)
    assert later.view.rounds.start == 8
    world.reports(later)
    assert world.record.finished
    (known,) = world.core.stats(world.now).iterations
    assert (known.account.rounds.missed, known.account.consumed) == (1, 15)
    assert known.account.unreported

    world.reports(a, taken=8)
    for consumer in (a, b, later):
        world.reports(consumer, leaving=True)

    (known,) = world.core.stats(world.now).iterations
    assert (known.account.rounds.missed, known.account.consumed) == (0, 16)
    assert not known.account.unreported
    assert known.faults == ()


def test_what_a_displaced_process_took_twice_counts_when_it_is_back():
    world, a, b = reading(taken=(3, 5))
    later = world.joins(0, stamp=2, start=4)
    world.reports(later, taken=6)
    assert world.rounds.account.missed == 1
    world.passes(60)

    again = world.joins(0, stamp=1, start=5, session=a.session)
    assert again.view.rounds.start == 5

    # It took rounds 3 and 4, and round 4 was taken again; then round 5 is.
    assert (world.rounds.account.missed, world.rounds.account.repeated) == (0, 2)


def test_what_one_took_that_expired_and_left_as_soon_as_it_was_back_is_not_missed():
    world, a, b = reading(taken=(2, 5))
    world.passes(60)
    world.reports(a, taken=4)
    a.start, a.began = 4, 0
    world.tell(a.heartbeat())  # it is let in, and leaves before it hears of that
    a.id = None
    world.reports(a, leaving=True)

    assert world.joins(0, stamp=2, start=4).view.rounds.start == 4
    assert world.rounds.account.missed == 0


def test_what_newcomers_take_again_or_miss_is_counted():
    world, a, b = reading(taken=(2, 5))

    world.joins(1, stamp=2, start=3)
    world.joins(0, stamp=2, start=6)

    known = world.rounds.account
    assert (known.repeated, known.missed) == (2, 4)


# --- lost ---


def test_a_silent_consumer_is_named_when_its_lease_is_over():
    world, a, b = reading(taken=(2, 5))

    world.passes(9, a)
    assert a.lost == []
    world.passes(2, a)

    assert a.lost[0].startswith("consumer 1 (host host, pid 101), silent for 1")
    assert len(a.lost) == 1


def test_one_that_is_back_is_named_no_more_and_all_hear_of_it():
    world, a, b = reading(taken=(2, 5))
    world.passes(11, a)
    assert a.lost

    world.reports(b)

    assert a.lost == b.lost == []


def test_one_that_never_came_is_named():
    world = Coordinated(consumers=3)
    a = world.joins(0)
    world.joins(2)

    world.passes(11, *world.readers.values())

    assert a.lost == ["consumer 1, which never came"]


def test_one_that_left_before_the_end_is_named_at_once():
    world, a, b = reading(taken=(2, 5))

    world.reports(b, leaving=True)

    assert a.lost == ["consumer 1 (host host, pid 101), which left at round 5"]
    world.joins(1, stamp=2)
    assert a.lost == []


def test_one_that_left_at_the_end_is_not_named():
    world, a, b = reading()
    world.made(*world.tasks, 16, ended=True)
    world.reports(b, taken=8, leaving=True)

    world.passes(20, a)

    assert a.lost == []


def test_consumers_that_all_start_again_have_a_lease_to_come():
    world, a, b = reading(taken=(2, 5))
    world.passes(12)

    again = world.joins(0, stamp=2, start=2)
    assert again.lost == []
    world.passes(9, again)
    assert again.lost == []
    world.passes(2, again)

    assert again.lost[0].startswith("consumer 1 (host host, pid 101), silent for 2")


def test_consumers_that_all_left_have_a_lease_to_come_back():
    world, a, b = reading(taken=(2, 5))
    world.reports(a, leaving=True)
    world.reports(b, leaving=True)

    again = world.joins(0, stamp=2)

    assert again.lost == []


def test_a_consumer_does_not_expire_alone():
    world, a, b = reading(taken=(2, 5))

    world.passes(100, a)
    assert len(world.record.live) == 2
    world.passes(40)

    assert not world.record.live


def test_an_abandoned_pass_is_forgotten_as_others_are():
    world, a, b = reading(settings=CoreSettings(idle=60.0, sweep_interval=1.0))

    world.passes(120)

    assert world.iteration not in world.core.state.iterations
    assert not world.core.ctx.soft_state.consumers


# --- restarts of the dispatcher, workers that some do not reach ---


def test_after_a_restart_a_newcomer_waits_until_the_others_are_heard():
    world, a, b, c = reading(3, taken=(5, 2, 3))
    world.restart()

    again = world.joins(1, stamp=2)
    assert again.view is None
    assert again.failure is None
    world.reports(a)
    world.reports(again)
    assert again.view is None
    world.reports(c)
    world.reports(again)

    assert again.view.rounds.start == 5


def test_after_a_restart_a_newcomer_does_not_wait_for_one_that_is_lost():
    world, a, b, c = reading(3, taken=(5, 2, 3))
    world.restart()

    again = world.joins(1, stamp=2)
    world.passes(12, a, again)

    assert again.view.rounds.start == 5


def test_after_a_restart_what_was_not_reported_again_is_not_settled():
    world, a, b = reading(taken=(7, 3))
    world.joins(1, stamp=2, start=8)
    world.restart()

    world.reports(a)

    assert world.rounds.floor == 3


def test_a_task_leaves_a_worker_that_one_consumer_does_not_reach():
    world, a, b = reading()
    (task,) = world.tasks
    world.worker("w2")
    first = world.task(task).worker

    beat = replace(a.heartbeat(), unreachable={first: UnreachableWorker(1, 9.0)})
    world.tell(beat)
    world.tell(Tick())

    assert world.task(task).worker == "w2"
    assert {world.task(name).worker for name in world.tasks} == {"w2"}


# --- the end ---


def test_that_a_consumer_took_all_rounds_is_written_before_it_is_answered():
    world, a, b = at_the_end(taken=(8, 7))

    ended = [fact for fact in world.facts if isinstance(fact, ConsumerEnded)]
    assert ended == [ConsumerEnded(world.iteration, a.id, 8)]
    world.reports(a)
    assert len([fact for fact in world.facts if isinstance(fact, ConsumerEnded)]) == 1


def test_a_consumer_that_came_to_the_end_is_not_needed_behind_a_restart():
    world, a, b = at_the_end(taken=(8, 7))
    world.restart()  # and the process of consumer 0 has ended, unheard

    world.beat("w")
    world.reports(b, taken=8)

    assert world.record.finished
    world.reports(b, leaving=True)
    (known,) = world.core.stats(world.now).iterations
    assert (known.account.consumed, known.account.unreported) == (16, 0)
    assert known.faults == ()


def test_a_pass_whose_consumers_all_came_to_the_end_is_over_behind_a_restart_without_them():
    world, a, b = at_the_end(taken=(8, 7))
    world.restart()
    world.core.state.apply(ConsumerEnded(world.iteration, b.id, 8))  # the last that was durable

    world.beat("w")
    world.passes(60)

    assert world.record.finished


def test_the_end_is_not_written_of_one_whose_place_another_has():
    world, a, b = at_the_end(taken=(7, 7))
    world.joins(0, stamp=2)

    world.reports(a, taken=8)

    assert a.failure.kind == "Superseded"
    assert not [fact for fact in world.facts if isinstance(fact, ConsumerEnded)]
