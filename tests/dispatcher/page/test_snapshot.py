"""A snapshot and the changes behind it give what the next snapshot is."""

from dataclasses import replace

import msgspec
import pytest

from penstock_dispatcher.core.stats import SaveStats
from penstock_dispatcher.page.snapshot import applied, change, whole
from tests.dispatcher.page import scenes
from tests.dispatcher.page.looking import looked


@pytest.mark.parametrize("name", ["healthy", "lost-and-drained", "unbalanced", "five-jobs"])
def test_changes_lead_from_one_snapshot_to_the_next(name):
    scene = scenes.SCENES[name]
    history, moment = looked(scene, 40)
    seen = whole(history, moment)
    told = list(seen.notices)

    for t in range(41, 60):
        _, moment = looked(scene, t, history, first=t)
        made = change(seen, history, moment)
        told += made.notices
        seen = applied(seen, made)

    now = whole(history, moment)
    for part in ("number", "at", "dispatcher", "headline", "totals", "jobs", "mesh", "saves"):
        assert getattr(seen, part) == getattr(now, part), part
    assert tuple(told) == now.notices


def test_what_is_as_it_was_is_left_out():
    history, moment = looked(scenes.empty, 3)
    seen = whole(history, moment)
    _, moment = looked(scenes.empty, 4, history, first=4)

    made = msgspec.json.decode(msgspec.json.encode(change(seen, history, moment)))

    assert made == {"number": 5, "at": moment.at, "change": True}


def test_saves_that_are_open_are_shown():
    known = [
        SaveStats(name, f"/{name}", stage, "w:1", 10, 100, 800, 5.0)
        for name, stage in (("a", "open"), ("b", "complete"))
    ]
    history, moment = looked(lambda t: replace(scenes.empty(t), saves=tuple(known)), 3)

    assert [one.path for one in whole(history, moment).saves] == ["/a"]


def test_a_thousand_workers_are_few_bytes():
    history, moment = looked(scenes.thousand, 2)
    seen = whole(history, moment)
    _, moment = looked(scenes.thousand, 3, history, first=3)

    assert len(msgspec.json.encode(change(seen, history, moment))) < 20_000


def test_of_thirty_jobs_those_that_wait_come_first_and_the_others_are_healthy():
    history, moment = looked(scenes.thirty_jobs, 6)

    seen = [(job.job, job.grade, job.matter) for job in whole(history, moment).jobs]

    slow = "map(decode) on workers"
    assert seen[:3] == [(f"trial-{n}", "waits", slow) for n in (23, 13, "03")]
    assert {grade for _, grade, _ in seen[3:]} == {"healthy"}
    assert len(seen) == 30


def test_jobs_that_wait_longest_come_first_and_what_is_unbalanced_is_never_left_out():
    history, moment = looked(scenes.five_jobs, 6)
    waits = [job.wait for job in whole(history, moment).jobs]
    assert waits == sorted(waits, reverse=True)

    def scene(t):
        wrong = scenes.unbalanced(t).iterations[1]
        done = [scenes.a_pass(i, f"j{i}", [], [], 10, finished=True) for i in range(7000, 7200)]
        return scenes.mesh([], [wrong, *done])

    _, moment = looked(scene, 1)
    shown = whole(history, moment).jobs
    assert shown[0].job == "nightly eval"
    assert len(shown) < 50
