"""Coordinated reads at a worker: each consumer gets its elements, group by group."""

from dataclasses import replace

import pytest

from penstock.protocol.data import Subscribe
from penstock.protocol.ranges import NO_RANGES, NOTHING_ACKED
from penstock.protocol.rounds import ELEMENT_NBYTES, GroupsWanted, Remainder
from penstock.protocol.types import Checkpoint, ReaderId, ReaderStatus
from penstock_worker.core.events import (
    Drained,
    DrainRequested,
    HeartbeatDue,
    RunnerLost,
    StartRunner,
    StopRunner,
    StreamOpened,
    StreamWritable,
    Tick,
)
from penstock_worker.core.round_groups import BURST, HEADER
from penstock_worker.runner.messages import ArenaFull, CheckpointTaken, RunPaused
from tests.worker.core.driven_task import TASK
from tests.worker.core.group_consumers import EACH, GroupConsumers


def of(kind, effects):
    return [effect for effect in effects if isinstance(effect, kind)]


def progress(world):
    return world.core.heartbeat().progress[TASK]


# --- who gets what ---


def test_each_consumer_gets_its_own_element_of_each_group():
    world = GroupConsumers(3)
    for index in range(3):
        world.open(index + 1, index)

    world.make(8)

    assert world.sent == {
        1: [(0, 0, False), (1, 3, False), (2, 6, False)],
        2: [(0, 1, False), (1, 4, False), (2, 7, False)],
        3: [(0, 2, False), (1, 5, False)],
    }


def test_groups_begin_at_the_base():
    world = GroupConsumers(2, base=5, floor=5, state=3)
    world.open(1, 0)
    world.open(2, 1)

    world.make(4)

    assert (world.numbers(1), world.numbers(2)) == ([5, 7], [6, 8])


def test_an_element_is_sent_as_soon_as_it_is_made_whatever_others_have():
    world = GroupConsumers(2)
    world.make(3)

    world.open(2, 1)

    assert world.numbers(2) == [1]
    world.make()
    assert world.numbers(2) == [1, 3]


def test_a_consumer_is_sent_no_more_than_it_has_credit_for_and_one_frame_besides():
    world = GroupConsumers(1)
    world.open(1, 0, credit=EACH + 1)

    world.make(4)
    assert world.numbers(1) == [0, 1]

    world.ack(1, credit=EACH)
    assert world.numbers(1) == [0, 1, 2]


def test_an_element_without_bytes_takes_credit_too():
    world = GroupConsumers(1)
    world.open(1, 0, credit=2 * ELEMENT_NBYTES)

    world.make(4, nbytes=0)
    assert world.numbers(1) == [0, 1]


def test_a_stream_that_cannot_be_written_to_gets_nothing():
    world = GroupConsumers(1)
    world.writes = False
    world.open(1, 0)

    world.make(3)
    assert world.numbers(1) == [0]

    world.tell(StreamWritable(1))
    assert world.numbers(1) == [0, 1, 2]


def test_a_stream_gets_a_burst_at_a_time():
    world = GroupConsumers(1)
    world.make(5, nbytes=BURST // 2 - HEADER)
    world.writes = False

    world.open(1, 0, credit=10 * BURST)

    assert world.numbers(1) == [0, 1]


@pytest.mark.parametrize("remainder", Remainder)
@pytest.mark.parametrize("left", range(4))
def test_what_is_left_over_is_dropped_or_fills_a_last_group(remainder, left):
    world = GroupConsumers(4, remainder=remainder)
    for index in range(4):
        world.open(index + 1, index)
    world.make(8 + left)

    world.end()

    last = [[sent for sent in world.sent[i + 1] if sent[0] == 2] for i in range(4)]
    whole = [[(2, 8 + i, False)] if i < left else [] for i in range(4)]
    if remainder is not Remainder.DROP and left:
        filler = remainder is Remainder.PAD
        whole[left:] = [[(2, 8 + i % left, filler)] for i in range(left, 4)]
    assert last == whole
    assert progress(world).ended and progress(world).head == 8 + left
    assert world.freed == ([*range(8, 8 + left)] if remainder is Remainder.DROP else [])


def test_a_consumer_that_comes_behind_the_end_gets_its_filler():
    world = GroupConsumers(3, remainder=Remainder.PAD)
    world.make(4)
    world.end()

    world.open(1, 2)

    assert world.sent[1] == [(0, 2, False), (1, 3, True)]


def test_the_end_is_reported_at_once():
    world = GroupConsumers(2)
    world.make(3)

    assert HeartbeatDue() in world.end()


# --- what is kept ---


def test_nothing_is_freed_before_all_have_taken_it():
    world = GroupConsumers(2)
    world.open(1, 0)
    world.open(2, 1)
    world.make(6)

    assert world.freed == []
    world.ack(1, floor=2)
    assert world.freed == [0, 1]


def test_the_floor_comes_from_readers_and_from_the_dispatcher_and_never_falls():
    world = GroupConsumers(2)
    world.make(8)

    world.open(1, 0, 1, floor=2)
    assert world.freed == [0, 1]
    world.assign(floor=6)
    assert world.freed == [0, 1, 2, 3, 4, 5]
    world.ack(1, floor=4)
    assert progress(world).acked.floor == 6


def test_a_frame_that_all_took_from_an_earlier_attempt_is_not_kept():
    world = GroupConsumers(2, floor=2)

    world.assign(floor=6)
    world.make(6)

    assert world.freed == [2, 3, 4, 5]
    assert progress(world).head == 8


def test_only_checkpoints_at_or_below_the_floor_are_reported():
    world = GroupConsumers(2)
    world.open(1, 0)
    world.make(4)
    for number in (2, 4):
        world.tell(CheckpointTaken(world.runner, Checkpoint(number)))

    assert progress(world).checkpoint is None
    world.assign(floor=2)
    assert progress(world).checkpoint == Checkpoint(2)


def test_a_task_that_all_have_taken_stays_until_it_is_not_listed():
    world = GroupConsumers(2, remainder=Remainder.PAD)
    world.open(1, 0)
    world.open(2, 1)
    world.make(3)
    world.end()

    over = world.ack(1, floor=4)

    assert of(StopRunner, over) and progress(world).done
    assert sorted(world.freed) == [0, 1, 2]
    assert world.ends == {}
    world.assign(listed=False)
    assert world.ends == {1: None, 2: None}


# --- streams ---


def test_a_broken_stream_goes_on_where_its_reader_says():
    world = GroupConsumers(2)
    world.open(1, 0)
    world.make(8)
    world.close(1)

    world.open(2, 0, 2, subscription=2)

    assert world.groups(1) == [0, 1, 2, 3]
    assert world.groups(2) == [2, 3]


def test_the_newest_subscription_of_a_reader_wins():
    world = GroupConsumers(2)
    world.open(2, 0, subscription=2)
    world.open(1, 0, subscription=1)
    world.make(2)

    assert world.ends == {1: None}
    assert world.groups(2) == [0]


def test_the_newest_reader_of_a_consumer_wins():
    world = GroupConsumers(2)
    world.open(1, 0, reader=8, subscription=5)
    world.open(2, 0, reader=9)
    world.open(3, 0, reader=8, subscription=6)
    world.make(2)

    assert world.ends == {1: None, 3: None}
    assert world.sent == {2: [(0, 0, False)]}


def test_a_reader_that_is_removed_takes_nothing_from_its_consumer():
    world = GroupConsumers(2)
    world.open(1, 0, reader=1)
    world.make(4)

    world.assign(readers={ReaderId(1): ReaderStatus.LEFT})
    assert world.ends == {1: None}
    world.close(1)

    world.open(2, 0, 1, reader=2)
    assert world.numbers(2) == [2]
    assert world.core.counters.in_doubt == world.core.counters.requeued == 0


def test_an_ended_stream_may_still_say_something():
    world = GroupConsumers(1)
    world.open(1, 0, reader=1)
    world.open(2, 0, reader=2)

    world.ack(1, credit=5)
    world.tell(StreamWritable(1))
    world.close(1)

    world.make()
    assert world.numbers(2) == [0]


@pytest.mark.parametrize(
    ("index", "group", "why"),
    [
        (2, 0, "which of its 2 consumers"),
        (None, 0, "which of its 2 consumers"),
        (0, 1, "group 1 of consumer 0, and all consumers have taken the groups below 2"),
    ],
)
def test_who_wants_what_nobody_can_have_is_refused(index, group, why):
    world = GroupConsumers(2, floor=4)

    world.open(1, index, group, reader=1)

    assert why in world.ends[1]
    assert not world.attempt.over


def test_groups_of_a_task_without_any_are_refused():
    world = GroupConsumers(2)
    world.run = replace(world.run, attempt=2, grouped=None)
    world.assign()
    wants = GroupsWanted(0, 0)

    world.tell(
        StreamOpened(1, Subscribe(ReaderId(1), TASK, 2, 1, NOTHING_ACKED, NO_RANGES, 9, wants))
    )

    assert "is not read in groups" in world.ends[1]


def test_a_stream_of_which_a_newer_process_took_more_ends():
    world = GroupConsumers(1)
    world.open(1, 0, credit=EACH)
    world.make(3)

    world.assign(floor=3)
    world.ack(1, credit=EACH)

    assert world.numbers(1) == [0]
    assert world.ends == {1: None}


# --- no room ---


def test_where_there_is_no_room_what_was_sent_makes_room_for_who_waits():
    world = GroupConsumers(2)
    world.open(1, 0)
    world.open(2, 1)
    world.make(8)

    world.tell(ArenaFull(world.runner))

    assert world.freed == [0]
    assert world.core.counters.frames_dropped == 1
    world.make(2)
    assert world.numbers(1) == [0, 2, 4, 6, 8]


def test_what_was_not_sent_makes_no_room():
    world = GroupConsumers(2)
    world.open(1, 0)
    world.make(8)

    world.tell(ArenaFull(world.runner))

    assert world.freed == [0]
    world.make()
    world.tell(ArenaFull(world.runner))
    world.tell(ArenaFull(world.runner))
    world.open(2, 1)
    assert world.numbers(2) == [1, 3, 5, 7]


def test_a_full_arena_waits_while_nobody_waits_for_what_is_not_made():
    world = GroupConsumers(2)
    world.open(1, 0, credit=3 * EACH)
    world.open(2, 1, credit=3 * EACH)
    world.make(8)

    world.tell(ArenaFull(world.runner))
    assert world.freed == []

    world.ack(1, credit=2 * EACH)
    assert world.freed == [0]


def test_a_group_that_is_larger_than_the_arena_reaches_all():
    world = GroupConsumers(8, remainder=Remainder.PAD)
    for index in range(8):
        world.open(index + 1, index)
    for _ in range(14):
        if len(world.places) == 3:
            world.tell(ArenaFull(world.runner))
        world.make()
    world.end()

    assert [world.groups(i + 1) for i in range(8)] == [[0, 1]] * 8
    assert {world.sent[i + 1][1][2] for i in (6, 7)} == {True}
    assert not world.core.heartbeat().ended


def test_if_a_dropped_frame_is_needed_again_the_attempt_is_over():
    world = GroupConsumers(2)
    world.open(1, 0)
    world.open(2, 1)
    world.make(8)
    world.tell(ArenaFull(world.runner))
    world.close(1)

    world.open(3, 0, 1, subscription=2)
    assert world.numbers(3) == [2, 4, 6]
    world.close(3)
    world.open(4, 0, 0, subscription=3)

    assert world.core.heartbeat().ended == {(TASK, 1)}
    assert world.ends == {2: None, 4: None}
    assert not world.places or all(run == world.runner for run, _ in world.places)


# --- what goes wrong ---


def test_another_runner_goes_on_where_one_died_and_what_was_made_stays():
    world = GroupConsumers(2)
    world.open(1, 0)
    world.make(3)
    world.tell(CheckpointTaken(world.runner, Checkpoint(2)))

    started = of(StartRunner, world.tell(RunnerLost(world.runner, "died")))

    assert [(start.assignment.checkpoint.number, start.send_from) for start in started] == [(2, 3)]
    world.make(2)
    assert world.numbers(1) == [0, 2, 4]
    world.open(2, 1)
    assert world.numbers(2) == [1, 3]


def test_a_failure_comes_behind_all_that_was_made_before_it():
    world = GroupConsumers(2)
    world.open(1, 0)
    world.open(2, 1, credit=EACH)
    world.make(4)

    world.fail()
    assert list(world.ends) == [1] and "it broke" in world.ends[1]
    assert world.numbers(2) == [1]

    world.ack(2, credit=EACH)
    assert world.numbers(2) == [1, 3]
    assert "it broke" in world.ends[2]
    assert progress(world).failure.kind == "TransformError" and not progress(world).ended


def test_a_worker_that_drains_hands_over_as_soon_as_its_runner_has_paused():
    world = GroupConsumers(2)
    world.open(1, 0, credit=1)
    world.make(5)

    world.tell(DrainRequested())
    assert not world.core.heartbeat().ended
    world.tell(CheckpointTaken(world.runner, Checkpoint(5)))
    world.tell(RunPaused(world.runner))

    assert world.core.heartbeat().ended == {(TASK, 1)}
    assert progress(world).head == 5
    assert world.ends == {1: None}
    assert Drained() in world.assign(listed=False)


def test_a_worker_that_drains_hands_over_a_task_that_has_ended():
    world = GroupConsumers(2)
    world.open(1, 0)
    world.make(5)
    world.end()

    world.tell(DrainRequested())

    assert world.core.heartbeat().ended == {(TASK, 1)}
    assert progress(world).ended


def test_a_worker_that_drains_says_a_failure_to_all_who_read():
    world = GroupConsumers(1)
    world.open(1, 0, credit=EACH)
    world.make(2)
    world.fail()

    world.tell(DrainRequested())
    assert not world.core.heartbeat().ended
    world.ack(1, credit=EACH)

    assert "it broke" in world.ends[1]
    assert world.core.heartbeat().ended == {(TASK, 1)}


def test_time_changes_nothing():
    world = GroupConsumers(2)
    world.open(1, 0)
    world.make(2)
    world.now = 100.0

    assert world.tell(Tick()) == [HeartbeatDue()]


def test_counters_and_counts_tell_what_became_of_it():
    world = GroupConsumers(2, remainder=Remainder.PAD)
    world.open(1, 0)
    world.open(2, 1, credit=1)
    world.make(5)
    world.end()
    world.ack(1, floor=2)

    counts = world.attempt.delivery.counts()
    assert (counts.ready, counts.unacked, counts.streams) == (1, 2, 2)
    counters = world.core.counters
    assert (counters.elements_sent, counters.frames_sent) == (4, 4)
    assert (counters.elements_acked, counters.elements_made) == (2, 5)
    assert progress(world).counts.sent == 4
