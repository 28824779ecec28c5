"""How busy workers are: cores, and tasks that run."""

from dataclasses import replace

from penstock_dispatcher.page.standing import WorkerLoad, load_of
from tests.dispatcher.page import scenes


def worker(states, busy=1.5, cores=2, slots=2, **more):
    made = scenes.worker("w:1", range(len(states)), 5.0, 40.0, slots=slots)
    tasks = [one | {"state": state} for one, state in zip(made.stats["tasks"], states, strict=True)]
    usage = {"cpu": 9.0, "memory": 1, "busy": busy, "cores": cores}
    return replace(made, stats=made.stats | {"tasks": tasks, "usage": usage}, **more)


def test_more_tasks_than_slots_are_told_as_tasks_that_run_and_tasks_assigned():
    crowded = worker(["runs"] * 29 + ["waits for splits", "ended"])

    assert load_of([crowded]) == WorkerLoad(1.5, 2, 30, 31)


def test_the_load_of_several_is_their_sum():
    both = [worker(["runs"]), worker(["runs", "ended"], 0.25, 4)]

    assert load_of(both) == WorkerLoad(1.75, 6, 2, 3)


def test_figures_of_a_worker_that_is_not_heard_are_not_those_of_now():
    silent = worker(["runs", "runs"], silent=30.0)
    new = replace(worker(["runs"]), stats=None)

    assert load_of([silent]) == WorkerLoad(None, None, None, 2)
    assert load_of([new]) == WorkerLoad(None, None, None, 1)
    assert load_of([worker(["runs"]), silent]) == WorkerLoad(None, None, None, 3)


def test_what_is_not_known_of_nobody_is_nothing():
    assert load_of([]) == WorkerLoad(None, None, None, 0)
