"""A look at all passes: what is counted of each job."""

import asyncio

from penstock.protocol.control import ReaderHeartbeat
from penstock.protocol.loop_time import LoopTime
from penstock.protocol.mixture import WeightStage
from penstock_dispatcher.web import sampler as module
from penstock_dispatcher.web.sampler import Sampler, sampling
from tests.dispatcher.core.mixed import Mixed, outline
from tests.dispatcher.core.test_account import Life


def test_a_job_has_its_passes_readers_and_elements():
    life = Life()
    life.works("w1", 10, 4, produced=10, sent=6)
    sampler = Sampler(life.core)

    seen = sampler.look()

    assert (seen.jobs["j"].iterations, seen.jobs["j"].readers) == (1, 2)
    assert (seen.tasks, seen.waiting_tasks) == (1, 0)
    assert (seen.slots, seen.slots_used) == (1, 0)  # a copy takes no slot
    counts = sampler.totals.by_job()["j"]
    assert (counts["produced"], counts["sent"]) == (10, 6)
    assert counts["elements"] == 10


def test_a_task_that_no_worker_has_waits():
    life = Life()
    life.dies("w1")

    seen = Sampler(life.core).look()

    assert (seen.tasks, seen.waiting_tasks, seen.slots) == (1, 1, 0)


async def test_it_looks_while_the_block_lasts_and_others_get_their_turn(monkeypatch):
    monkeypatch.setattr(module, "EVERY", 0.0)
    monkeypatch.setattr(module, "TURN", 0.0)
    sampler = Sampler(Life().core)
    async with sampling(sampler):
        async with asyncio.timeout(20):
            while not sampler.sample.jobs:
                await asyncio.sleep(0)
    assert sampler.sample.jobs["j"].readers == 2


async def test_a_fault_in_looking_is_logged_and_ends_nothing_else(monkeypatch, caplog):
    sampler = Sampler(Life().core)
    monkeypatch.setattr(sampler, "_core", None)
    async with sampling(sampler):
        async with asyncio.timeout(20):
            while "looking failed" not in caplog.text:
                await asyncio.sleep(0)


def test_loops_that_are_not_heard_have_no_wait_rather_than_an_old_one():
    life = Life()
    sampler = Sampler(life.core, lambda: life.now)
    for session, waited in (("r1", 2.0), ("r2", 6.0)):
        reader = life.core.state.iterations[life.iteration].sessions[session]
        loop = LoopTime(10, 10.0, waited, waiting=waited / 2, total=10)
        life.tell(ReaderHeartbeat(life.iteration, session, reader, 1000, loop=loop))

    job = sampler.look().jobs["j"]
    assert (job.wait_ratio, job.longest_wait) == (0.4, 3.0)
    life.now += 4.0
    job = sampler.look().jobs["j"]
    assert (job.wait_ratio, job.longest_wait, job.readers) == (None, 0.0, 2)


def test_readers_that_died_are_counted_for_their_job():
    life = Life()
    life.pass_time(60.0, "w1")
    job = Sampler(life.core, lambda: life.now).look().jobs["j"]

    assert (job.readers, job.readers_lost, job.iterations_unread) == (0, 2, 1)


def test_the_sources_of_a_mixture_have_their_shares():
    job = Mixed(outline(stages=(WeightStage(0, (3, 1)),)))
    job.sets(web=1, code=1)
    job.finishes_first()
    now = Sampler(job.core, lambda: job.now).look().jobs["j"]

    (found,) = job.stats.mixtures
    assert now.sources == {one.name: (0.5, one.handed) for one in found.sources}


def test_a_mixture_of_many_sources_has_few_series(monkeypatch):
    monkeypatch.setattr(module, "MOST_SOURCES", 1)
    job = Mixed()

    assert list(Sampler(job.core, lambda: job.now).look().jobs["j"].sources) == ["web"]
