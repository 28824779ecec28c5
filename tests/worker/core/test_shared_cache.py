"""Cached tasks: one window, from which each trainer gets each element once."""

from dataclasses import replace

import pytest

from penstock.protocol.cache import Cached, TrainerProgress, WhenFull
from penstock.protocol.control import Assignment
from penstock.protocol.ranges import RangeSet
from penstock.protocol.rounds import GroupsWanted
from penstock.protocol.types import Checkpoint, Failure, ReaderStatus, TaskId
from penstock_worker.core.events import DispatcherConnected, DrainRequested, RunnerLost, Tick
from penstock_worker.core.shared_cache import EXPECTED_TICKS
from penstock_worker.runner.messages import CheckpointTaken, RunFailed, RunPaused
from tests.worker.core.cache_trainers import NBYTES, CacheTrainers, acked
from tests.worker.core.driven_task import TASK

WAIT = WhenFull.WAIT
ONE, OTHER = 1, 2


def numbers(start, stop):
    return list(range(start, stop))


# --- who gets what ---


def test_each_trainer_gets_each_element_once():
    task = CacheTrainers(frames=10)
    task.open(ONE, "a")
    task.open(OTHER, "b")

    task.make(5)

    assert task.got(ONE) == task.got(OTHER) == numbers(0, 5)


def test_the_readers_of_a_trainer_share_its_elements():
    task = CacheTrainers(frames=10)
    for stream, trainer in ((1, "a"), (2, "a"), (3, "b")):
        task.open(stream, trainer)

    task.make(6)

    assert sorted(task.got(1) + task.got(2)) == numbers(0, 6)
    assert task.got(1) and task.got(2)
    assert task.got(3) == numbers(0, 6)


def test_a_trainer_that_comes_late_begins_with_the_oldest_and_learns_how_many_came_before():
    task = CacheTrainers(frames=4)
    task.open(ONE, "a")
    task.make(10)

    task.open(OTHER, "b")

    assert task.got(OTHER) == numbers(6, 10)
    assert task.place_of("b") == (6, (), 0, 6)
    assert task.place_of("a") == (0, (), 0, 0)


def test_a_slow_trainer_skips_what_left_the_window_and_it_is_counted():
    task = CacheTrainers(frames=4)
    task.open(ONE, "a")
    task.open(OTHER, "b", credit=2 * NBYTES)

    task.make(10)
    task.ack(OTHER, (0, 2), credit=10**6)

    assert task.got(ONE) == numbers(0, 10)
    assert task.got(OTHER) == [0, 1, *numbers(6, 10)]
    assert task.place_of("b") == (6, (), 4, 0)
    assert task.place_of("a") == (0, (), 0, 0)


def test_what_a_reader_has_is_not_skipped_when_its_frame_goes():
    task = CacheTrainers(frames=4)
    task.open(ONE, "a")
    task.open(OTHER, "b", credit=2 * NBYTES)
    task.make(10)

    assert task.place_of("b") == (0, ((2, 6),), 4, 0)
    task.ack(OTHER, (0, 2))
    assert task.place_of("b") == (6, (), 4, 0)


@pytest.mark.parametrize("how", ["left", "expired", "reconnected"])
def test_what_is_requeued_when_its_frame_is_gone_is_skipped_and_never_the_end(how):
    task = CacheTrainers(frames=4)
    task.open(ONE, "a")
    task.open(OTHER, "b", credit=2 * NBYTES)
    task.make(10)

    match how:
        case "left":
            task.assign(status={OTHER: ReaderStatus.LEFT})
        case "expired":
            task.assign(status={OTHER: ReaderStatus.EXPIRED})
        case "reconnected":
            task.open(3, "b", reader=OTHER, subscription=2, holds=[(1, 2)], credit=0)

    held = 1 if how == "reconnected" else 0
    assert task.progress("b").skipped == 6 - held
    assert task.attempt is not None and not task.attempt.over
    assert task.progress().in_doubt == (2 if how == "expired" else 0)


def test_what_is_requeued_and_here_goes_to_another_reader_of_the_same_trainer():
    task = CacheTrainers(frames=10)
    task.open(1, "a")
    task.make(3)
    task.open(2, "a")
    task.open(3, "b", credit=NBYTES)

    task.assign(status={1: ReaderStatus.LEFT})

    assert task.got(2) == numbers(0, 3)
    assert task.got(3) == [0]


def test_acks_that_the_dispatcher_knows_come_before_a_reader_is_removed():
    task = CacheTrainers(frames=10)
    task.open(1, "a")
    task.open(2, "a", credit=0)
    task.make(3)

    cached = Cached("job", trainers={"a": TrainerProgress(acked(2))}, readers={2: "a"})
    task.assign(cached=cached, status={1: ReaderStatus.LEFT})
    task.ack(2, credit=10**6)

    assert task.got(2) == [2]
    assert task.progress("a").acked == acked(2)


# --- the window ---


def test_nothing_is_evicted_before_someone_wants_more():
    task = CacheTrainers(frames=4)
    task.open(ONE, "a", credit=2 * NBYTES)

    assert task.make(10) == 4
    assert task.freed == []

    task.ack(ONE, (0, 2), credit=3 * NBYTES)
    assert task.got(ONE) == numbers(0, 4)
    assert task.freed == [0]


def test_an_element_larger_than_the_window_stands_alone():
    task = CacheTrainers(frames=4)
    task.open(ONE, "a")
    task.make(3)

    assert task.make(1, nbytes=1000) == 1
    assert task.freed == numbers(0, 3)
    assert task.cache.nbytes == 1000
    assert task.make(2) == 2
    assert task.cache.nbytes == 200


def test_ahead_of_the_fastest_trainer_no_more_is_made_than_of_an_ordinary_task():
    task = CacheTrainers(frames=100, ahead=5 * NBYTES)

    assert task.make(50) == 5
    task.open(ONE, "a", credit=3 * NBYTES)
    assert task.make(50) == 3
    task.ack(ONE, credit=20 * NBYTES)
    assert task.make(50) == 20
    assert task.freed == []
    assert task.cache.nbytes == 28 * NBYTES


def test_an_element_larger_than_what_may_be_made_ahead_needs_no_eviction():
    task = CacheTrainers(frames=100, ahead=2 * NBYTES)
    task.open(ONE, "a")
    task.make(3)

    assert task.make(1, nbytes=50 * NBYTES) == 1
    assert task.freed == []


def test_the_tasks_of_a_job_have_equal_shares_and_give_up_what_is_beyond():
    task = CacheTrainers(frames=8)
    task.open(ONE, "a")
    task.make(8)

    other = replace(task.run, task=TaskId(2))
    alien = replace(task.run, task=TaskId(3), cached=Cached("another job"))
    runner, first = task.runner, task.attempt
    out = task.core.handle(_assignment(task, (task.run, other, alien)), 0.0)

    rooms = {name: attempt.room for name, attempt in task.core.attempts.items()}
    assert rooms == {1: 400, 2: 400, 3: 800}
    assert first.delivery.oldest == 4
    windows = [(e.command.run, e.command.nbytes) for e in out if _is_window(e)]
    assert windows == [(runner, 400)]
    started = [e.window.nbytes for e in out if type(e).__name__ == "StartRunner"]
    assert started == [400, 800]

    task.core.handle(_assignment(task, (task.run,)), 0.0)
    assert task.attempt.room == 800


def _assignment(task, tasks):
    task.revision += 1
    return Assignment(task.revision, 7, tasks, {}, 1.0)


def _is_window(effect):
    return type(getattr(effect, "command", None)).__name__ == "SetWindow"


# --- when the window is full, wait ---


def test_where_all_wait_nobody_skips_and_the_slowest_holds_up_the_rest():
    task = CacheTrainers(WAIT, frames=4)
    task.open(ONE, "a")
    task.open(OTHER, "b", credit=2 * NBYTES)

    assert task.make(10) == 4
    task.ack(ONE, (0, 4))
    assert task.make(10) == 0

    task.ack(OTHER, (0, 2), credit=2 * NBYTES)
    assert task.make(10) == 2
    task.ack(ONE, (4, 6))
    task.ack(OTHER, (2, 4), credit=10**6)
    assert task.make(10) == 2
    assert task.got(OTHER) == numbers(0, 8)
    assert task.progress("a").skipped == task.progress("b").skipped == 0


def test_a_trainer_without_readers_holds_nothing_and_what_it_missed_is_counted():
    task = CacheTrainers(WAIT, frames=4)
    task.open(ONE, "a")
    task.open(OTHER, "b", credit=2 * NBYTES)
    task.make(4)
    task.ack(ONE, (0, 4))

    task.assign(status={OTHER: ReaderStatus.EXPIRED})

    assert task.make(2) == 2
    task.ack(ONE, (4, 6))
    task.open(3, "b")
    assert task.got(3) == numbers(2, 6)
    assert task.place_of("b") == (2, (), 2, 0)
    assert task.make(1) == 0


def test_a_closed_stream_of_a_live_reader_holds_up_the_rest_still():
    task = CacheTrainers(WAIT, frames=4)
    task.open(ONE, "a")
    task.open(OTHER, "b", credit=0)
    task.close(OTHER)
    task.make(4)
    task.ack(ONE, (0, 4))

    assert task.make(1) == 0


def test_a_loop_that_waits_for_more_is_not_waited_for():
    task = CacheTrainers(WAIT, frames=4)
    task.open(ONE, "a")
    task.make(4)
    assert task.make(1) == 0

    task.ack(ONE)  # all of it is in operators
    assert task.make(3) == 3
    assert task.got(ONE) == numbers(0, 7)

    task.open(2, "a", reader=ONE, subscription=2)
    assert TASK not in task.core.attempts, "what was in operators is made again elsewhere"
    assert task.core.heartbeat().progress[TASK].trainers["a"].skipped == 0


def test_what_others_of_its_trainer_have_does_not_hold_up_a_loop_that_waits_for_more():
    task = CacheTrainers(WAIT, frames=4)
    task.open(ONE, "a")
    task.open(OTHER, "a")
    task.make(4)
    assert task.got(ONE)
    assert task.got(OTHER)
    assert task.make(1) == 0

    task.ack(ONE)  # all it has is in operators, and the other's loop may be in lockstep with it
    assert task.make(3) == 3


# --- what goes wrong ---


def test_the_window_survives_its_runner():
    task = CacheTrainers(frames=4)
    task.open(ONE, "a")
    task.make(4)

    task.tell(RunnerLost(task.runner, "died"))
    task.tell(Tick())
    assert task.made == 4
    assert task.cache.oldest == 1, "the next one has room for a frame"
    assert (task.window.nbytes, task.window.elsewhere) == (400, 300)

    task.open(OTHER, "b")
    task.make(4)
    assert task.got(ONE) == numbers(0, 8)
    assert task.got(OTHER) == numbers(1, 8)
    assert task.cache.nbytes == 400
    assert task.window.elsewhere == 0


def test_an_error_comes_to_each_trainer_behind_what_was_made_before_it():
    task = CacheTrainers(frames=4)
    task.open(ONE, "a")
    task.open(OTHER, "b", credit=NBYTES)
    task.make(2)

    task.tell(RunFailed(task.runner, 2, Failure("DatasetError", ("it broke",))))

    assert set(task.ends) == {ONE} and "it broke" in task.ends[ONE]
    task.ack(OTHER, (0, 1), credit=NBYTES)
    assert task.got(OTHER) == [0, 1]
    assert "it broke" in task.ends[OTHER]


def test_at_the_end_streams_stay_and_each_trainer_that_has_all_is_reported_at_once():
    task = CacheTrainers(frames=4)
    task.open(ONE, "a")
    task.make(4)
    task.end()
    beats = task.beats

    task.ack(ONE, (0, 4))

    assert task.beats > beats
    assert task.progress().ended and not task.progress().done
    assert task.place_of("a") == (4, (), 0, 0)
    task.open(OTHER, "b")
    assert task.got(OTHER) == numbers(0, 4)
    assert task.ends == {}
    task.assign(listed=False)
    assert task.ends == {ONE: None, OTHER: None}


def test_a_worker_that_drains_hands_over_as_soon_as_its_runner_has_paused():
    task = CacheTrainers(frames=4)
    task.open(ONE, "a")
    task.open(OTHER, "b", credit=NBYTES)
    task.make(4)
    task.tell(DrainRequested())
    assert task.attempt is not None

    task.tell(CheckpointTaken(task.runner, Checkpoint(4)))
    task.tell(RunPaused(task.runner))

    assert task.attempt is None
    assert task.core.heartbeat().progress[TASK].trainers["b"].acked == acked(0)


# --- another attempt ---


def test_an_attempt_goes_on_where_each_trainer_was():
    task = CacheTrainers(
        frames=10,
        checkpoint=2,
        trainers={
            "a": TrainerProgress(acked(3, (5, 6)), skipped=1, before=2),
            "b": TrainerProgress(acked(7)),
            "gone": TrainerProgress(acked(1)),
        },
        readers={1: "a", 2: "b"},
        unacked={1: RangeSet.of((6, 8)), 2: RangeSet.of((7, 9))},
    )
    assert task.made == 3, "what all have that are read is not sent"
    task.open(1, "a", acked=[(0, 3), (5, 6)], holds=[(6, 8)])
    task.open(2, "b", holds=[(8, 9)])
    task.open(3, "new")

    task.make(8)

    assert task.got(1) == [3, 4, 8, 9, 10]
    assert task.got(2) == [7, 9, 10]
    assert task.got(3) == numbers(3, 11)
    assert task.place_of("a") == (3, ((5, 6),), 1, 2)
    assert task.place_of("gone") == (3, (), 2, 0)
    assert task.place_of("new") == (3, (), 0, 3)


def test_a_trainer_of_which_nothing_is_known_yet_gets_all_that_is_made_again():
    task = CacheTrainers(
        checkpoint=2, trainers={"a": TrainerProgress(acked(5))}, readers={1: "a", 2: "b"}
    )
    task.open(1, "a")
    task.open(2, "b")

    task.make(4)

    assert (task.got(1), task.got(2)) == ([5], numbers(2, 6))
    assert task.place_of("b") == (2, (), 0, 2)


def test_a_reservation_that_is_not_made_again_stays_with_its_reader():
    task = CacheTrainers(
        checkpoint=5,
        trainers={"a": TrainerProgress(acked(1))},
        readers={1: "a"},
        unacked={1: RangeSet.of((2, 4))},
    )
    assert task.place_of("a") == (2, ((4, 5),), 2, 0)

    task.open(1, "a", holds=[(2, 3)])
    assert task.place_of("a") == (2, ((3, 5),), 3, 0)
    task.ack(1, (2, 3))
    assert task.place_of("a") == (5, (), 3, 0)


def test_a_new_attempt_keeps_what_trainers_need_that_do_not_read_yet_for_a_while():
    task = CacheTrainers(frames=4, readers={1: "a", 2: "b"})
    task.open(1, "a")
    assert task.make(10) == 4

    for _ in range(EXPECTED_TICKS):
        task.tell(Tick())

    assert task.make(10) == 10
    task.open(2, "b")
    assert task.place_of("b")[2:] == (10, 0)
    assert task.got(2) == numbers(10, 14)


def test_a_checkpoint_is_reported_once_what_is_before_it_is_nobodys_and_not_in_the_window():
    task = CacheTrainers(frames=4)
    task.open(ONE, "a")
    task.open(OTHER, "b")
    task.make(4)
    task.tell(CheckpointTaken(task.runner, Checkpoint(4)))
    task.ack(ONE, (0, 4))
    task.make(4)
    assert task.cache.oldest == 4
    assert task.progress().checkpoint is None
    assert task.progress().acked == acked(0)

    task.assign(status={OTHER: ReaderStatus.LEFT})

    assert task.progress().acked == acked(4)
    assert task.progress().checkpoint == Checkpoint(4)


@pytest.mark.parametrize("when_full", WhenFull)
def test_the_next_attempt_makes_again_what_late_trainers_may_need(when_full):
    task = CacheTrainers(when_full, frames=10)
    task.open(ONE, "a")
    task.make(10)
    task.tell(CheckpointTaken(task.runner, Checkpoint(2)))
    task.tell(CheckpointTaken(task.runner, Checkpoint(10)))
    task.ack(ONE, (0, 10))
    task.make(2)

    assert task.progress().acked == acked(2)
    assert task.progress().checkpoint == Checkpoint(2)


def test_a_trainer_that_came_behind_the_fastest_skips_nothing_when_its_worker_is_lost():
    task = CacheTrainers(frames=10)
    task.open(ONE, "a")
    task.make(6)
    task.tell(CheckpointTaken(task.runner, Checkpoint(6)))
    task.ack(ONE, (0, 6))
    kept = task.progress()
    task.open(OTHER, "b")
    late = task.progress("b")

    state = kept.checkpoint or Checkpoint(0)
    trainers = {"a": kept.trainers["a"], "b": late}
    again = CacheTrainers(
        frames=10, checkpoint=state.number, trainers=trainers, readers={ONE: "a", OTHER: "b"}
    )
    again.open(ONE, "a")
    again.open(OTHER, "b")
    again.make(8)

    assert again.got(ONE) == numbers(6, 8)
    assert again.got(OTHER) == numbers(0, 8)
    assert again.place_of("b") == (0, (), 0, 0)


def test_where_nobody_reads_all_before_the_window_may_be_forgotten():
    task = CacheTrainers(frames=4)
    task.open(ONE, "a")
    task.make(10)

    task.assign(status={ONE: ReaderStatus.LEFT})

    assert task.progress().acked == acked(6)


# --- what is refused ---


def test_a_reader_without_a_trainer_is_refused():
    task = CacheTrainers()
    task.open(ONE, "")
    assert task.ends[ONE] == "task 1 is cached, and reader 1 names no trainer"


def test_a_reader_of_two_trainers_is_refused():
    task = CacheTrainers()
    task.open(ONE, "a")
    task.open(OTHER, "b", reader=ONE, subscription=2)
    assert task.ends[OTHER] == (
        "task 1 is cached, and reader 1 of trainer 'a' cannot be of trainer 'b'"
    )
    assert set(task.progress().trainers) == {"a"}


def test_a_consumer_of_coordinated_reads_is_refused():
    task = CacheTrainers()
    task.open(ONE, "a", wants=GroupsWanted(0, 0))
    assert "wants groups of coordinated reads" in task.ends[ONE]


def test_a_trainer_is_refused_where_nothing_is_cached():
    task = CacheTrainers()
    task.assign(listed=False)
    task.run = replace(task.run, cached=None, attempt=2)
    task.assign()
    task.open(ONE, "a")
    assert task.ends[ONE] == "task 1 is not cached: a reader of it has no trainer 'a'"


def test_nothing_is_left_when_the_task_is_over():
    task = CacheTrainers()
    task.open(ONE, "a")
    task.make(3)
    task.assign(listed=False)
    assert task.tell(DispatcherConnected()) == []
    assert task.core.attempts == {}
