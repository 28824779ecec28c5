"""A dispatcher with a journal: what stops it, and what it says about its folder."""

import asyncio
import logging
import shutil
import sqlite3
import threading
from contextlib import aclosing
from pathlib import Path

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import ConfigError, InternalError, JournalError, Unavailable, UnknownDataset
from penstock.protocol.calls import JobParameters
from penstock.protocol.control import ReaderHeartbeat
from penstock.protocol.types import Codec, Mode
from penstock_dispatcher import service
from penstock_dispatcher.core.facts import JobCreated
from penstock_dispatcher.core.state_machine import DispatcherCore
from penstock_dispatcher.journal import journal as module
from penstock_dispatcher.journal.journal import open_journal
from penstock_dispatcher.performer import Performer
from penstock_dispatcher.server import dispatching
from tests.dispatcher.durable_dispatcher import folder_of, living, request
from tests.dispatcher.running_dispatcher import Line, register


async def test_a_fault_in_the_core_stops_the_dispatcher_and_a_restart_goes_on_from_what_is_whole(
    config, monkeypatch, caplog
):
    def half_done(core, signal, _):
        parameters = JobParameters("d", Mode.OFF, Codec.NONE)
        core.ctx.commit(JobCreated("half", parameters, 1, False))
        raise RuntimeError("a fault")

    async with living(config) as (api, journal):
        dataset = await register(api, Dataset.range(10))
        await api.open_iteration(request(dataset))
        whole = journal.state.length
        with monkeypatch.context() as patched:
            patched.setattr(DispatcherCore, "_on_open", half_done)
            call = asyncio.create_task(api.open_iteration(request(dataset, job="other")))
            with pytest.raises(InternalError, match=r"deciding on OpenIteration .*a fault.*again"):
                await asyncio.wait_for(api.tick_forever(), 10)
        assert "half" in journal.state.jobs
        with pytest.raises(Unavailable, match="stopping"):
            await api.open_iteration(request(dataset, job="other"))
        api.close()
        with pytest.raises(Unavailable, match="stopping"):
            await call

    (told,) = [r for r in caplog.records if r.levelno == logging.CRITICAL]
    assert "a fault" in str(told.exc_info)
    async with living(config) as (api, journal):
        assert (list(journal.state.jobs), journal.state.length) == (["j"], whole)
        await api.open_iteration(request(dataset, job="other"))


@pytest.mark.parametrize(
    "method", ["_handle", "_send_views", "_perform"], ids=["deciding", "telling", "performing"]
)
async def test_wherever_a_fault_is_the_dispatcher_stops(config, monkeypatch, method, caplog):
    broken = {
        "_handle": (DispatcherCore, "_on_tick"),
        "_send_views": (DispatcherCore, "take_views"),
        "_perform": (Performer, "perform"),
    }[method]

    def faulty(*_):
        raise RuntimeError("a fault")

    async with living(config) as (api, _):
        dataset = await register(api, Dataset.range(10))
        opened = await api.open_iteration(request(dataset))
        monkeypatch.setattr(*broken, faulty)
        async with aclosing(Line(api.reader_control)) as reader:
            reader.say(ReaderHeartbeat(opened.iteration, "r", None, 1))
            with pytest.raises(InternalError, match="a fault"):
                await asyncio.wait_for(api.tick_forever(), 10)
    assert [r for r in caplog.records if r.levelno == logging.CRITICAL]


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "gone",
    [".", "journal.db", "journal.db-wal", "lock", "work_dir.key"],
    ids=["all", "journal", "log", "lock", "key"],
)
async def test_a_folder_that_is_removed_stops_its_dispatcher_before_it_sends_anything(
    config, gone, monkeypatch
):
    monkeypatch.setattr(service, "LOOK", 0.01)
    async with living(config) as (api, _):
        dataset = await register(api, Dataset.range(10))
        removed = folder_of(config) / gone
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
        folder_of(config).rename(f"{config.work_dir}.old")
        async with living(config):  # nothing keeps another dispatcher from the path
            with pytest.raises(JournalError, match="was replaced while"):
                await asyncio.wait_for(api.tick_forever(), 10)


async def test_a_disk_that_fails_ends_the_dispatcher_and_what_was_not_written_is_not_sent(
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
        await asyncio.to_thread(open_journal, folder_of(config), power=False)

    gate.set()
    await asyncio.to_thread(journal._writer._thread.join, 10)
    journal._lock.release()

    assert [r for r in caplog.records if "none of them was acknowledged" in r.getMessage()]
    async with living(config) as (_, journal):
        assert "j" in journal.state.jobs


async def test_what_is_wrong_with_the_folder_is_an_error_at_the_start(config, caplog):
    async with dispatching(config):
        pass
    (folder_of(config) / "journal.db").write_bytes(b"rubbish" * 1000)

    with pytest.raises(JournalError, match="not a database"):
        async with dispatching(config):
            pass
    (folder_of(config) / "journal.db").unlink()
    async with dispatching(config):
        pass


async def test_a_folder_that_is_of_no_use_is_named_and_let_go(config, tmp_path):
    folder = folder_of(config)
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
