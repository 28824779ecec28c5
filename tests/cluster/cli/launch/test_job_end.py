"""When a job is over for its other hosts, and which readers its first host waits for."""

import threading
from types import SimpleNamespace

import pytest

from penstock.errors import Refused, Unavailable
from penstock_cluster.cli.launch import job_end
from penstock_cluster.cli.launch.job_end import IDLE, JobEnd, JobWatch, Progress, await_others


def answer(*, ending=False, reading=0, consumed=0, processes=()):
    readers = [SimpleNamespace(process=one) for one in processes]
    account = SimpleNamespace(consumed=consumed)
    one = SimpleNamespace(live_readers=reading, finished=False, readers=readers, account=account)
    return SimpleNamespace(stats=SimpleNamespace(ending=ending, iterations=[one]))


@pytest.fixture
def dispatcher(monkeypatch):
    """What the dispatcher answers each time that it is asked; the last answer stays."""
    answers = []

    def look(_target):
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(job_end, "look", look)
    monkeypatch.setattr(job_end, "LOOK_EVERY", 0.0)
    return answers


def watch(seconds=10.0):
    clock = SimpleNamespace(now=0.0)
    return JobWatch("here:1", seconds, lambda: clock.now), clock


def test_a_job_is_over_when_its_dispatcher_says_so(dispatcher):
    dispatcher += [answer(), answer(ending=True)]
    watching, _ = watch()

    assert [watching.look(), watching.look()] == [JobEnd.RUNS, JobEnd.OVER]


def test_a_dispatcher_that_never_answered_is_waited_for_and_one_that_is_silent_for_long_is_lost(
    dispatcher,
):
    dispatcher += [Unavailable("not yet"), answer(), Unavailable("gone")]
    watching, clock = watch(seconds=10.0)

    clock.now = 1000.0
    assert [watching.look(), watching.look(), watching.look()] == [JobEnd.RUNS] * 3
    clock.now += 10.1
    assert watching.look() is JobEnd.LOST


def test_a_dispatcher_that_refuses_is_there(dispatcher):
    dispatcher += [answer(), Refused("no access")]
    watching, clock = watch(seconds=10.0)
    watching.look()

    clock.now = 1000.0
    assert watching.look() is JobEnd.RUNS


def test_nobody_takes_elements_only_when_no_count_has_changed_for_a_while():
    clock = SimpleNamespace(now=0.0)
    progress = Progress(lambda: clock.now)

    def is_idle(now, consumed):
        clock.now = now
        return progress.is_idle(answer(consumed=consumed).stats.iterations)

    assert not is_idle(IDLE, 10)
    assert not is_idle(2 * IDLE - 1, 10)
    assert not is_idle(2 * IDLE, 11)
    assert is_idle(3 * IDLE, 11)


def test_readers_of_other_hosts_are_waited_for(dispatcher):
    dispatcher += [answer(reading=2), answer(reading=2, consumed=5), answer(processes=("a", "b"))]
    said = []

    await_others("here:1", threading.Event(), 2, said.append, have_servers=False)

    assert said == ["the script has ended; waiting for 2 reader(s) of other hosts"]


def test_readers_that_live_as_long_as_a_server_are_not_waited_for_once_they_take_nothing(
    dispatcher, monkeypatch
):
    monkeypatch.setattr(job_end, "IDLE", 0.0)
    dispatcher += [answer(reading=15, consumed=7)]

    await_others("here:1", threading.Event(), 2, lambda _: None, have_servers=True)
