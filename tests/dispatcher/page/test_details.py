"""A worker, a task, and lists of them: what the status call says, in rows."""

from dataclasses import replace

from penstock_dispatcher.page import details
from penstock_dispatcher.page.mesh_view import worker_groups
from tests.dispatcher.page import scenes
from tests.dispatcher.page.looking import looked


def test_a_worker_has_its_tasks_and_what_it_counts():
    _, moment = looked(scenes.healthy, 5)
    known = moment.stats.workers[1]

    seen = details.worker_detail(moment, known.address)

    load = seen.worker.load
    assert (load.busy, load.cores) == (1.8, 4)
    assert (load.running, load.assigned) == (2, len(known.tasks))
    assert tuple(task.task for task in seen.tasks) == known.tasks
    assert seen.stats == known.stats
    assert seen.operators[0].label == "map(decode)"
    assert details.worker_detail(moment, "elsewhere:1") is None


def test_a_task_has_its_place_and_its_operators():
    _, moment = looked(scenes.healthy, 5)
    known = moment.stats.iterations[0].tasks[2]

    seen = details.task_detail(moment, known.task)

    assert (seen.task.head, seen.task.acked, seen.task.worker) == (
        known.head,
        known.acked,
        known.worker,
    )
    assert seen.task.standing == "runs"
    assert [one.label for one in seen.operators] == list(scenes.OPERATORS)
    assert details.task_detail(moment, 1) is None


def test_lists_say_how_many_there_are_and_have_only_so_many():
    _, moment = looked(scenes.thousand, 6)
    slow = len(worker_groups(moment)["live, slow"])

    everybody, group = details.workers_listed(moment), details.workers_listed(moment, "live, slow")
    tasks, readers = details.tasks_listed(moment, 10_000), details.readers_listed(moment, 10_000)

    assert (everybody.total, len(everybody.workers)) == (1000, details.LISTED)
    assert (group.total, len(group.workers)) == (slow, slow)
    assert (tasks.total, len(tasks.tasks)) == (334, details.LISTED)
    assert (readers.total, len(readers.readers)) == (16, 16)
    assert details.workers_listed(moment, "none such").total == 0


def test_a_task_has_its_number_within_its_job_and_a_worker_its_memory_and_version():
    _, moment = looked(scenes.slow_map, 3)

    (task, *_) = details.tasks_listed(moment, 7100).tasks
    (worker, *_) = details.workers_listed(moment).workers
    assert (task.task, task.number) == (7110, 10)
    assert (worker.host, worker.memory, worker.version) == ("worker-0.local", 200 << 20, "0.1.0")


def test_the_memory_of_a_worker_that_is_not_heard_is_not_shown():
    def scene(t):
        seen = scenes.slow_map(t)
        silent = (replace(seen.workers[0], silent=9.0), *seen.workers[1:])
        return replace(seen, workers=silent)

    _, moment = looked(scene, 3)
    assert [one.memory is None for one in details.workers_listed(moment).workers] == [True] + [
        False
    ] * 3
