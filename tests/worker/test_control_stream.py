"""A worker and its dispatcher: away, back, refusing; and how a worker stops."""

import asyncio
import json

import pytest

from penstock.errors import InternalError, Refused, Unavailable
from penstock.protocol.types import Failure
from penstock_worker import service
from penstock_worker.core.state_machine import WorkerCore
from penstock_worker.runners import ActiveRunners


async def test_reading_goes_on_while_the_dispatcher_is_away(opened, dispatcher, pool, wait):
    one = await opened(credit=17)
    await wait(lambda: one.frames)

    dispatcher.absent = True
    dispatcher.hang_up()
    await wait(lambda: dispatcher.lines >= 3)

    assert await one.take_all() == list(range(10))
    before = len(dispatcher.beats)
    dispatcher.absent = False
    await wait(lambda: len(dispatcher.beats) > before)
    assert dispatcher.beats[before].versions is not None
    assert dispatcher.beats[before].progress[1].done


@pytest.mark.quick(1)
async def test_the_log_says_once_that_the_dispatcher_is_away_and_once_that_it_is_back(
    dispatcher, worker, wait, caplog
):
    await worker[0].control.registered.wait()
    dispatcher.absent = True
    dispatcher.hang_up()
    await wait(lambda: dispatcher.lines >= 4)
    dispatcher.absent = False
    lines = dispatcher.lines
    await wait(lambda: dispatcher.lines > lines and not worker[0].control.reason)

    said = [record.message for record in caplog.records if record.name == "penstock.worker"]
    assert len(said) == 2
    assert "127.0.0.1:1" in said[0]
    assert said[1] == "the dispatcher at 127.0.0.1:1 is back"


async def test_a_worker_that_ends_right_behind_its_dispatcher_does_not_warn(
    dispatcher, worker, wait, caplog
):
    control = worker[0].control
    await control.registered.wait()
    dispatcher.absent = True
    dispatcher.hang_up()
    await asyncio.wait_for(control.disconnected.wait(), 10)
    assert control.reason

    worker[0].controlling.cancel()
    await asyncio.wait({worker[0].controlling})

    assert [record for record in caplog.records if record.name == "penstock.worker"] == []


@pytest.mark.quick(1)
async def test_beats_come_without_being_asked_and_carry_stats(dispatcher, worker, wait):
    await wait(lambda: len(dispatcher.beats) >= 4)

    assert dispatcher.beats[0].versions is not None
    assert all(beat.versions is None for beat in dispatcher.beats[1:])
    stats = [json.loads(beat.stats) for beat in dispatcher.beats if beat.stats]
    assert len(stats) < len(dispatcher.beats)
    assert stats[0]["worker"] == "host:1"


async def test_a_worker_that_is_refused_says_why(dispatcher, pool, worker, wait):
    await worker[0].control.registered.wait()
    dispatcher.refuse = Failure("Refused", ("a newer process answers at host:1",))
    dispatcher.tell()

    with pytest.raises(Refused, match="newer process"):
        await worker[0].controlling


async def test_streams_break_off_when_the_worker_stops(opened, worker, pool, wait):
    pool.making = False
    one = await opened()
    await wait(lambda: worker[0].stats().streams == 1)

    await worker[0].close()

    await wait(lambda: one.error)
    assert isinstance(one.error, Unavailable)
    assert "has stopped" in str(one.error)


def fails(*_):
    raise LookupError("surprise")


@pytest.mark.parametrize("where", ["apply", "tick", "start"])
async def test_a_worker_that_fails_stops_and_says_why(
    opened, reader, dispatcher, worker, pool, monkeypatch, caplog, where
):
    one = await opened()
    assert await one.take_all() == list(range(10))
    ticking = asyncio.create_task(worker[0].tick_forever())
    match where:
        case "apply":
            monkeypatch.setattr(WorkerCore, "_on_task", fails)
        case "tick":
            monkeypatch.setattr(WorkerCore, "_on_tick", fails)
        case "start":
            monkeypatch.setattr(ActiveRunners, "_place", fails)
    dispatcher.assign(2)

    with pytest.raises(InternalError, match="LookupError.*surprise"):
        await asyncio.wait_for(ticking, 10)
    assert "LookupError: surprise" in caplog.text
    with pytest.raises(InternalError):
        worker[0].heartbeat(first=False)
    other = reader(task=2)
    await other.open()
    assert await other.take_all() == []
    assert isinstance(other.error, Unavailable)


async def test_a_stream_whose_hearing_fails_ends_with_the_reason(
    reader, dispatcher, worker, monkeypatch
):
    dispatcher.assign(1)
    one = reader()
    monkeypatch.setattr(service, "StreamAcked", fails)
    await one.open()

    await one.take_all()
    assert "LookupError" in str(one.error)
