"""One connection after the other to a dispatcher; what was fine is used again."""

import asyncio
import os
import threading
import time
from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest

from penstock import errors
from penstock.errors import ConfigError
from penstock.ipc.idle_pool import IdlePool
from penstock.reader.session import line as line_module
from penstock.reader.session.line import IDLE_LINES, IdleLines, Line, OpenLine, call_dispatcher
from penstock.runtime.event_loop import LoopThread
from penstock.wire.connection import connect, listening
from penstock.wire.worker import HEALTH

NOBODY = "127.0.0.1:9"


async def _closed(channel):
    return channel.inner.get_state().name == "SHUTDOWN"


async def test_a_connection_that_was_fine_is_lent_again():
    line = Line(NOBODY)
    async with line.channel() as first:
        pass
    async with line.channel() as second:
        assert second is first
    await line.close()


async def test_a_connection_that_failed_is_closed_and_the_next_is_a_new_one():
    line = Line(NOBODY)
    with pytest.raises(OSError, match="gone"):
        async with line.channel() as first:
            raise OSError("gone")

    assert await _closed(first)
    async with line.channel() as second:
        assert second is not first
    await line.close()


async def test_a_connection_whose_borrower_is_told_to_stop_is_kept():
    line = Line(NOBODY)
    with pytest.raises(asyncio.CancelledError):
        async with line.channel() as first:
            raise asyncio.CancelledError
    async with line.channel() as second:
        assert second is first
    await line.close()


async def test_who_comes_while_it_is_lent_gets_another_and_one_is_kept():
    line = Line(NOBODY)
    async with line.channel() as first:
        async with line.channel() as second:
            assert second is not first

    assert await _closed(second)
    assert not await _closed(first)
    await line.close()


async def test_what_leads_nowhere_is_closed_in_the_end():
    line = Line(NOBODY)
    async with line.channel() as channel:
        pass
    await line.close()
    await line.close()

    assert await _closed(channel)


WITHIN = 20


def _threads():
    return [thread for thread in threading.enumerate() if thread.name == "penstock-loop"]


async def _open_line(port):
    """Connect, and have an answer."""
    stack, address = AsyncExitStack(), f"127.0.0.1:{port}"
    channel = await stack.enter_async_context(connect(address))
    await HEALTH.call(channel, b"", WITHIN)
    return OpenLine(address, channel, stack)


def _is_closed(line):
    return line.channel.inner.get_state().name == "SHUTDOWN"


async def _until(happens):
    async with asyncio.timeout(WITHIN):
        while not happens():
            await asyncio.sleep(0.001)


def _service():
    return listening(host="127.0.0.1", port=0, drain=0)


@pytest.fixture
def lines():
    """Keeps two connections for as long as a test likes."""
    made = IdleLines(IdlePool(2, WITHIN))
    yield made
    made.close()


@pytest.fixture
def in_loop(no_threads_of_other_tests):
    """Runs a coroutine as sessions run theirs."""
    with LoopThread.shared() as loop:
        yield lambda coro: loop.run(coro, WITHIN)


def test_where_the_last_user_has_left_the_loop_it_is_closed_and_no_loop_begins(
    lines, no_threads_of_other_tests
):
    """What still runs in a loop that ends would wait for that end if it began another one."""
    closed = []

    async def close():
        closed.append(True)

    line = SimpleNamespace(sound=True, closing=SimpleNamespace(aclose=close))
    asyncio.run(lines.put(line))

    assert closed
    assert lines._loop is None


def test_the_next_pass_gets_it_once(lines, in_loop):
    async def read_twice():
        async with _service() as port:
            line = await _open_line(port)
            await lines.put(line)
            assert await lines.take("127.0.0.1:9") is None
            assert await lines.take(line.address) is line
            assert await lines.take(line.address) is None
            await line.closing.aclose()

    in_loop(read_twice())


def test_when_its_time_is_up_it_is_closed_and_the_thread_ends(no_threads_of_other_tests):
    short = IdleLines(IdlePool(2, 0.01))

    async def leave_one():
        async with _service() as port:
            await short.put(await _open_line(port))

    with LoopThread.shared() as loop:
        loop.run(leave_one(), WITHIN)
    deadline = time.monotonic() + WITHIN
    while _threads():
        assert time.monotonic() < deadline, "the thread outlives what it was for"
        time.sleep(0.001)
    short.close()  # of nothing


def test_what_leads_to_a_service_that_is_gone_is_not_lent(lines, in_loop):
    async def lose_it():
        async with _service() as port:
            line = await _open_line(port)
            await lines.put(line)
        await _until(lambda: not line.sound)
        assert await lines.take(line.address) is None
        assert _is_closed(line)

    in_loop(lose_it())


def test_what_shows_other_credentials_than_are_chosen_now_is_not_lent(lines, in_loop, monkeypatch):
    async def choose_others():
        async with _service() as port:
            line = await _open_line(port)
            await lines.put(line)
            monkeypatch.setattr(line_module, "caller_of", lambda _address: SimpleNamespace())
            assert await lines.take(line.address) is None
            assert _is_closed(line)

    in_loop(choose_others())


def test_it_is_closed_when_the_credentials_cannot_be_used_any_more(lines, in_loop, monkeypatch):
    def unusable(_address):
        raise ConfigError("there are none")

    async def lose_them():
        async with _service() as port:
            line = await _open_line(port)
            monkeypatch.setattr(line_module, "caller_of", unusable)
            await lines.put(line)
            assert _is_closed(line)

    in_loop(lose_them())


def test_of_more_than_it_keeps_the_oldest_is_closed(lines, in_loop):
    async def keep_three():
        async with _service() as port:
            three = [await _open_line(port) for _ in range(3)]
            for line in three:
                await lines.put(line)
            assert [_is_closed(line) for line in three] == [True, False, False]

    in_loop(keep_three())


def test_as_the_process_ends_all_are_closed_and_none_is_kept(lines, in_loop):
    async def connected(port):
        return await _open_line(port)

    async def serve(ready, over):
        async with _service() as port:
            ready.set_result(port)
            await over.wait()

    async def read():
        ready, over = asyncio.get_running_loop().create_future(), asyncio.Event()
        serving = asyncio.create_task(serve(ready, over))
        first, second = [await connected(await ready) for _ in range(2)]
        await lines.put(first)
        await asyncio.to_thread(lines.end)
        await lines.put(second)
        over.set()
        await serving
        return _is_closed(first), _is_closed(second)

    assert in_loop(read()) == (True, True)


def test_a_process_that_forks_closes_its_own_first(no_threads_of_other_tests):
    async def leave_one():
        async with _service() as port:
            await IDLE_LINES.put(await _open_line(port))

    with LoopThread.shared() as loop:
        loop.run(leave_one(), WITHIN)
    assert _threads()
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)

    assert not _threads()


async def test_a_call_is_made_again_until_it_is_answered():
    tried = []

    async def call(_dispatcher):
        tried.append(1)
        if len(tried) < 3:
            raise errors.Unavailable("not yet")
        return "there"

    assert await call_dispatcher(NOBODY, 10.0, call) == "there"
    assert len(tried) == 3


async def test_an_answer_that_is_an_error_is_final():
    async def call(_dispatcher):
        raise errors.UnknownDataset("nobody")

    with pytest.raises(errors.UnknownDataset, match="nobody"):
        await call_dispatcher(NOBODY, 10.0, call)


async def test_a_dispatcher_that_stays_away_is_named_within_the_timeout():
    with pytest.raises(errors.WaitedTooLong, match=NOBODY):
        await call_dispatcher(NOBODY, 0.2, lambda dispatcher: dispatcher.status())


async def test_who_is_refused_for_now_waits_as_long_as_it_is_told(monkeypatch):
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    monkeypatch.setattr("penstock.reader.session.line.asyncio.sleep", sleep)

    async def call(_dispatcher):
        if len(waits) < 2:
            raise errors.Overloaded("full", 2000)
        return "there"

    assert await call_dispatcher(NOBODY, 10.0, call) == "there"
    assert all(2.0 <= seconds <= 3.0 for seconds in waits)
