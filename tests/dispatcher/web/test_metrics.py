"""What a scrape says of workers: an alert sees one that died, until it is back or forgotten."""

from penstock.protocol.control import WorkerHeartbeat
from penstock_dispatcher.core.counting import LOST
from penstock_dispatcher.web.metrics import worker_states
from tests.dispatcher.core.test_account import Life


def states(life):
    return dict(+worker_states(life.core, life.now))


def test_a_worker_that_was_killed_is_disconnected_also_when_it_is_removed_at_once():
    life = Life()
    life.comes("w2")
    life.dies("w1")
    assert "w1" not in life.core.state.workers
    assert states(life) == {"live": 1, "disconnected": 1}


def test_a_worker_that_is_stopped_is_silent_and_after_its_lease_disconnected():
    life = Life()
    life.comes("w2")
    life.pass_time(4.0, "w2")
    assert states(life) == {"live": 1, "silent": 1}
    life.pass_time(10.0, "w2")
    assert states(life) == {"live": 1, "disconnected": 1}


def test_a_worker_that_comes_back_is_live():
    life = Life()
    life.dies("w1")
    life.comes("w1")
    assert states(life) == {"live": 1}


def test_a_worker_that_drained_is_not_missed():
    life = Life()
    life.comes("w2")
    life.tell(WorkerHeartbeat("w1", 1, 0, draining=True))
    assert states(life) == {"live": 1, "draining": 1}
    life.dies("w1")
    assert states(life) == {"live": 1}


def test_a_worker_whose_place_another_took_is_forgotten():
    life = Life()
    life.comes("w2")
    life.dies("w1")
    life.now += LOST - 1.0
    assert states(life)["disconnected"] == 1
    life.now += 2.0
    assert states(life) == {"live": 1}
