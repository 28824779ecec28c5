"""Dispatchers with a journal, and peers of theirs."""

import asyncio
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from penstock.protocol.control import Assignment, ReaderHeartbeat, WorkerHeartbeat
from penstock.protocol.types import Mode
from penstock_dispatcher.journal.journal import open_journal
from penstock_dispatcher.service import DispatcherService
from tests.dispatcher import running_dispatcher
from tests.dispatcher.running_dispatcher import VERSIONS, Line


@asynccontextmanager
async def living(config, **options):
    """A dispatcher whose journal is at hand."""
    journal = await asyncio.to_thread(open_journal, folder_of(config), power=False, **options)
    dispatcher = DispatcherService(config, journal)
    try:
        yield dispatcher, journal
    finally:
        dispatcher.close()
        await journal.aclose()


def folder_of(config):
    return Path(config.work_dir)


def request(dataset, mode=Mode.DYNAMIC, job="j", repetition=1):
    return running_dispatcher.request(dataset, mode, job, repetition)


def worker_heartbeat(revision=-1, progress=None):
    return WorkerHeartbeat("w:1", 1, revision, progress or {}, versions=VERSIONS)


@asynccontextmanager
async def running(api, iteration):
    """A worker and a reader of *iteration*, of which a task runs."""
    async with aclosing(Line(api.worker_control)) as worker:
        worker.say(worker_heartbeat())
        async with aclosing(Line(api.reader_control)) as reader:
            reader.say(ReaderHeartbeat(iteration, "r", None, 1))
            order = await worker.hear_until(lambda o: isinstance(o, Assignment) and o.tasks)
            view = await reader.hear_until(lambda view: view.tasks)
            yield worker, reader, order, view
