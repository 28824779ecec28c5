"""What limits a loop, and what would hide its wait."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.explanation.looks import IteratorStats, JobLook, OperatorLook, TaskLook
from penstock.explanation.trouble import JobFacts, Trouble, TroubleKind
from penstock.explanation.verdict import HELD_UP, WAITS, Bottleneck, explain_job, explain_loop
from penstock.protocol.loop_time import LinkTraffic, LoopTime, PassRead
from penstock.protocol.measures import OperatorFigures


def loop(share, steps=1000):
    return LoopTime(steps, 10.0, 10.0 * share, 0.001, 0.01, total=steps)


def task(number=1, worker="w:1", held_up=0.0, work=9.0):
    operators = OperatorLook("map(decode)", 100, work), OperatorLook("range", 100, 0.1)
    return TaskLook(number, worker, 10.0, held_up, 0.0, operators)


def job(share, *tasks, waiting_for=""):
    return JobLook(1, "train", (loop(share),), tasks, waiting_for)


def stats(share, *operators, far=False):
    passes = (PassRead("d:1", 1),) if far else ()
    return IteratorStats(loop(share), loop(share), operators, (), passes)


def test_a_loop_that_hardly_waits_is_the_limit_itself():
    found = explain_job(job(WAITS / 2, task()))

    assert found.limit is Bottleneck.NOTHING
    assert found.sentence.startswith("the trainer waits 2 % of its time")


def test_the_operator_that_works_most_is_named_and_how_many_slots_would_hide_the_wait():
    found = explain_job(job(0.5, task(1), task(2, "w:2")))

    assert (found.limit, found.operator, found.more_slots) == (Bottleneck.WORKERS, "map(decode)", 3)
    assert "map(decode) is the bottleneck on 2 workers (90 % of their time)" in found.sentence
    assert found.sentence.endswith("3 more slots would hide it")


def test_slow_object_storage_is_named():
    source = OperatorLook("json_lines", 100, 9.0)
    slow = TaskLook(1, "w:1", 10.0, 0.0, 0.0, (source,), remote=8.0)

    sentence = explain_job(job(0.5, slow)).sentence

    assert "(90 % of their time; 80 % they wait for object storage)" in sentence
    fast = replace(slow, remote=0.5)
    assert "object storage" not in explain_job(job(0.5, fast)).sentence


def test_one_more_slot_is_one():
    assert explain_job(job(0.3, task())).sentence.endswith("1 more slot would hide it")


def test_the_loop_that_waits_most_is_explained():
    look = JobLook(1, "train", (loop(0.1), loop(0.6), LoopTime()), (task(),))

    assert explain_job(look).wait == pytest.approx(0.6)


def test_workers_that_wait_for_readers_are_not_the_limit():
    found = explain_job(job(0.5, task(held_up=10 * HELD_UP + 1)))

    assert found.limit is Bottleneck.DELIVERY
    assert "are not taken fast enough" in found.sentence


def test_what_is_absent_is_named():
    found = explain_job(job(0.9, waiting_for="a worker"))

    assert (found.limit, found.sentence[-13:]) == (Bottleneck.ABSENT, ", for a worker"[-13:])


def test_before_anything_is_known_it_says_so():
    assert explain_job(JobLook(1, "train", (), ())).limit is Bottleneck.UNKNOWN
    assert explain_job(job(0.9)).limit is Bottleneck.UNKNOWN
    assert explain_loop(stats(0.0, far=True), None).limit is Bottleneck.NOTHING
    nothing = IteratorStats(LoopTime(), LoopTime(), (), (), ())
    assert explain_loop(nothing, None).limit is Bottleneck.UNKNOWN


def test_a_slow_operator_in_the_training_process_is_named_with_a_remedy():
    found = explain_loop(stats(0.8, OperatorLook("map(augment)", 10, 7.0)), None)

    assert (found.limit, found.operator) == (Bottleneck.HERE, "map(augment)")
    assert "have workers do it (distribute)" in found.sentence


def test_behind_distribute_it_belongs_before_it():
    slow = OperatorLook("map(augment)", 10, 7.0), OperatorLook("distribute", 10, 0.1, 0.5)

    assert "put it before distribute" in explain_loop(stats(0.8, *slow, far=True), None).sentence


def test_a_loop_that_waits_for_workers_is_explained_by_its_job():
    here = OperatorLook("batch", 10, 0.1), OperatorLook("distribute", 100, 0.1, 4.8)

    found = explain_loop(stats(0.5, *here, far=True), job(0.4, task()))

    assert (found.limit, found.wait) == (Bottleneck.WORKERS, pytest.approx(0.5))
    assert "the trainer waits 50 % of its time (p50 1.0 ms, p99 10.0 ms a step)" in found.sentence
    assert any(line.startswith("here: distribute") for line in found.figures)
    assert any(line.startswith("task 1 on w:1: map(decode)") for line in found.figures)


@given(st.floats(0, 1), st.integers(1, 50))
def test_the_slots_that_are_asked_for_make_as_much_more_as_the_loop_could_take(share, tasks):
    found = explain_job(job(share, *(task(n) for n in range(tasks))))

    if found.limit is Bottleneck.WORKERS and share < 0.98:
        assert (tasks + found.more_slots) * (1 - share) >= tasks
    assert str(found).startswith(found.sentence)


def test_a_loop_that_waits_for_a_job_is_not_blamed_when_the_dispatcher_is_silent():
    far = OperatorLook("distribute", 100, 0.0, waited=8.9)

    found = explain_loop(stats(0.9, far, far=True), None)

    assert found.limit is Bottleneck.UNKNOWN
    assert found.sentence.endswith("the dispatcher does not say more about it")


def test_the_slowest_task_and_worker_are_named():
    even, slow = task(1), replace(task(2, "w:2"), seconds=40.0)

    found = explain_job(job(0.5, even, slow))

    assert (found.slowest.task, found.slowest.on, found.slowest.worker) == (2, "w:2", "w:2")
    assert str(found.slowest) in found.figures


def test_what_came_from_each_worker_is_a_figure():
    link = LinkTraffic("w:1", "grpc", 40, 50_000_000, 100_000_000, 5e6, "lz4", 3_000_000, 4_000_000)
    look = JobLook(1, "train", (loop(0.5),), (task(),), "", ((9, link),))

    assert (
        "reader 9: from w:1 by grpc 5.0 MB/s, 50.0 MB in 40 frames, lz4, ratio 2.0, "
        "3.0 of 4.0 MB buffered"
    ) in explain_job(look).figures


def test_a_loop_that_is_asked_says_itself_what_came_to_it():
    link = LinkTraffic("w:1", "shm", 40, 50_000_000, 50_000_000, 5e6)
    asked = IteratorStats(loop(0.5), loop(0.5), (), (link,), (PassRead("d:1", 1),))
    look = JobLook(1, "train", (loop(0.5),), (task(),), "", ((9, link),))

    found = [line for line in explain_loop(asked, look).figures if "from w:1" in line]

    assert found == ["here: from w:1 by shm 5.0 MB/s, 50.0 MB in 40 frames, 0.0 MB buffered"]


def test_how_full_buffers_are_and_how_frames_are_compressed_is_a_figure():
    full = replace(task(), ready=1200, unacked=30, compression="AUTO: none (ratio 1.0)")
    full = replace(full, nbytes=60_000_000, room=64_000_000)

    assert (
        "task 1: 1,200 elements ready for readers, 30 unacked at them, 60.0 of 64.0 MB buffered, "
        "compression AUTO: none (ratio 1.0)"
    ) in explain_job(job(0.5, full)).figures


def waiting(seconds, *, total=12_250, waits_for="", here=False):
    return LoopTime(
        0, 10.0, 10.0, waiting=seconds, waits_for=waits_for, total=total, waits_here=here
    )


def blocked(*tasks, loop, **more):
    return JobLook(1, "train", (loop,), tasks, **more)


def test_a_function_that_does_not_return_is_named_with_its_task_and_worker():
    stuck = OperatorLook("map(slow)", 0, 10.0, call=41.0)
    look = blocked(replace(task(5, "w:1"), operators=(stuck,)), task(6, "w:2"), loop=waiting(42.0))
    found = explain_job(look)

    assert (found.limit, found.operator, found.wait) == (Bottleneck.WORKERS, "map(slow)", 1.0)
    assert found.more_slots == 0
    assert found.sentence == (
        "the trainer has waited for its next element for 42 s: map(slow) in task 5 on worker w:1 "
        "has not returned for 41 s"
    )


def test_a_loop_that_is_blocked_says_for_what():
    loop = waiting(12.0, total=0, waits_for="elements of task 3 of worker w:1")

    assert explain_job(blocked(task(), loop=loop)).sentence == (
        "the trainer has waited for its first element for 12 s, "
        "for elements of task 3 of worker w:1"
    )
    absent = explain_job(blocked(loop=loop, waiting_for="a worker: none is registered"))
    assert (absent.limit, absent.sentence[-29:]) == (
        Bottleneck.ABSENT,
        ", for a worker: none is registered"[-29:],
    )


def test_a_loop_that_is_blocked_by_its_own_process_blames_no_worker():
    words = "map(augment) in the training process, in a call for 8.0 s"
    loop = waiting(9.0, waits_for=words, here=True)
    found = explain_job(blocked(task(), loop=loop))
    here = replace(
        stats(1.0, OperatorLook("map(augment)", 1, 9.0, call=8.0), far=True), newest=loop
    )

    assert found.limit is Bottleneck.HERE
    assert found.sentence.endswith(f"for 9.0 s: it waits for {words}")
    assert explain_loop(here, blocked(task(), loop=loop)).operator == "map(augment)"


def test_a_loop_that_asks_for_nothing_is_the_limit_and_its_steps_are_not_old_ones():
    idle = LoopTime(0, 120.0, 0.0, total=500)
    found = explain_job(blocked(task(), loop=idle))

    assert found.sentence == (
        "the trainer has not asked for an element for 2.0 min; it is itself the limit"
    )


def test_a_job_is_not_said_to_have_had_nothing_that_had_something():
    known = JobLook(1, "train", (), (), readers=JobFacts(1), had=12_250)

    assert "have had 12,250 elements" in explain_job(known).sentence
    assert (
        "no loop of job 'train' has had an element yet"
        in explain_job(replace(known, had=0)).sentence
    )


def test_of_readers_that_are_silent_or_gone_no_old_figure_is_told():
    silent = JobLook(1, "train", (), (), readers=JobFacts(2, silent=2), had=9)
    gone = replace(silent, readers=JobFacts(0, lost=1, unread=510.0))

    assert explain_job(silent).sentence == (
        "nothing is known of the loops of job 'train': 2 of 2 readers are silent"
    )
    assert explain_job(gone).sentence == "nobody has read job 'train' for 8.5 min, 1 died"
    assert {explain_job(one).limit for one in (silent, gone)} == {Bottleneck.READERS}


def test_readers_that_died_are_told_beside_those_that_go_on():
    look = replace(job(0.01, task()), readers=JobFacts(1, lost=31))

    assert explain_job(look).sentence.startswith("31 of 32 readers died; the trainer waits 1 %")


def test_what_stops_all_jobs_is_all_that_is_told_of_a_job():
    trouble = Trouble(TroubleKind.HALTED, "The dispatcher decides nothing: no room")
    found = explain_job(replace(job(0.01, task()), stopped=trouble))

    assert (found.limit, found.sentence) == (Bottleneck.STOPPED, trouble.sentence)


def slow_here(share_here, share=0.9):
    waited = 10.0 * share
    return replace(
        loop(share),
        waited_here=share_here * waited,
        slowest_here="map(augment)",
        worked_here=8.0,
        cpu_here=8.0,
    )


def test_a_dispatcher_that_is_asked_blames_no_worker_for_a_map_behind_distribute():
    found = explain_job(JobLook(1, "train", (slow_here(0.9),), (task(held_up=9.0),)))

    assert (found.limit, found.operator) == (Bottleneck.HERE, "map(augment)")
    assert found.sentence.endswith(
        "map(augment) in the training process is the bottleneck: put it before distribute, so that "
        "workers do it"
    )


def test_an_operator_behind_distribute_that_is_not_waited_for_is_not_blamed():
    found = explain_job(JobLook(1, "train", (slow_here(0.1),), (task(),)))

    assert (found.limit, found.operator) == (Bottleneck.WORKERS, "map(decode)")


def test_a_threaded_map_behind_distribute_that_waits_for_its_calls_is_not_taken_for_workers():
    here = (
        OperatorLook("map(augment)", 10, 9.0, waited=8.0),
        OperatorLook("distribute", 9, 0.1, 0.1),
    )

    assert explain_loop(stats(0.9, *here, far=True), job(0.9, task())).limit is Bottleneck.HERE


def test_each_kind_of_advice_is_a_number():
    sleeps = replace(task(), operators=(OperatorLook("map(fetch)", 100, 9.0, cpu=0.1),))
    found = explain_job(job(0.5, sleeps))
    rounds = explain_job(replace(job(0.5, task()), fills_slots=False))

    assert (found.parallel_calls, found.more_slots, found.more_workers) == (3, 2, 0)
    assert (rounds.parallel_calls, rounds.more_slots, rounds.more_workers) == (0, 0, 2)


def test_calls_at_a_time_are_no_share_of_time():
    many = replace(task(), operators=(OperatorLook("map(fetch)", 100, 125.0, cpu=0.1),))

    assert "on 1 worker (12.5 calls at a time)" in explain_job(job(0.5, many)).sentence


def ahead(**more):
    return JobLook(1, "train", (loop(0.5),), (replace(task(), ready=20, unacked=30),), **more)


def test_a_consumer_whose_others_are_slower_is_told_so():
    found = explain_job(ahead(consumers=2, fills_slots=False))

    assert found.more_workers == 0
    assert found.sentence.endswith(
        "consumers get each round together, and other consumers are slower"
    )


def test_a_wait_for_the_first_element_asks_for_nothing_more():
    begun = replace(loop(0.3), wanted=1.01)
    found = explain_job(JobLook(1, "train", (begun,), (task(),)))

    assert (found.limit, found.more_slots) == (Bottleneck.NOTHING, 0)
    assert found.sentence.endswith(
        "nearly all of it for its first element; it is itself the limit now"
    )


def test_a_loop_of_which_too_little_is_known_is_not_told_that_it_waits_no_more():
    young = replace(loop(0.9), wanted=-1.0)
    found = explain_job(JobLook(1, "train", (young,), (task(),)))

    assert (found.limit, found.operator, found.more_slots) == (
        Bottleneck.WORKERS,
        "map(decode)",
        0,
    )


def test_what_operators_made_and_how_evenly_is_a_figure():
    packs = OperatorFigures("pack", "tokens", 900, 45.0, padding_share=0.1)
    words = "pack: 900 tokens; 45 tokens a second; 10.0 % padding"

    on_workers = replace(job(0.5, task()), figures=(packs,))
    assert explain_job(on_workers).figures[0] == f"on workers: {words}"
    here = replace(stats(0.5, far=True), figures=(packs,))
    assert explain_loop(here, on_workers).figures[:2] == (f"here: {words}", f"on workers: {words}")
    assert explain_loop(here, on_workers).figures.count(f"on workers: {words}") == 1
