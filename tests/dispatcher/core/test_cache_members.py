"""The cross-trainer cache: what each trainer has had, where attempts go on, when a pass is over."""

import pytest

from penstock.protocol.cache import Cached, CacheView, TrainerProgress, WhenFull
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.types import Mode, ReaderStatus
from penstock_dispatcher.core import facts as f
from penstock_dispatcher.core.cache_record import TrainerTotals, join, sum_up
from penstock_dispatcher.core.facts import TrainerDone
from tests.dispatcher.core.cached import CachedWorld, Reader, told


def started(workers=1, trainers="ab", **parameters):
    """Return a pass with so many tasks, and a reader of each trainer."""
    world = CachedWorld(**parameters)
    for number in range(workers):
        world.worker(f"w{number}")
    readers = [world.joins(trainer) for trainer in trainers]
    assert len(world.tasks) == workers
    return world, *readers


def ends(world, **trainers):
    """Let all tasks end after 100 elements; *trainers* by name had so many."""
    for task in world.tasks:
        world.made(task, 100, ended=True, **{name: (at,) for name, at in trainers.items()})


def done(world):
    return [(fact.task, fact.trainer) for fact in world.facts if isinstance(fact, TrainerDone)]


# --- who reads ---


def test_attempts_are_told_whose_their_readers_are():
    world, a, _b = started(when_full="wait")
    (task,) = world.tasks
    another = world.joins("a", session="a2")
    world.worker("w0")  # it is started again, and gets the whole assignment
    world.reports(a), world.reports(_b), world.reports(another)

    readers = {a.id: "a", _b.id: "b", another.id: "a"}
    assert world.assigned(task).cached == Cached("j", WhenFull.WAIT, {}, readers)


@pytest.mark.parametrize("trainer, words", [("", "does not say whose"), ("b", "of trainer 'a'")])
def test_a_reader_without_its_trainer_is_refused(trainer, words):
    world, a = started(trainers="a")

    a.trainer = trainer
    world.reports(a)

    assert words in str(a.failure.error())


def test_a_reader_with_a_trainer_is_refused_where_others_have_none():
    world = CachedWorld(trainer=None)
    reader = world.joins("a")

    assert "has no cross-trainer cache" in str(reader.failure.error())


def test_all_readers_of_a_job_share_a_cache_of_one_kind_or_none():
    world = CachedWorld()

    assert "its cross_trainer_cache is True, not False" in world.refused(trainer=None)
    assert "its when_full is 'skip', not 'wait'" in world.refused(trainer="b", when_full="wait")
    assert world.open(trainer="b", when_full="skip").iteration == world.iteration


# --- what is acked for whom ---


def test_two_trainers_of_different_speed_are_kept_apart():
    world, a, b = started()
    (task,) = world.tasks

    world.reports(a, task, acked=60)
    world.reports(b, task, acked=10)
    world.made(task, 70, a=(55,), b=(30, 20))

    known = world.core.ctx.trainers(task, world.task(task))
    assert known["a"].progress == TrainerProgress(AckedSet(60))
    assert known["b"].progress == TrainerProgress(AckedSet(30), skipped=20)
    assert world.task(task).acked == AckedSet()


def test_readers_are_told_what_their_trainer_missed():
    world, a, b = started(workers=2)
    first, second = world.tasks
    world.made(first, 70, a=(55,), b=(30, 20))
    world.made(second, 70, a=(55,), b=(40, 3, 7))

    world.reports(a), world.reports(b)

    assert a.view.cache == CacheView(0, 0)
    assert b.view.cache == CacheView(23, 7)


def test_a_trainer_that_has_nothing_yet_has_no_place_to_go_on_from():
    world, a, b = started()
    (task,) = world.tasks
    world.made(task, 70, a=(55,))
    world.reports(b, task, acked=0)

    world.dies("w0"), world.worker("w1")
    world.reports(a), world.reports(b)

    assert world.assigned(task).cached.trainers == {"a": told(55)}


def test_what_the_worker_of_an_older_attempt_skipped_does_not_count():
    world, a, b = started()
    (task,) = world.tasks
    world.made(task, 70, a=(60,), b=(10,))
    world.worker("w1")
    old = world.progress["w0"][task]
    world.passes(6.0, a, b)  # its lease ends: w1 goes on
    assert world.task(task).attempt == 1

    world.core.ctx.remove_worker("w0")
    del world.progress["w0"]
    world.passes(2.0, a, b)
    assert world.task(task).attempt == 2
    world.worker("w0")
    world.progress["w0"] = {
        task: old.__class__(1, 90, told(80).acked, trainers={"b": told(80, 70)})
    }
    world.beat("w0")

    assert world.core.ctx.trainers(task, world.task(task))["b"].progress == told(10)


# --- attempts ---


def test_the_next_attempt_gets_places_and_what_readers_have():
    world, a, b = started()
    (task,) = world.tasks
    again = world.joins("a", session="a2")
    world.made(task, 70, a=(55, 2), b=(30, 20, 4), at=30)
    world.reports(a, task, acked=57, unacked=[(60, 62)])
    world.reports(again, task, acked=55, unacked=[(55, 59)])
    world.reports(b, task, acked=31, unacked=[(30, 40)])

    world.dies("w0"), world.worker("w1")
    for reader in (a, again):
        world.reports(reader)
        assert world.task(task).attempt == 1, "a reader may still accept the old one"
    world.reports(b)

    run = world.assigned(task)
    assert run.attempt == 2
    assert run.cached.trainers == {"a": told(57, 2), "b": told(31, 20, 4)}
    assert run.unacked == {
        a.id: RangeSet.of((60, 62)),
        again.id: RangeSet.of((57, 59)),
        b.id: RangeSet.of((31, 40)),
    }
    assert (run.checkpoint.number, run.acked) == (30, AckedSet(30))


def test_a_checkpoint_is_not_ahead_of_a_trainer_that_is_read():
    world, a, b = started()
    (task,) = world.tasks
    world.made(task, 70, a=(60,), b=(20,))
    b_is_back = AckedSet(50)  # the worker does not count it, for it has no stream yet

    world.progress["w0"][task] = world.progress["w0"][task].__class__(
        1, 70, b_is_back, f.Checkpoint(40, (0,)), trainers={"a": told(60)}
    )
    world.beat("w0")
    assert world.task(task).checkpoint.number == 0
    world.leaves(b)
    world.beat("w0")

    assert world.task(task).checkpoint.number == 40
    assert a.view.tasks


def test_a_trainer_goes_on_behind_what_it_acked():
    world, a, b = started()
    (task,) = world.tasks
    world.made(task, 70, a=(60, 5), b=(20,))
    world.reports(b, task, acked=25)
    world.leaves(b)
    assert world.task(task).trainers["b"].progress.acked == AckedSet(25)

    back = world.joins("b", session="b2")
    world.dies("w0"), world.worker("w1")
    world.reports(a), world.reports(back)

    assert world.assigned(task).cached.trainers["b"] == told(25)
    assert world.assigned(task).cached.readers[back.id] == "b"


def test_what_an_expired_reader_acked_is_for_its_trainer_alone():
    world, a, b = started()
    (task,) = world.tasks
    world.reports(b, task, acked=25)
    world.passes(40.0, a)
    assert world.record.readers[b.id or 0] if b.id else b.view.status is ReaderStatus.EXPIRED

    removed = [fact for fact in world.facts if isinstance(fact, f.ReaderRemoved)]
    assert removed[0].acked[task] == AckedSet(25)
    assert world.task(task).trainers.keys() == {"b"}
    assert world.task(task).expired_holders

    world.made(task, 70, a=(60,), b=(31, 4))  # of this revision: it has requeued the rest
    assert world.task(task).expired_holders == {}
    assert world.task(task).trainers["b"].progress == told(31, 4)


def test_a_task_that_no_reader_needs_is_not_started_again():
    world, a, b = started()
    (task,) = world.tasks
    ends(world, a=100, b=40)
    world.leaves(b)

    world.dies("w0"), world.worker("w1")
    world.reports(a)
    assert a.finished
    assert world.task(task).worker is None
    late = world.joins("c")
    world.reports(late)

    assert world.task(task).worker == "w1", "a reader that has all does not have to fence it"
    assert late.tasks == [task]


def test_all_is_as_before_when_the_dispatcher_was_restarted():
    world, a, b = started(workers=2)
    first, second = world.tasks
    world.made(first, 100, ended=True, a=(100,), b=(40, 3))
    world.made(second, 70, a=(60,), b=(20, 2, 1), at=20)
    world.leaves(b)

    world.restart()
    for name in world.progress:
        world.beat(name)
    world.reports(a)
    back = world.joins("b")
    world.reports(back)

    assert a.tasks == [second]
    assert back.view.cache == CacheView(5, 1)


# --- the end ---


def test_a_task_is_done_for_each_trainer_by_itself():
    world, a, b = started(workers=2)
    first, second = world.tasks

    world.made(first, 100, ended=True, a=(100,), b=(99,))
    assert done(world) == [(first, "a")]
    assert (a.tasks, b.tasks) == ([second], [first, second])
    assert not a.finished

    world.made(second, 50, ended=True, a=(50,), b=(10,))
    assert a.finished
    assert not b.finished
    assert a.tasks == []

    world.reports(b, first, acked=100), world.reports(b, second, acked=50)
    world.beat("w0"), world.beat("w1")
    assert not b.finished, "only a worker can say what b skipped"

    world.made(first, 100, ended=True, a=(100,), b=(100,))
    world.made(second, 50, ended=True, a=(50,), b=(50,))
    assert b.finished
    assert not world.record.finished, "somebody may come for what the window has"


def test_a_task_that_goes_on_is_done_for_nobody():
    world, a, _ = started()

    world.made(world.tasks[0], 100, a=(100,), b=(100,))

    assert done(world) == []
    assert not a.finished


def test_a_task_without_elements_is_done_for_all_that_read_it():
    world, a, b = started()

    world.made(world.tasks[0], 0, ended=True, a=(0,))

    assert (a.finished, b.finished) == (True, True)


def test_a_trainer_that_was_told_of_the_end_gets_no_more_tasks():
    world, a, b = started()
    ends(world, a=100, b=40)

    world.worker("w1")
    world.reports(a), world.reports(b)

    assert len(world.tasks) == 1
    assert (a.finished, b.finished) == (True, False)


def test_what_one_trainer_had_all_of_is_done_for_another_without_a_worker():
    world, a, b = started()
    (task,) = world.tasks
    ends(world, a=100, b=40)

    world.dies("w0")
    world.reports(b, task, acked=100)
    world.worker("w1")

    assert b.finished
    assert a.finished


def test_a_late_trainer_is_told_how_many_came_before_it():
    world, *_ = started()
    (task,) = world.tasks
    ends(world, a=100, b=100)
    late = world.joins("c")
    assert (late.finished, late.tasks) == (False, [task])

    world.made(task, 100, ended=True, a=(100,), b=(100,), c=(80, 0, 80))
    world.reports(late)
    assert late.view.cache == CacheView(0, 80)
    world.made(task, 100, ended=True, a=(100,), b=(100,), c=(100, 0, 80))

    assert late.finished


def test_a_pass_is_kept_until_all_its_trainers_have_gone_on_to_the_next():
    world, a, b = started()
    first = world.record
    ends(world, a=100, b=40)
    world.leaves(a)
    world.open(repetition=2)
    assert not first.finished

    ends(world, a=100, b=100)
    assert b.finished
    assert not first.finished
    world.leaves(b)

    assert first.finished
    assert world.core.state.jobs["j"].finished == RangeSet.of((1, 2))


def test_the_next_pass_is_the_end_of_one_that_nobody_reads():
    world, a, b = started()
    first = world.record
    ends(world, a=100, b=100)
    world.leaves(a), world.leaves(b)
    assert not first.finished

    world.open(repetition=2)

    assert first.finished
    assert first.before.trainers == {t: TrainerTotals(100, 0, 0, True) for t in "ab"}


def test_a_trainer_that_was_cut_off_before_it_had_anything_may_come_back():
    world, a, b = started()
    first = world.record
    ends(world, a=100)
    world.passes(40.0, a)  # the other one stands still
    assert first.readers[b.id].status is ReaderStatus.EXPIRED
    world.leaves(a)
    world.open(repetition=2)
    assert not first.finished

    world.reports(b)
    assert b.tasks and not b.finished


def test_a_trainer_that_broke_off_has_time_to_come_back():
    world, a, b = started()
    first = world.record
    ends(world, a=100, b=40)
    world.leaves(a), world.leaves(b)
    world.open(repetition=2)
    assert not first.finished

    world.passes(200.0)
    assert not first.finished
    world.passes(120.0)

    assert first.finished
    assert first.before.trainers["b"] == TrainerTotals(40)
    world.restart()


def test_a_pass_that_nobody_reads_ends_when_it_was_long_enough_idle():
    world, a, b = started()
    ends(world, a=100, b=100)
    world.leaves(a), world.leaves(b)

    world.passes(320.0)
    assert world.record.finished
    world.passes(320.0)

    assert world.iteration not in world.core.state.iterations


def test_a_pass_that_was_not_made_to_its_end_is_kept_as_others_are():
    world, a, b = started(mode=Mode.DYNAMIC)
    (task,) = world.tasks
    world.made(task, 40, a=(30,), b=(20,))
    world.leaves(a), world.leaves(b)

    world.passes(330.0)

    assert not world.record.finished
    assert world.task(task).worker is None
    back = world.joins("a")
    assert back.tasks == [task]
    world.reports(back)
    assert world.assigned(task).cached.trainers == {"a": told(30), "b": told(20)}


def test_one_that_joins_what_others_have_read_is_not_warned_while_something_is_left():
    world, a, b = started()
    world.reports(a, *world.tasks, acked=100)
    world.reports(b, *world.tasks, acked=40)
    world.made(*world.tasks, 100, ended=True, a=(100,), b=(40,))
    assert world.opens(trainer="b").read_before == ""
    assert world.opens(trainer="c").read_before == ""

    world.leaves(a), world.leaves(b)
    assert world.opens(trainer="b").read_before == ""


def test_a_trainer_that_has_had_all_is_told_so_when_it_comes_again():
    world, a, _ = started()
    world.reports(a, *world.tasks, acked=100)
    world.made(*world.tasks, 100, ended=True, a=(100,), b=(40,))

    assert world.opens(trainer="a").read_before == (
        "job 'j', repetition 1 is over for trainer 'a': it was read by trainer 'a' (100 elements)"
    )


def test_a_trainer_that_comes_when_a_pass_is_over_is_told_so():
    world, a, b = started()
    world.reports(a, *world.tasks, acked=100)
    world.reports(b, *world.tasks, acked=100, consumed=80)
    world.made(*world.tasks, 100, ended=True, a=(100,), b=(100, 20))
    world.leaves(a), world.leaves(b)
    world.open(repetition=2)
    assert world.open(trainer="c").read_before == ""  # somebody reads on: it is late
    world.passes(6.0)

    assert world.open(trainer="c").read_before == (
        "job 'j', repetition 1 is over: it was read by trainer 'a' (100 elements), "
        "trainer 'b' (80 elements)"
    )
    reader = Reader("late", "c", world.iteration)
    world.readers["late"] = reader
    world.reports(reader)
    assert reader.finished

    world.passes(320.0)
    assert "is over: it was read before" in world.open(trainer="c").read_before


def test_a_pass_over_nothing_is_no_news():
    world, a, b = started()
    world.made(*world.tasks, 0, ended=True, a=(0,), b=(0,))
    world.leaves(a), world.leaves(b)
    world.open(repetition=2)

    assert world.open(trainer="c").read_before == ""


# --- what it does not do, and what is said ---


def test_a_save_is_refused_at_once():
    world, a, _ = started()

    world.saves(a)

    assert "other trainers move the window" in str(a.result.failure.error())
    assert a.barrier is None
    world.saves(a, "x")
    assert a.result.number == 1


def test_a_cached_job_goes_on_from_no_state():
    world, *_ = started()

    assert "other trainers move the window" in world.refused(restore=b"{}")


def test_where_nobody_skips_loops_are_told_for_whom_they_wait():
    world, a, b = started(when_full="wait")
    world.made(world.tasks[0], 70, a=(70,), b=(20,))

    world.reports(a), world.reports(b)

    assert "trainer 'b', if the window is full: it is 50 elements behind" in a.view.waiting_for
    assert b.view.waiting_for == ""
    assert "trainer 'b'" in world.stats.waiting_for


def test_nobody_is_waited_for_where_elements_are_skipped_or_still_here():
    for kind, had in (("skip", 70), ("wait", 60)):
        world, a, _ = started(when_full=kind)
        world.made(world.tasks[0], 70, a=(had,), b=(20,))

        world.reports(a)

        assert a.view.waiting_for == "", kind


def test_the_account_says_what_each_trainer_has_had():
    world, a, b = started()
    (task,) = world.tasks
    world.reports(a, task, acked=100)
    world.reports(b, task, acked=100, consumed=80)
    world.made(task, 100, ended=True, sent=180, a=(100,), b=(100, 15, 5))

    account, cache = world.stats.account, world.stats.cache
    counts = [(t.trainer, t.acked, t.skipped, t.before, t.consumed) for t in account.trainers]
    assert counts == [("a", 100, 0, 0, 100), ("b", 100, 15, 5, 80)]
    assert (account.elements, account.acked, account.redelivered) == (100, 100, 0)
    assert (cache.made, cache.sent, cache.hit_rate) == (100, 180, 1.8)

    world.leaves(a), world.leaves(b)
    world.open(repetition=2)
    assert world.stats.finished
    assert world.stats.faults == ()
    assert [(t.skipped, t.before, t.done) for t in world.stats.account.trainers] == [
        (0, 0, True),
        (15, 5, True),
    ]


@pytest.mark.parametrize(
    "consumed, moved, fault",
    [
        (80, False, ()),
        (79, False, ("80 elements are for trainer 'b', but its loops consumed 79",)),
        (79, True, ()),
        (81, False, ("1 elements were redelivered, and only 0 may be delivered twice",)),
    ],
)
def test_what_a_trainer_has_too_much_or_too_little_of_is_named(consumed, moved, fault):
    world, a, b = started()
    (task,) = world.tasks
    if moved:  # what the first worker had skipped it could not report
        world.dies("w0"), world.worker("w1")
        world.reports(a), world.reports(b)
    world.reports(a, task, acked=100)
    world.reports(b, task, acked=100, consumed=consumed)
    ends(world, a=100)
    world.made(task, 100, ended=True, a=(100,), b=(100, 15, 5))
    world.leaves(a), world.leaves(b)
    world.open(repetition=2)

    assert world.stats.finished
    assert world.stats.faults == fault
    assert world.stats.account.trainers[1].unexplained == max(0, 80 - consumed)


@pytest.mark.parametrize("how", ["it dies", "its attempt is over"])
def test_what_a_worker_could_not_report_is_no_fault_where_no_other_goes_on(how):
    world, a, b = started()
    (task,) = world.tasks
    world.reports(a, task, acked=100)
    world.made(task, 100, ended=True, a=(100,))
    if how == "it dies":
        world.dies("w0")
    else:
        del world.progress["w0"][task]
        world.beat("w0", ended=[(task, 1)])
    world.reports(b, task, acked=100, consumed=80)  # it skipped the others, or came too late
    world.leaves(a), world.leaves(b)
    world.open(repetition=2)

    assert world.task(task) is None
    assert world.stats.finished
    assert world.stats.faults == ()
    assert world.stats.account.trainers[1].unexplained == 20
    world.restart()
    assert world.stats.faults == ()


def test_reports_of_a_trainer_are_joined_in_any_order():
    one, other = told(AckedSet(3, RangeSet.of((7, 9))), 2), told(8, 1, 4)

    assert join(one, other) == join(other, one) == told(9, 2, 4)
    assert sum_up([]) == {}


def test_a_trainer_of_which_no_worker_could_report_goes_on_with_what_its_readers_have():
    world, a, b = started()
    (task,) = world.tasks
    again = world.joins("b", session="b2")
    world.made(task, 70, a=(60,), at=50)
    world.reports(b, task, unacked=[(45, 48)])
    world.reports(again, task, unacked=[(48, 60)])

    world.dies("w0"), world.worker("w1")
    for reader in (a, b, again):
        world.reports(reader)

    assert world.assigned(task).cached.trainers == {"a": told(60), "b": told(45, 0, 45)}
