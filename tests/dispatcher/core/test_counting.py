"""What is counted for status calls and the page: what is current, and ages by kept facts."""

import pytest

from penstock.protocol.control import ReaderHeartbeat, WorkerHeartbeat
from penstock.protocol.loop_time import LinkTraffic, LoopTime
from penstock_dispatcher.core.counting import CURRENT, LOST
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.state_machine import DispatcherCore
from tests.dispatcher.core.driver import DATE
from tests.dispatcher.core.test_account import Life

LOOP = LoopTime(100, 10.0, 0.1, total=5000)
LINKS = (LinkTraffic("w1", "grpc", 5, 5000, 5000, 500.0, held=400, room=500),)


def heartbeat(life, session, seq=1000, **more):
    reader = life.core.state.iterations[life.iteration].sessions[session]
    return ReaderHeartbeat(
        life.iteration, session, reader, seq, loop=LOOP, links=LINKS, consumed=7, **more
    )


def readers(life):
    return {one.reader: one for one in life.stats.readers}


def test_what_a_silent_reader_said_of_its_loop_and_buffers_is_not_shown():
    life = Life()
    life.tell(heartbeat(life, "r1"))
    one = life.core.state.iterations[life.iteration].sessions["r1"]

    life.now += CURRENT - 0.5
    assert (readers(life)[one].loop, readers(life)[one].links) == (LOOP, LINKS)
    life.now += 1.0
    assert (readers(life)[one].loop, readers(life)[one].links) == (None, ())
    assert readers(life)[one].silent == pytest.approx(CURRENT + 0.5)


def test_while_nothing_is_decided_figures_are_current_and_only_that_is_waited_for():
    life = Life()
    life.dies("w1")
    assert life.stats.waiting_for.startswith("a worker: none is registered")
    before = life.core.state.revision
    life.now += 60.0
    life.core.show(heartbeat(life, "r1"), life.now)

    found = life.core.stats(life.now, "no room on /work")
    (it,) = found.iterations
    shown = {one.reader: one for one in it.readers}
    one, two = life.core.state.iterations[life.iteration].sessions.values()
    assert (found.halted, it.held_by) == ("no room on /work", "")
    assert it.waiting_for == "the dispatcher, which decides nothing now"
    assert (shown[one].silent, shown[one].loop, shown[one].consumed) == (0.0, LOOP, 7)
    assert shown[two].silent == 60.0
    assert life.core.state.revision == before


def test_a_worker_whose_heartbeats_cannot_be_handled_is_not_silent():
    life = Life()
    life.now += 60.0
    life.core.show(WorkerHeartbeat("w1", 1, 0, stats=b'{"elements_made": 5}'), life.now)
    (worker,) = life.core.stats(life.now, "no room").workers

    assert (worker.silent, worker.stats) == (0.0, {"elements_made": 5})


def test_what_was_shown_gives_way_to_what_is_handled():
    life = Life()
    life.core.show(heartbeat(life, "r1"), life.now)
    life.now += 1.0
    life.reads("r1")
    one = life.core.state.iterations[life.iteration].sessions["r1"]

    assert readers(life)[one].loop is None
    assert readers(life)[one].silent == 0.0


def test_how_long_nobody_reads_is_since_the_last_reader_was_heard_also_behind_a_restart():
    life = Life()
    life.reads("r1", leaving=True)
    heard = life.now
    life.pass_time(60.0, "w1")
    assert life.stats.unread == pytest.approx(life.now - heard)

    state = life.core.state
    life.now += 450.0
    life.core = DispatcherCore(state, CoreSettings(), life.now, DATE + life.now - 100.0)
    assert life.stats.unread == pytest.approx(life.now - heard)
    life.core.ctx.soft_state.since = life.now  # it was stopped for a while, or its disk was full
    assert life.stats.unread == pytest.approx(life.now - heard)


def test_readers_that_die_are_counted_until_others_come_in_their_place():
    life = Life()
    life.pass_time(60.0, "w1")
    assert (life.stats.readers_lost, life.core.ctx.counts.readers_expired) == (2, 2)
    life.reads("r3")
    assert life.stats.readers_lost == 1
    life.reads("r3", leaving=True)
    assert life.stats.readers_lost == 1
    life.restart()
    assert life.stats.readers_lost == 1


def test_workers_that_are_lost_and_tasks_that_move_are_counted():
    life = Life()
    life.comes("w2")
    life.dies("w1")
    for session in ("r1", "r2"):
        life.reads(session, fence=2)
    counts = life.core.ctx.counts

    assert (counts.workers_lost, counts.tasks_moved, counts.readers_expired) == (1, 1, 0)
    life.now += 8.0
    assert life.core.stats(life.now).worker_lost == pytest.approx(8.0)
    (lost,) = life.core.stats(life.now).lost_workers
    assert (lost.address, lost.heard) == ("w1", pytest.approx(8.0))
    life.now += LOST
    assert life.core.stats(life.now).lost_workers == ()


def test_a_worker_that_dies_and_ran_nothing_is_lost_until_it_comes_back():
    life = Life()
    life.comes("w2")
    life.dies("w2")
    assert life.core.ctx.counts.workers_lost == 1
    assert life.core.stats(life.now).worker_lost == pytest.approx(0.0)
    life.comes("w2")
    assert life.core.ctx.counts.workers_lost == 1
    assert life.core.stats(life.now).worker_lost is None


def test_a_worker_that_leaves_is_not_lost():
    life = Life()
    life.tell(WorkerHeartbeat("w1", 1, 0, draining=True))
    life.dies("w1")

    assert life.core.ctx.counts.workers_lost == 0
    assert life.core.stats(life.now).worker_lost is None
