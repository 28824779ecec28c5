"""Which task makes least, and on which worker."""

from penstock.explanation.looks import OperatorLook, TaskLook
from penstock.explanation.slowest import slowest


def task(number, worker, elements, held_up=0.0):
    operators = (OperatorLook("map(decode)", elements, 9.0),)
    return TaskLook(number, worker, 10.0, held_up, 0.0, operators)


def test_the_task_that_makes_least_a_second_and_the_worker_whose_tasks_do():
    tasks = [
        *(task(1, "w:1", 1000), task(2, "w:1", 300)),
        *(task(3, "w:2", 500), task(4, "w:2", 500)),
        *(task(5, "w:3", 900), task(6, "w:3", 900)),
    ]

    found = slowest(tasks)

    assert (found.task, found.on, found.speed, found.usual) == (2, "w:1", 30.0, 70.0)
    assert (found.worker, found.worker_speed, found.worker_usual) == ("w:2", 50.0, 65.0)
    assert str(found) == (
        "slowest task 2 on w:1, 30 elements a second (median 70); slowest worker w:2, "
        "50 a task (median 65)"
    )


def test_a_task_that_nobody_takes_from_is_not_slow():
    found = slowest([task(1, "w:1", 100, held_up=9.0), task(2, "w:2", 300)])

    assert found.task == 2


def test_one_task_is_compared_with_none():
    assert str(slowest([task(1, "w:1", 100)])) == "slowest task 1 on w:1, 10 elements a second"


def test_without_elements_there_is_none():
    assert slowest([]) is None
    assert slowest([task(1, "w:1", 0)]) is None
