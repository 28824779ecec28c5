"""A dispatcher with a journal: what waits for it, what a restart finds, what a full disk does."""

import asyncio
import logging
import shutil
import sqlite3
import threading
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from penstock import Dataset
from penstock.definition import encode
from penstock.errors import (
    ConfigError,
    InternalError,
    JournalError,
    StoreFull,
    Unavailable,
    UnknownDataset,
)
from penstock.messages import (
    PROTOCOL,
    Assignment,
    Codec,
    Mode,
    OpenRequest,
    Progress,
    ReaderBeat,
    SplitGrant,
    SplitRequest,
    Versions,
    WorkerBeat,
)
from penstock.numbers import EngineState, Standing, Taken
from penstock_dispatcher import service
from penstock_dispatcher.config import DispatcherConfig
from penstock_dispatcher.core import Core
from penstock_dispatcher.core.facts import DatasetRegistered, JobMade, JobParameters
from penstock_dispatcher.journal import journal as module
from penstock_dispatcher.journal import open_journal
from penstock_dispatcher.journal.store import Store
from penstock_dispatcher.server import dispatching
from penstock_dispatcher.service import Dispatcher
from penstock_dispatcher.world import World

VERSIONS = Versions(PROTOCOL, "3.11.7", "0.1.0")


@pytest.fixture
def config(tmp_path):
    return DispatcherConfig(work_dir=str(tmp_path / "work"))


@asynccontextmanager
async def living(config, **options):
    """A dispatcher whose journal is at hand."""
    journal = await asyncio.to_thread(open_journal, _folder(config), power=False, **options)
    dispatcher = Dispatcher(config, journal)
    try:
        yield dispatcher, journal
    finally:
        dispatcher.close()
        await journal.aclose()


def _folder(config):
    return Path(config.work_dir)


class Line:
    """One end of a control stream."""

    def __init__(self, method):
        self._out, self._in = asyncio.Queue(), asyncio.Queue()
        self._reading = asyncio.create_task(self._read(method))

    async def _messages(self):
        while (message := await self._out.get()) is not None:
            yield message

    async def _read(self, method):
        async with aclosing(method(self._messages())) as heard:
            try:
                async for message in heard:
                    self._in.put_nowait(message)
            except Unavailable as exc:
                self._in.put_nowait(exc)
        self._in.put_nowait(None)

    def say(self, message):
        self._out.put_nowait(message)

    async def hear_until(self, wanted):
        async with asyncio.timeout(10):
            while not wanted(heard := await self._in.get()):
                assert heard is not None
            return heard

    async def aclose(self):
        self._reading.cancel()
        await asyncio.wait({self._reading})


async def register(api, dataset):
    return await api.register_dataset(encode(dataset.node).to_bytes(), VERSIONS)


def request(dataset, mode=Mode.DYNAMIC, job="j", repetition=1):
    return OpenRequest(VERSIONS, dataset, mode, job, repetition, Codec.NONE)


def worker_beat(as_of=-1, progress=None):
    return WorkerBeat("w:1", 1, as_of, progress or {}, versions=VERSIONS)


@asynccontextmanager
async def running(api, iteration):
    """A worker and a reader of *iteration*, of which a task runs."""
    async with aclosing(Line(api.worker_control)) as worker:
        worker.say(worker_beat())
        async with aclosing(Line(api.reader_control)) as reader:
            reader.say(ReaderBeat(iteration, "r", None, 1))
            order = await worker.hear_until(lambda o: isinstance(o, Assignment) and o.runs)
            view = await reader.hear_until(lambda view: view.tasks)
            yield worker, reader, order, view


async def test_a_dispatcher_goes_on_where_one_that_was_killed_was(config, tmp_path):
    async with dispatching(config) as first:
        dataset = await register(first, Dataset.range(10_000))
        opened = await first.open_iteration(request(dataset))
        async with running(first, opened.iteration) as (worker, reader, order, view):
            (run,) = order.runs
            worker.say(SplitRequest("w:1", 1, run.task, 1, 0, 1))
            grant = await worker.hear_until(lambda o: isinstance(o, SplitGrant))
            shutil.copytree(config.work_dir, tmp_path / "killed")

    async with dispatching(replace(config, work_dir=str(tmp_path / "killed"))) as second:
        again = await second.open_iteration(request(dataset))
        async with running(second, again.iteration) as (worker, reader, order, seen):
            (rerun,) = order.runs
            worker.say(SplitRequest("w:1", 1, run.task, 1, 0, 1))
            repeated = await worker.hear_until(lambda o: isinstance(o, SplitGrant))

    assert again.iteration == opened.iteration
    assert seen.reader == view.reader
    assert seen.as_of >= view.as_of
    assert (rerun.task, rerun.attempt, rerun.seed) == (run.task, run.attempt, run.seed)
    assert rerun.logs[0].splits == (*run.logs[0].splits, *grant.splits)
    assert repeated == grant


async def test_after_a_stop_in_order_a_start_has_nothing_to_replay(config, caplog):
    async with dispatching(config) as first:
        dataset = await register(first, Dataset.range(10))
        opened = await first.open_iteration(request(dataset))

    assert not list(_folder(config).glob("*-wal"))
    journal = await asyncio.to_thread(open_journal, _folder(config), power=False)

    assert journal._since == 0
    assert opened.iteration in journal.books.iterations
    await journal.aclose()


async def test_a_finished_job_is_one_line_that_a_restart_knows(config):
    async with dispatching(config) as first:
        dataset = await register(first, Dataset.range(10))
        opened = await first.open_iteration(request(dataset))
        async with running(first, opened.iteration) as (worker, reader, order, _):
            (run,) = order.runs
            at = run.logs[0].stop
            worker.say(SplitRequest("w:1", 1, run.task, 1, 0, at))
            await worker.hear_until(lambda o: isinstance(o, SplitGrant))
            done = Progress(1, 10, Taken(10), EngineState(10, (at,)), done=True)
            worker.say(worker_beat(order.as_of, {run.task: done}))
            await reader.hear_until(lambda view: view.finished)

    async with dispatching(config) as second:
        again = await second.open_iteration(request(dataset))
        async with aclosing(Line(second.reader_control)) as reader:
            reader.say(ReaderBeat(again.iteration, "r", None, 1))
            view = await reader.hear_until(lambda view: view is not None)

    assert again.iteration == opened.iteration
    assert view.finished


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
        assert len(journal.books.jobs) == 100


async def test_nothing_is_written_when_nothing_was_decided(config):
    async with living(config) as (api, journal):
        dataset = await register(api, Dataset.range(10))
        opened = await api.open_iteration(request(dataset))
        journal._store.append = None  # whoever calls it fails

        assert await register(api, Dataset.range(10)) == dataset
        assert (await api.open_iteration(request(dataset))).iteration == opened.iteration
        journal.check()


async def test_the_view_that_says_goodbye_is_sent_behind_its_fact_and_before_the_end(config):
    async with dispatching(config) as api:
        dataset = await register(api, Dataset.range(10))
        opened = await api.open_iteration(request(dataset))
        async with aclosing(Line(api.reader_control)) as reader:
            reader.say(ReaderBeat(opened.iteration, "r", None, 1))
            view = await reader.hear_until(lambda view: view.reader)
            reader.say(ReaderBeat(opened.iteration, "r", view.reader, 2, leaving=True))
            reader.say(None)

            last = await reader.hear_until(lambda view: view.standing is Standing.LEFT)
            end = await reader.hear_until(lambda view: view is None)

    assert last.beat == 2
    assert end is None


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


async def test_a_full_store_takes_nothing_new_says_why_and_goes_on_when_there_is_room(
    config, monkeypatch, caplog
):
    monkeypatch.setattr(module, "RETRY", 0.02)
    async with living(config, max_pages=60) as (api, journal):
        other = await register(api, Dataset.range(10_000))
        opened = await api.open_iteration(request(other, job="before"))
        async with running(api, opened.iteration) as (worker, reader, order, view):
            _, names, said = await fill(api)
            (run,) = order.runs

            with pytest.raises(StoreFull, match="room"):
                await register(api, Dataset.range(11))
            with pytest.raises(StoreFull, match=r"journal\.db .*free space"):
                await api.open_iteration(request(other, job="another"))
            for beat in (2, 3):
                reader.say(ReaderBeat(opened.iteration, "r", view.reader, beat))
                worker.say(SplitRequest("w:1", 1, run.task, 1, 0, 1))
            told = await reader.hear_until(lambda view: view.waiting_for)
            before = journal.books.length

            journal._store._ask("PRAGMA max_page_count = 100000")
            grant = await worker.hear_until(lambda o: isinstance(o, SplitGrant))
            view = await reader.hear_until(lambda view: not view.waiting_for)
            await api.open_iteration(request(other, job="another"))

    assert "no room to write" in said
    assert "journal.db" in told.waiting_for
    assert view.beat == 3
    assert told.standing is Standing.LIVE
    assert grant.position == 1
    assert len(names) > 20
    assert journal.books.length > before
    assert len([r for r in caplog.records if "no room" in r.getMessage()]) == 1
    assert len([r for r in caplog.records if "room again" in r.getMessage()]) == 1
    async with living(config) as (_, journal):
        assert {*names, "before", "another"} <= journal.books.jobs.keys()


async def test_a_dispatcher_that_stops_while_its_store_is_full_keeps_what_it_acknowledged(
    config, caplog
):
    async with living(config, max_pages=60) as (api, _):
        _, names, _ = await fill(api)

    assert [r for r in caplog.records if "nobody was told" in r.getMessage()]
    async with living(config) as (_, journal):
        assert list(journal.books.jobs)[: len(names)] == names
        assert len(journal.books.jobs) <= len(names) + 1


async def test_history_makes_room_by_itself(config):
    async with living(config, max_pages=80) as (api, journal):
        dataset = await register(api, Dataset.range(100).repeat())
        opened = await api.open_iteration(request(dataset))
        async with running(api, opened.iteration) as (worker, reader, order, _):
            (run,) = order.runs
            at = run.logs[0].stop
            for number in range(1, 2000):
                worker.say(SplitRequest("w:1", 1, run.task, 1, 0, at))
                grant = await worker.hear_until(
                    lambda o, at=at: isinstance(o, SplitGrant) and o.position == at
                )
                at += len(grant.splits)
                state = EngineState(number, (at,), "x" * 1000)
                progress = Progress(1, number, Taken(number), state)
                worker.say(worker_beat(order.as_of, {run.task: progress}))
        assert journal.full is None
        assert journal.books.length > 3000


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
    journal = await asyncio.to_thread(open_journal, _folder(config), power=False)
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
        shutil.copytree(_folder(config), copy)
        with Store(copy / "journal.db", power=False) as store:
            found.append((length, store.load().books.length))

    def note(fact):
        journal.books.apply(fact)
        journal.note(fact)
        journal.after(partial(copy_of_the_disk, journal.books.length))

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


async def test_a_fault_in_the_core_stops_the_dispatcher_and_a_restart_goes_on_from_what_is_whole(
    config, monkeypatch, caplog
):
    def half_done(core, signal, _):
        parameters = JobParameters("d", Mode.OFF, Codec.NONE, None, False, "AUTO", False, "drop")
        core.desk.write(JobMade("half", parameters, 1, False))
        raise RuntimeError("a fault")

    async with living(config) as (api, journal):
        dataset = await register(api, Dataset.range(10))
        await api.open_iteration(request(dataset))
        whole = journal.books.length
        with monkeypatch.context() as patched:
            patched.setattr(Core, "_open", half_done)
            call = asyncio.create_task(api.open_iteration(request(dataset, job="other")))
            with pytest.raises(InternalError, match=r"deciding on OpenIteration .*a fault.*again"):
                await asyncio.wait_for(api.tick_forever(), 10)
        assert "half" in journal.books.jobs
        with pytest.raises(Unavailable, match="stopping"):
            await api.open_iteration(request(dataset, job="other"))
        api.close()
        with pytest.raises(Unavailable, match="stopping"):
            await call

    (told,) = [r for r in caplog.records if r.levelno == logging.CRITICAL]
    assert "a fault" in str(told.exc_info)
    async with living(config) as (api, journal):
        assert (list(journal.books.jobs), journal.books.length) == (["j"], whole)
        await api.open_iteration(request(dataset, job="other"))


@pytest.mark.parametrize(
    "method", ["_handle", "_push", "_carry_out"], ids=["deciding", "telling", "performing"]
)
async def test_wherever_a_fault_is_the_dispatcher_stops(config, monkeypatch, method, caplog):
    broken = {
        "_handle": (Core, "_tick"),
        "_push": (Core, "push"),
        "_carry_out": (World, "perform"),
    }[method]

    def faulty(*_):
        raise RuntimeError("a fault")

    async with living(config) as (api, _):
        dataset = await register(api, Dataset.range(10))
        opened = await api.open_iteration(request(dataset))
        monkeypatch.setattr(*broken, faulty)
        async with aclosing(Line(api.reader_control)) as reader:
            reader.say(ReaderBeat(opened.iteration, "r", None, 1))
            with pytest.raises(InternalError, match="a fault"):
                await asyncio.wait_for(api.tick_forever(), 10)
    assert [r for r in caplog.records if r.levelno == logging.CRITICAL]


@pytest.mark.parametrize(
    "gone", [".", "journal.db", "journal.db-wal", "lock"], ids=["all", "journal", "log", "lock"]
)
async def test_a_folder_that_is_removed_stops_its_dispatcher_before_it_tells_anything(
    config, gone, monkeypatch
):
    monkeypatch.setattr(service, "LOOK", 0.01)
    async with living(config) as (api, _):
        dataset = await register(api, Dataset.range(10))
        removed = _folder(config) / gone
        (shutil.rmtree if removed.is_dir() else Path.unlink)(removed)
        call = asyncio.create_task(api.open_iteration(request(dataset)))

        with pytest.raises(JournalError, match=rf"{config.work_dir}.* was removed while .*Restore"):
            await asyncio.wait_for(api.tick_forever(), 10)
        assert not call.done() or gone == "."  # where its definition is gone, too
        api.close()
        with pytest.raises(UnknownDataset if gone == "." else Unavailable):
            await call


async def test_a_folder_that_is_replaced_stops_its_dispatcher_though_nothing_happens(
    config, monkeypatch
):
    monkeypatch.setattr(service, "LOOK", 0.01)
    async with living(config) as (api, _):
        await register(api, Dataset.range(10))
        _folder(config).rename(f"{config.work_dir}.old")
        async with living(config):  # nothing keeps another dispatcher from the path
            with pytest.raises(JournalError, match="was replaced while"):
                await asyncio.wait_for(api.tick_forever(), 10)


@pytest.mark.parametrize("state", ["empty", "missing"])
async def test_a_lost_journal_beside_definitions_is_refused_with_the_remedy(config, state):
    async with living(config) as (api, _):
        await register(api, Dataset.range(10))
    journal = _folder(config) / "journal.db"
    journal.unlink()
    if state == "empty":
        journal.touch()

    with pytest.raises(JournalError, match=rf"journal\.db is {state}.* 1 definition.*delete"):
        await asyncio.to_thread(open_journal, _folder(config), power=False)

    shutil.rmtree(_folder(config) / "datasets")  # as behind a crash in the first moment
    async with living(config) as (_, opened):
        assert not opened.books.jobs


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
            while not journal.cramped:
                await asyncio.sleep(0.001)
        assert len(journal.books.jobs) < 30
        gate.set()
        await asyncio.gather(*opening)

        assert len(journal.books.jobs) == 100
        assert not journal.cramped


async def test_a_disk_that_fails_ends_the_dispatcher_and_nobody_is_told_what_was_not_written(
    config,
):
    async with living(config) as (api, journal):
        dataset = await register(api, Dataset.range(10))

        def failing(*_):
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise error

        journal._store.append = failing
        call = asyncio.create_task(api.open_iteration(request(dataset)))

        with pytest.raises(JournalError, match=r"cannot write .*journal\.db.*disk I/O error"):
            await asyncio.wait_for(api.tick_forever(), 10)
        assert not call.done()
        api.close()
        with pytest.raises(Unavailable, match="stopping"):
            await call


async def test_a_disk_that_hangs_does_not_keep_a_dispatcher_from_stopping(
    config, monkeypatch, caplog
):
    monkeypatch.setattr(module, "CLOSE_WITHIN", 0.1)
    gate = threading.Event()
    async with living(config) as (api, journal):
        dataset = await register(api, Dataset.range(10))
        append = journal._store.append
        journal._store.append = lambda *args: (gate.wait(10), append(*args))
        call = asyncio.create_task(api.open_iteration(request(dataset)))
        while not journal._busy:
            await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="stopping"):
        await call
    with pytest.raises(ConfigError, match="in use"):
        await asyncio.to_thread(open_journal, _folder(config), power=False)

    gate.set()
    await asyncio.to_thread(journal._writer._thread.join, 10)
    journal._lock.release()

    assert [r for r in caplog.records if "nobody was told" in r.getMessage()]
    async with living(config) as (_, journal):
        assert "j" in journal.books.jobs


async def test_two_dispatchers_do_not_share_a_folder(config):
    async with dispatching(config):
        with pytest.raises(ConfigError, match=r"work is in use by another .*process \d+"):
            async with dispatching(config):
                pass
    async with dispatching(config):
        pass


async def test_what_is_wrong_with_the_folder_is_told_at_the_start(config, caplog):
    async with dispatching(config):
        pass
    (_folder(config) / "journal.db").write_bytes(b"rubbish" * 1000)

    with pytest.raises(JournalError, match="not a database"):
        async with dispatching(config):
            pass
    (_folder(config) / "journal.db").unlink()
    async with dispatching(config):
        pass


async def test_a_dataset_that_was_registered_and_not_used_is_known_after_a_restart(config):
    async with dispatching(config) as first:
        dataset = await register(first, Dataset.range(3))
        definition = await first.get_definition(dataset)

    async with living(config) as (second, journal):
        assert not journal.books.datasets
        assert await second.get_definition(dataset) == definition
        assert (await second.open_iteration(request(dataset))).iteration
    async with living(config) as (_, journal):
        assert list(journal.books.datasets) == [dataset]


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_damaged_definition_is_asked_for_again_and_mended(config, restarts):
    definition = encode(Dataset.range(10).map(lambda x: x).node).to_bytes()
    async with AsyncExitStack() as stack:
        api, _ = await stack.enter_async_context(living(config))
        dataset = await api.register_dataset(definition, VERSIONS)
        await api.open_iteration(request(dataset))
        (file,) = (_folder(config) / "datasets").iterdir()
        damaged = bytearray(file.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        file.write_bytes(damaged)
        if restarts:
            await stack.aclose()
            api, _ = await stack.enter_async_context(living(config))

        for ask in (api.get_definition(dataset), api.open_iteration(request(dataset))):
            with pytest.raises(UnknownDataset, match="register it again"):
                await ask
        await api.register_dataset(definition, VERSIONS)

        await api.open_iteration(request(dataset))
        assert await api.get_definition(dataset) == definition


async def test_a_restart_is_told_in_one_line(config, caplog):
    async with dispatching(config) as first:
        await first.open_iteration(request(await register(first, Dataset.range(3))))
    with caplog.at_level(logging.INFO, "penstock.dispatcher"):
        async with dispatching(config):
            pass

    (line,) = [r.getMessage() for r in caplog.records if "going on" in r.getMessage()]
    assert "1 jobs" in line


async def test_a_folder_that_is_of_no_use_is_named_and_let_go(config, tmp_path):
    folder = _folder(config)
    folder.mkdir()
    (folder / "datasets").touch()
    with pytest.raises(ConfigError, match="datasets cannot be used"):
        async with dispatching(config):
            pass
    (folder / "datasets").unlink()
    (folder / "journal.db").unlink()
    (folder / "journal.db").mkdir()
    with pytest.raises(JournalError, match=r"journal\.db cannot be used: unable to open"):
        async with dispatching(config):
            pass
    (folder / "journal.db").rmdir()

    async with dispatching(config):
        pass
