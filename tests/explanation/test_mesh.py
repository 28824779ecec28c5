"""What a dispatcher counts, as far as it says what is slow."""

import json

import pytest

from penstock.errors import VersionMismatch
from penstock.explanation.mesh import jobs

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
    (look,) = jobs(status())

    assert (look.job, len(look.loops)) == ("j", 1)
    (task,) = look.tasks
    assert (task.task, task.worker, task.held_up) == (3, "w:1", 0.5)
    assert task.operators[0].label == "map(f)"
    assert (task.nbytes, task.room) == (5, 9)


def test_a_pass_that_is_over_is_not_explained():
    assert jobs(status(finished=True)) == ()


def test_what_counts_otherwise_is_of_another_version():
    with pytest.raises(VersionMismatch, match="of another version"):
        jobs(b'{"workers": 3}')
