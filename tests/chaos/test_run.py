"""Nothing is done to a mesh before those are there that it would be wrong to do it without."""

import json
import time
from types import SimpleNamespace

import pytest

from chaos import run
from chaos.mesh import JOB
from chaos.plan import DYNAMIC, Life, Plan
from penstock.protocol.types import Mode
from penstock_dispatcher.core import job_state


def a_pass(iteration, readers):
    return {"iteration": iteration, "job": JOB, "readers": [{}] * readers}


@pytest.fixture
def story():
    """A life behind another one, with two readers that were started."""
    plan = Plan(0, (Life(),), mode=DYNAMIC)
    known = {"plan": plan, "first": 5, "readers": [None, None]}
    mesh = SimpleNamespace(**known, all_processes=list, set_weights=None)
    return run._Story(mesh, Life(), 100, time.monotonic() + 60, run.Outcome())


def test_readers_are_there_when_the_pass_of_this_life_has_all_of_them(story):
    shown = [[a_pass(1, 2)], [a_pass(1, 2), a_pass(5, 1)], [a_pass(1, 2), a_pass(5, 2)]]
    story.mesh.status = lambda: {"iterations": shown.pop(0)}

    story.await_readers()

    assert shown == []


def test_readers_that_do_not_come_within_the_deadline_are_a_problem(story, tmp_path):
    story.mesh.folder, story.mesh.logged, story.mesh.heal = tmp_path, 0, list
    story.mesh.status = lambda: {"iterations": [a_pass(1, 2)]}
    story._deadline = 0.0

    with pytest.raises(run.Stuck, match="not over within"):
        story.await_readers()


def test_a_saved_state_says_how_many_copies_were_begun_before_it(tmp_path):
    state = job_state.JobState(3, "job", "f", Mode.OFF, JOB, 0, 4, 5, next_task=2)
    saved = {"jobs": {"0.0": [{"passes": [], "state": json.loads(job_state.encode(state))}]}}
    (tmp_path / "state").write_text(json.dumps(saved))

    assert run._next_task(tmp_path / "state") == 2
