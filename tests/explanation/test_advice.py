"""What is advised for each kind of job: what would change it, or nothing."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.explanation.advice import here, on_workers, wanted, work_of
from penstock.explanation.looks import JobLook, OperatorLook, TaskLook
from penstock.protocol.loop_time import LoopTime


def task(number, *, label="map(decode)", cpu=9.0, worked=9.0, held_up=0.0):
    operators = OperatorLook(label, 100, worked, cpu=cpu), OperatorLook("range", 9, 0.1, cpu=0.1)
    return TaskLook(number, f"w:{number}", 10.0, held_up, 0.0, operators)


def job(count=2, **more):
    looks = {name: more.pop(name) for name in ("label", "cpu", "worked", "held_up") if name in more}
    tasks = tuple(task(number, **looks) for number in range(count))
    more = {"slots": count, "all_slots": count, "running": count, **more}
    return JobLook(1, "train", (), tasks, **more)


def advised(job, times=4.0):
    label = job.tasks[0].operators[0].label
    return on_workers(job, work_of(label, job.tasks), times)


def test_a_map_that_computes_gets_slots_with_cores():
    found = advised(job(2))

    assert (found.slots, found.workers, found.calls) == (7, 0, 0)
    assert found.words == "7 more slots would hide it (each needs a core)"


def test_a_map_that_sleeps_gets_calls_at_a_time():
    found = advised(job(2, cpu=0.2))

    assert found.calls == 5
    assert found.words == (
        "it waits rather than computes (2 % CPU): num_parallel_calls=5 would hide it, or 7 more "
        "slots would hide it"
    )


def test_what_sleeps_and_takes_no_calls_gets_slots():
    found = advised(job(2, label="filter(ask)", cpu=0.2))

    assert (found.slots, found.calls) == (7, 0)


def test_calls_that_are_made_already_are_counted():
    """Eight calls at a time sleep: for twice as much there must be about sixteen."""
    assert advised(job(2, cpu=0.5, worked=80.0), 2.0).calls == 17


def test_calls_in_threads_that_share_one_core_are_not_taken_for_sleep():
    """Each of eight waits for the others: together they need nearly all of a core."""
    assert advised(job(2, cpu=9.5, worked=80.0)).calls == 0


def test_no_more_calls_are_advised_than_one_core_can_make():
    found = advised(job(2, cpu=2.0), 20.0)

    assert found.calls == 6
    assert "would make it 5 times as fast" in found.words


def test_a_job_with_one_task_a_worker_gets_workers():
    found = advised(job(2, fills_slots=False, slots=0, all_slots=16))

    assert (found.workers, found.slots, found.calls) == (7, 0, 0)
    assert found.words.startswith("7 more workers would hide it: this job has one task a worker")
    assert 'executor="process"' in found.words


def test_such_a_job_gets_calls_before_workers_if_its_function_sleeps():
    found = advised(job(2, fills_slots=False, slots=0, cpu=0.1))

    assert (found.calls, found.workers, found.slots) == (5, 7, 0)
    assert found.words.index("num_parallel_calls=5") < found.words.index("7 more workers")
    assert "process" not in found.words


def test_slots_that_other_jobs_share_are_asked_for_as_well():
    assert advised(job(2, sharing=3, all_slots=6)).slots == 21


def test_a_job_in_one_order_has_two_tasks_a_worker_before_slots_count():
    """Two workers with a slot each make four tasks: two more slots change nothing."""
    ordered = job(4, slots=4, all_slots=2, ordered=True)

    assert advised(ordered, 2.0).slots == 9 - 2


def test_a_job_whose_splits_are_all_taken_gets_no_slots():
    found = advised(job(2, slots=8, all_slots=8))

    assert (found.slots, found.workers, found.calls) == (0, 0, 0)
    assert "no splits left" in found.words


def test_nothing_is_advised_before_it_is_known_how_much_is_wanted():
    assert advised(job(2), 1.0).words == ""


@given(st.floats(1.0, 50.0), st.integers(1, 50))
def test_the_slots_are_enough(times, count):
    found = advised(job(count), times)

    assert (count + found.slots) >= count * times


def loop(label, worked, cpu, share=0.5, told=0.0):
    return LoopTime(
        1000, 10.0, 10 * share, slowest_here=label, worked_here=worked, cpu_here=cpu, wanted=told
    )


def test_a_map_that_sleeps_in_the_training_process_gets_calls():
    found = here(loop("map(fetch)", 5.0, 0.1), reads_job=True)

    assert found.calls == 3
    assert "num_parallel_calls=3 would hide it; or put it before distribute" in found.words


def test_a_map_that_computes_there_belongs_on_workers():
    far, alone = (here(loop("map(f)", 5.0, 5.0), reads_job=far) for far in (True, False))

    assert (far.calls, far.words) == (0, "put it before distribute, so that workers do it")
    assert "have workers do it (distribute)" in alone.words


def test_what_takes_no_calls_is_not_told_to():
    assert "num_parallel_calls" not in here(loop("batch", 5.0, 5.0), reads_job=False).words


@pytest.mark.parametrize("told, found", [(0.0, 2.0), (1.0, 1.0), (-1.0, 1.0), (7.0, 7.0)])
def test_what_is_wanted_is_what_the_reader_says_or_else_follows_from_its_wait(told, found):
    assert wanted(replace(loop("", 0.0, 0.0), wanted=told)) == found


def test_a_job_in_one_order_that_waits_for_the_task_whose_turn_it_is_gets_no_slots():
    """Its first tasks are long: all others are ahead of the loop."""
    start = job(4, slots=4, all_slots=4, ordered=True, ready_ahead=300)
    found = advised(start, 3.0)

    assert (found.slots, found.workers) == (0, 0)
    assert found.words.startswith("300 elements of later tasks are ready")
    assert advised(replace(start, ready_ahead=20), 3.0).slots == 9
