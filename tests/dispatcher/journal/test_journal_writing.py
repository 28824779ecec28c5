"""A dispatcher with a journal: what waits for it, what a full or slow disk does."""

import asyncio
import re
import shutil
import threading
from contextlib import aclosing
from functools import partial

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import StoreFull
from penstock.protocol.control import AttemptProgress, ReaderHeartbeat, SplitGrant, SplitRequest
from penstock.protocol.ranges import AckedSet
from penstock.protocol.types import Checkpoint, ReaderStatus
from penstock_dispatcher.core.counting import HALTED
from penstock_dispatcher.core.datasets import DatasetRegistered
from penstock_dispatcher.journal import journal as module
from penstock_dispatcher.journal.journal import open_journal
from penstock_dispatcher.journal.store import Store
from penstock_dispatcher.server import dispatching
from tests.dispatcher.durable_dispatcher import (
    folder_of,
    living,
    request,
    running,
    worker_heartbeat,
)
from tests.dispatcher.running_dispatcher import Line, register


async def test_nothing_is_answered_before_it_is_written_not_even_what_needs_no_writing(config):
    async with living(config) as (api, journal):
        dataset = await register(api, Dataset.range(10))
        gate, reached = threading.Event(), threading.Event()
        append = journal._store.append

        def gated(*args):
            reached.set()
            assert gate.wait(10)
            append(*args)

        journal._store.append = gated
        first = asyncio.create_task(api.open_iteration(request(dataset)))
        await asyncio.to_thread(reached.wait, 10)
        second = asyncio.create_task(api.open_iteration(request(dataset)))
        done, _ = await asyncio.wait({first, second}, timeout=0.2)
        assert not done
        assert b"iterations" in await api.status()

        gate.set()

        assert (await first).iteration == (await second).iteration


async def test_facts_that_come_while_others_are_written_share_a_transaction(config):
    async with living(config) as (api, journal):
        rows = []
        append = journal._store.append
        journal._store.append = lambda *args: (rows.append(args), append(*args))
        dataset = await register(api, Dataset.range(10))

        opening = [api.open_iteration(request(dataset, job=f"j{n}")) for n in range(100)]
        await asyncio.gather(*opening)

    assert len(rows) <= 40
    async with living(config) as (_, journal):
        assert len(journal.state.jobs) == 100


async def test_nothing_is_written_when_nothing_was_decided(config):
    async with living(config) as (api, journal):
        dataset = await register(api, Dataset.range(10))
        opened = await api.open_iteration(request(dataset))
        journal._store.append = None  # whoever calls it fails

        assert await register(api, Dataset.range(10)) == dataset
        assert (await api.open_iteration(request(dataset))).iteration == opened.iteration
        journal.check()


async def test_the_last_view_is_sent_behind_its_fact_and_before_the_end(config):
    async with dispatching(config) as api:
        dataset = await register(api, Dataset.range(10))
        opened = await api.open_iteration(request(dataset))
        async with aclosing(Line(api.reader_control)) as reader:
            reader.say(ReaderHeartbeat(opened.iteration, "r", None, 1))
            view = await reader.hear_until(lambda view: view.reader)
            reader.say(ReaderHeartbeat(opened.iteration, "r", view.reader, 2, leaving=True))
            reader.say(None)

            last = await reader.hear_until(lambda view: view.status is ReaderStatus.LEFT)
            with pytest.raises(StopAsyncIteration):
                await reader.hear()

    assert last.seq == 2


async def fill(api):
    """Open jobs until there is no room; return the names of those that were acknowledged."""
    dataset = await register(api, Dataset.range(10_000))
    names = []
    with pytest.raises(StoreFull) as caught:
        while True:
            name = f"{len(names):03d} " + "x" * 400
            await api.open_iteration(request(dataset, job=name))
            names.append(name)
    return dataset, names, str(caught.value)


async def test_a_full_store_refuses_decisions_says_why_and_goes_on_when_there_is_room(
    config, monkeypatch, caplog
):
    monkeypatch.setattr(module, "RETRY", 0.02)
    async with living(config, max_pages=60) as (api, journal):
        other = await register(api, Dataset.range(10_000))
        opened = await api.open_iteration(request(other, job="before"))
        async with running(api, opened.iteration) as (worker, reader, order, view):
            _, names, said = await fill(api)
            (run,) = order.tasks

            with pytest.raises(StoreFull, match="room"):
                await register(api, Dataset.range(11))
            with pytest.raises(StoreFull, match=r"journal\.db .*free space"):
                await api.open_iteration(request(other, job="another"))
            for beat in (2, 3):
                reader.say(ReaderHeartbeat(opened.iteration, "r", view.reader, beat))
                worker.say(SplitRequest("w:1", 1, run.task, 1, 0, 1))
            told = await reader.hear_until(lambda view: view.waiting_for)
            seen, before = api.stats(), journal.state.length

            journal._store._ask("PRAGMA max_page_count = 100000")
            grant = await worker.hear_until(lambda o: isinstance(o, SplitGrant))
            view = await reader.hear_until(lambda view: not view.waiting_for)
            await api.open_iteration(request(other, job="another"))

    assert "no room to write" in said
    assert seen.halted == said, "status says first what stops everything"
    assert {it.waiting_for for it in seen.iterations if it.live_readers} == {HALTED}
    assert "journal.db" in told.waiting_for
    assert view.seq == 3
    assert told.deferred, "its reports do not count before they are heard"
    assert not view.deferred
    assert told.status is ReaderStatus.LIVE
    assert grant.position == 1
    assert len(names) > 20
    assert journal.state.length > before
    assert len([r for r in caplog.records if "no room" in r.getMessage()]) == 1
    assert len([r for r in caplog.records if "room again" in r.getMessage()]) == 1
    async with living(config) as (_, journal):
        assert {*names, "before", "another"} <= journal.state.jobs.keys()


async def test_a_dispatcher_that_stops_while_its_store_is_full_keeps_what_it_acknowledged(
    config, caplog
):
    async with living(config, max_pages=60) as (api, _):
        _, names, _ = await fill(api)

    assert [r for r in caplog.records if "none of them was acknowledged" in r.getMessage()]
    async with living(config) as (_, journal):
        assert list(journal.state.jobs)[: len(names)] == names
        assert len(journal.state.jobs) <= len(names) + 1


@pytest.mark.slow
async def test_history_makes_room_by_itself(config):
    async with living(config, max_pages=80) as (api, journal):
        dataset = await register(api, Dataset.range(100).repeat())
        opened = await api.open_iteration(request(dataset))
        async with running(api, opened.iteration) as (worker, reader, order, _):
            (run,) = order.tasks
            at = run.logs[0].stop
            for number in range(1, 2000):
                worker.say(SplitRequest("w:1", 1, run.task, 1, 0, at))
                grant = await worker.hear_until(
                    lambda o, at=at: isinstance(o, SplitGrant) and o.position == at
                )
                at += len(grant.splits)
                state = Checkpoint(number, (at,), "x" * 1000)
                progress = AttemptProgress(1, number, AckedSet(number), state)
                worker.say(worker_heartbeat(order.revision, {run.task: progress}))
        assert journal.full is None
        assert journal.state.length > 3000


class Deaf:
    """Decides nothing."""

    def full(self, error):
        pass

    def relieved(self):
        pass


async def test_an_effect_behind_a_snapshot_that_found_no_room_waits_for_its_own_fact(
    config, tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "RETRY", 0.01)
    monkeypatch.setattr(module, "LEAST", 1)  # every write is a snapshot
    journal = await asyncio.to_thread(open_journal, folder_of(config), power=False)
    journal.attach(Deaf())
    found, went_wrong, compact = [], threading.Event(), journal._store.compact

    def no_room_once(snapshot):
        if not went_wrong.is_set():
            assert writing.wait(10)
            went_wrong.set()
            raise StoreFull("no room")
        compact(snapshot)

    def copy_of_the_disk(length):
        copy = tmp_path / f"copy{length}"
        shutil.copytree(folder_of(config), copy)
        with Store(copy / "journal.db", power=False) as store:
            found.append((length, store.load().state.length))

    def note(fact):
        journal.state.apply(fact)
        journal.append(fact)
        journal.call_when_durable(partial(copy_of_the_disk, journal.state.length))

    writing, journal._store.compact = threading.Event(), no_room_once
    note(DatasetRegistered("d1", (), ""))
    while not journal._busy:
        await asyncio.sleep(0)
    note(DatasetRegistered("d2", (), ""))
    writing.set()
    async with asyncio.timeout(20):
        while len(found) < 2:
            await asyncio.sleep(0.001)
    await journal.aclose()

    assert went_wrong.is_set()
    assert all(on_disk >= length for length, on_disk in found), found


async def test_a_disk_that_is_far_behind_holds_decisions_up_and_not_memory(config, monkeypatch):
    monkeypatch.setattr(module, "MANY", 20)
    async with living(config) as (api, journal):
        dataset = await register(api, Dataset.range(10))
        gate, append = threading.Event(), journal._store.append
        journal._store.append = lambda *args: (gate.wait(10), append(*args))

        opening = [
            asyncio.create_task(api.open_iteration(request(dataset, job=f"j{n}")))
            for n in range(100)
        ]
        async with asyncio.timeout(20):
            while not journal.blocked:
                await asyncio.sleep(0.001)
        assert len(journal.state.jobs) < 30
        assert "has written nothing for" in api.stats().halted
        gate.set()
        await asyncio.gather(*opening)

        assert len(journal.state.jobs) == 100
        assert not journal.blocked


async def test_a_disk_that_does_not_end_a_transaction_is_told_before_it_holds_decisions_up(
    config, monkeypatch
):
    monkeypatch.setattr(module, "STALLED", 0.05)
    async with living(config) as (api, journal):
        gate, append = threading.Event(), journal._store.append
        journal._store.append = lambda *args: (gate.wait(60), append(*args))
        asking = asyncio.create_task(register(api, Dataset.range(10)))
        async with asyncio.timeout(60):
            while not journal.halted:
                await asyncio.sleep(0.001)
        seen, blocked = api.stats().halted, journal.blocked
        gate.set()
        await asking

    assert re.search(r"journal\.db has written nothing for 0 s: \d+ facts wait", seen)
    assert not blocked
    assert journal.halted == ""
