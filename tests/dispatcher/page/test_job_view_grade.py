"""How a job is, and for what it waits: the same on the page and in commands."""

from dataclasses import replace

import pytest

from penstock.explanation.verdict import explain_job
from penstock_dispatcher.page.job_view import Grade, graded
from tests.dispatcher.page import scenes
from tests.dispatcher.page.looking import looked


@pytest.mark.parametrize(
    ("scene", "grade", "matter"),
    [
        (scenes.healthy, Grade.HEALTHY, ""),
        (scenes.slow_map, Grade.WAITS, "map(decode) on workers"),
        (
            lambda t: replace(scenes.healthy(t), halted="no room to write"),
            Grade.STOPPED,
            "no room to write",
        ),
    ],
)
def test_a_job_is_graded_by_what_its_loops_wait_for(scene, grade, matter):
    _, moment = looked(scene, 6)
    (it,) = moment.stats.iterations
    look = moment.looks[it.iteration]

    found, what = graded(it, look, explain_job(look))

    assert found is grade
    assert matter in what
