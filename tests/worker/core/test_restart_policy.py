"""How often runners may die, and how soon the next one begins."""

import pytest

from penstock_worker.core.restart_policy import DEATHS, PAUSE, TRIES, RestartPolicy


def test_runners_may_die_as_long_as_they_get_further():
    lives = RestartPolicy()
    assert not lives.flush_each

    assert all(lives.may_restart(n) for n in range(100))
    assert lives.flush_each
    assert [lives.may_restart(200) for _ in range(DEATHS)] == [True] * (DEATHS - 1) + [False]


def test_runners_begin_one_by_one():
    lives = RestartPolicy()

    assert lives.next_delay(10.0) == 0.0
    assert lives.next_delay(10.0) == pytest.approx(PAUSE)
    assert lives.next_delay(10.0) == pytest.approx(2 * PAUSE)
    assert lives.next_delay(20.0) == 0.0


def test_who_begins_and_then_lacks_room_gets_further_or_has_its_tries():
    lives = RestartPolicy()
    for head in (0, 10):
        tries = []
        for _ in range(len(TRIES) + 1):
            tries.append(lives.may_retry("threads", head))
            lives.on_first_report()  # it began, at least
        assert tries == [True] * len(TRIES) + [False]

    assert lives.lacking == ""
