"""What a dispatcher counts, as far as it says what is slow."""

import json
from dataclasses import asdict

import pytest

from penstock.errors import VersionMismatch
from penstock.explanation.mesh import look
from penstock.protocol.measures import OperatorFigures

TIMES = {
    "seconds": 2.0,
    "held_up": 0.5,
    "starved": 0.1,
    "operators": [{"label": "map(f)", "elements": 9, "worked": 1.0, "waited": 0.0}],
}
LOOP = {"steps": 5, "seconds": 2.0, "waited": 1.0, "p50": 0.1, "p99": 0.2}


def status(**changed):
    runner = {"task": 3, "state": "runs", "times": TIMES, "head": 7, "nbytes": 5, "room": 9}
    iteration = {
        "iteration": 1,
        "job": "j",
        "repetition": 1,
        "finished": False,
        "tasks": [{"task": 3}, {"task": 4}],
        "readers": [
            {"reader": 8, "status": "live", "loop": LOOP},
            {"reader": 9, "status": "left", "loop": LOOP},
        ],
        **changed,
    }
    workers = [{"address": "w:1", "stats": {"tasks": [runner]}}, {"address": "w:2", "stats": None}]
    return json.dumps({"workers": workers, "iterations": [iteration]}).encode()


def test_a_pass_has_the_loops_that_live_and_the_tasks_that_are_being_made():
    (job,) = look(status()).jobs

    assert (job.job, len(job.loops)) == ("j", 1)
    (task,) = job.tasks
    assert (task.task, task.worker, task.held_up) == (3, "w:1", 0.5)
    assert task.operators[0].label == "map(f)"
    assert (task.nbytes, task.room) == (5, 9)


def test_sentences_have_the_number_of_a_task_within_its_pass():
    named = [{"task": 598_294_738_511, "index": 2}]
    runner = {"task": 598_294_738_511, "state": "runs", "times": TIMES}
    plain = json.loads(status(tasks=named))
    plain["workers"][0]["stats"]["tasks"] = [runner]
    (job,) = look(json.dumps(plain).encode()).jobs

    assert [(one.task, one.name) for one in job.tasks] == [(598_294_738_511, "task 2")]


def test_a_pass_that_is_over_is_not_explained():
    assert look(status(finished=True)).jobs == ()


def test_what_counts_otherwise_is_of_another_version():
    with pytest.raises(VersionMismatch, match="of another version"):
        look(b'{"workers": 3}')


def test_what_a_silent_reader_said_is_not_current():
    readers = [
        {"reader": 8, "status": "live", "silent": 0.5, "loop": LOOP},
        {"reader": 9, "status": "live", "silent": 4.0, "loop": LOOP},
    ]
    (job,) = look(status(readers=readers, readers_lost=2)).jobs

    assert len(job.loops) == 1
    assert (job.readers.live, job.readers.silent, job.readers.lost) == (2, 1, 2)


def test_operators_are_told_as_of_late():
    late = {**TIMES, "seconds": 10.0, "held_up": 0.0}
    late["operators"] = [{"label": "map(f)", "elements": 0, "worked": 10.0, "call": 42.0}]
    runner = {"task": 3, "state": "runs", "times": TIMES, "newest": late}
    plain = json.loads(status())
    plain["workers"][0]["stats"]["tasks"] = [runner]
    (job,) = look(json.dumps(plain).encode()).jobs
    (fn,) = job.tasks[0].operators

    assert (fn.worked, fn.call, job.tasks[0].held_up) == (10.0, 42.0, 0.0)


def test_what_stops_all_jobs_is_told_of_each():
    plain = json.loads(status()) | {"halted": "no room on /work"}
    seen = look(json.dumps(plain).encode())

    assert seen.trouble is not None
    assert seen.trouble.sentence == "The dispatcher decides nothing: no room on /work"
    assert [job.stopped for job in seen.jobs] == [seen.trouble]


def told(*tasks, past=(), **changed):
    """Return a status in which a worker with two slots runs *tasks*, and *past* ones are over."""
    seen = json.loads(status(tasks=[{"task": name} for name, *_ in tasks], **changed))
    runners = [{"task": n, "state": state, "times": times} for n, state, times in tasks]
    over = [{"iteration": it, "task": n, "times": TIMES} for it, n in past]
    seen["workers"] = [{"address": "w:1", "slots": 2, "stats": {"tasks": runners, "past": over}}]
    return look(json.dumps(seen).encode())


def test_while_no_short_task_has_said_anything_those_that_are_over_tell():
    young = [(7, "runs", None), (8, "runs", None)]
    (ended,) = told((5, "ended", TIMES), (6, "ended", TIMES), *young).jobs
    (gone,) = told(*young, past=[(1, 3), (2, 9), (1, 4), (1, 2)]).jobs

    assert ([one.task for one in ended.tasks], ended.running) == ([5, 6], 2)
    assert ([one.task for one in gone.tasks], gone.running) == ([3, 4], 2)


def test_what_runs_is_told_before_what_is_over():
    (job,) = told((5, "ended", TIMES), (6, "runs", TIMES), past=[(1, 3)]).jobs

    assert [one.task for one in job.tasks] == [6]


def test_a_job_says_whether_it_fills_slots_and_how_many_there_are():
    (job,) = told((6, "runs", TIMES), fills_slots=False, slots=0, ordered=True).jobs

    assert (job.fills_slots, job.slots, job.all_slots, job.ordered) == (False, 0, 2, True)
    assert told((6, "runs", TIMES), slots=2).jobs[0].slots == 2


def test_what_is_ready_of_later_tasks_is_told_apart():
    tasks = [(name, "ended", TIMES) for name in (4, 5, 6)]
    seen = json.loads(status(tasks=[{"task": name} for name, *_ in tasks]))
    runners = [{"task": n, "state": s, "times": t, "ready": 10 * n} for n, s, t in reversed(tasks)]
    seen["workers"] = [{"address": "w:1", "stats": {"tasks": runners}}]

    assert look(json.dumps(seen).encode()).jobs[0].ready_ahead == 50 + 60


def test_a_coordinated_job_says_how_many_consumers_there_are():
    rounds = {"released": 3, "floor": 2, "last": None, "consumers": [{"index": 0}, {"index": 1}]}

    assert told((6, "runs", TIMES), rounds=rounds).jobs[0].consumers == 2


def test_figures_of_operators_are_those_of_the_pass():
    packs = OperatorFigures("pack", "tokens", 900, 45.0, padding_share=0.1)
    (job,) = look(status(figures=[asdict(packs)])).jobs
    assert job.figures == (packs,)

    (older,) = look(status()).jobs
    assert older.figures == ()
