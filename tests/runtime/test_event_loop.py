import asyncio
import gc
import subprocess
import sys
import threading
import time
import weakref
from contextlib import ExitStack, suppress

import pytest

from penstock.errors import Closed, ConfigError, WaitedTooLong
from penstock.reader.session.line import IDLE_LINES
from penstock.runtime.event_loop import _STAGES, LoopStage, LoopThread


async def where():
    return threading.current_thread().name


async def value(it):
    return it


async def endless():
    await asyncio.Event().wait()


async def noting(cancelled):
    """Wait, and note when that is cancelled."""
    try:
        await endless()
    finally:
        cancelled.set()


def loop_threads():
    return [thread for thread in threading.enumerate() if thread.name == "penstock-loop"]


@pytest.fixture(autouse=True)
def no_loop_is_left():
    """Begin without the thread of another test: idle connections and dropped iterators keep it."""
    IDLE_LINES.close()
    gc.collect()
    deadline = time.monotonic() + 20
    while left := loop_threads():
        assert time.monotonic() < deadline, f"threads that another test left: {left}"
        time.sleep(0.001)


@pytest.fixture
def loop():
    with LoopThread.shared() as held:
        yield held


def test_all_users_share_one_thread_that_ends_with_the_last():
    with LoopThread.shared() as one:
        with LoopThread.shared() as other:
            assert one is other
            assert len(loop_threads()) == 1
        assert one.run(value(3), 5) == 3

    assert loop_threads() == []


def test_a_new_user_gets_a_new_thread():
    with LoopThread.shared() as one:
        pass
    with LoopThread.shared() as other:
        assert other is not one
        assert other.run(value(3), 5) == 3


def test_what_a_coroutine_raises_is_raised(loop):
    async def fail():
        raise ZeroDivisionError("here")

    with pytest.raises(ZeroDivisionError, match="here"):
        loop.run(fail(), 5)


def test_a_timeout_of_the_coroutines_own_is_its_own(loop):
    async def late():
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        loop.run(late(), 5)


def test_waiting_ends_with_the_timeout_and_cancels_the_coroutine(loop):
    cancelled = threading.Event()
    with pytest.raises(WaitedTooLong, match="0.05 s"):
        loop.run(noting(cancelled), 0.05)

    assert cancelled.wait(5)


def test_tasks_that_still_run_when_the_last_user_leaves_are_cancelled():
    cancelled = threading.Event()

    async def watched():
        try:
            await endless()
        finally:
            await asyncio.sleep(0)
            cancelled.set()

    with LoopThread.shared() as loop:
        future = loop.spawn(watched())
        loop.run(value(0), 5)

    assert cancelled.is_set()
    assert future.cancelled()


@pytest.mark.slow
def test_a_task_that_did_not_hear_that_it_is_cancelled_is_cancelled_again():
    async def deaf():
        try:
            await endless()
        except asyncio.CancelledError:
            await endless()

    began = time.monotonic()
    with LoopThread.shared() as loop:
        future = loop.spawn(deaf())
        loop.run(value(0), 5)

    assert future.cancelled()
    assert time.monotonic() - began < 4.5


def test_a_task_that_does_not_end_is_named(monkeypatch, caplog):
    monkeypatch.setattr("penstock.runtime.event_loop._CLOSING", 0.5)
    released = threading.Event()

    async def stubborn():
        asyncio.current_task().set_name("the stubborn one")
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    with LoopThread.shared() as loop:
        loop.spawn(stubborn())
        loop.run(value(0), 5)

    assert "these do not: the stubborn one" in caplog.text
    released.set()
    with LoopThread.shared() as loop:  # in which it ends
        loop.run(asyncio.sleep(0.05), 5)


def test_a_spawned_coroutine_is_cancelled_through_its_future(loop):
    cancelled = threading.Event()
    future = loop.spawn(noting(cancelled))
    loop.run(value(0), 5)
    future.cancel()

    assert cancelled.wait(5)


def test_a_spawned_coroutine_needs_nobody_to_hold_it(loop):
    woken = threading.Event()

    async def watched():
        event = asyncio.Event()
        asyncio.get_running_loop().call_later(
            0.05, lambda it: it and it().set(), weakref.ref(event)
        )
        await event.wait()
        woken.set()

    loop.spawn(watched())
    loop.run(value(0), 5)
    gc.collect()

    assert woken.wait(5)


def test_a_closed_loop_says_so():
    with LoopThread.shared() as loop:
        pass

    with pytest.raises(Closed, match="open what used it again"):
        loop.run(value(3), 5)
    loop.call_soon(print)


def test_closing_the_loop_wakes_who_waits_for_it():
    raised, entered = [], threading.Event()

    async def watched():
        entered.set()
        await endless()

    def wait(loop):
        with pytest.raises(Closed, match="closed during this call"):
            loop.run(watched(), 30)
        raised.append(True)

    with LoopThread.shared() as loop:
        waiting = threading.Thread(target=wait, args=(loop,))
        waiting.start()
        assert entered.wait(5)
    waiting.join(5)

    assert raised == [True]


def test_waiting_for_the_loop_in_the_loop_is_refused(loop):
    async def nested():
        loop.run(value(3), 5)

    with pytest.raises(ConfigError, match="await it"):
        loop.run(nested(), 5)


def test_an_adopted_loop_is_shared_and_goes_on_when_its_users_have_left():
    def use():
        with LoopThread.shared() as held:
            return held.run(where(), 5)

    async def live():
        async with LoopThread.adopted():
            first = await asyncio.to_thread(use)
            return first, await asyncio.to_thread(use), loop_threads()

    mine = threading.current_thread().name
    assert asyncio.run(live()) == (mine, mine, [])
    assert use() == "penstock-loop", "and the next user gets a thread again"


def test_what_is_closed_as_the_process_ends_is_closed_before_an_adopted_loop_is(monkeypatch):
    said = []

    def leave():
        with LoopThread.shared() as held:
            said.append(held.run(value("the loop still answers"), 5))

    async def live():
        async with LoopThread.adopted():
            pass

    monkeypatch.setattr(_STAGES, "last_acts", [(LoopStage.READERS, leave)])
    asyncio.run(live())

    assert said == ["the loop still answers"]


def test_who_kept_an_adopted_loop_hears_that_it_is_over():
    with ExitStack() as kept:

        async def live():
            async with LoopThread.adopted():
                return kept.enter_context(LoopThread.shared())

        loop = asyncio.run(live())
        loop.call_soon(pytest.fail)
        with pytest.raises(Closed):
            loop.spawn(value(1))


def test_a_second_loop_is_not_adopted(loop):
    async def live():
        async with LoopThread.adopted():
            pytest.fail("there are two")

    with pytest.raises(ConfigError, match="already"):
        asyncio.run(live())
    assert loop.run(value(3), 5) == 3


def test_a_last_user_that_leaves_inside_the_loop_does_not_wait_for_itself():
    block = LoopThread.shared()
    loop = block.__enter__()

    async def leave():
        block.__exit__(None, None, None)

    loop.spawn(leave()).result(5)
    for thread in loop_threads():
        thread.join(5)

    assert loop_threads() == []


def test_a_new_user_waits_for_the_tasks_of_the_last_ones_to_end():
    ending, may_end = threading.Event(), threading.Event()
    ends = []

    async def slow():
        try:
            await endless()
        finally:
            ending.set()
            await asyncio.to_thread(may_end.wait, 5)
            ends.append("old")

    def use():
        with LoopThread.shared() as loop:
            loop.spawn(slow())
            loop.run(value(0), 5)

    def use_next():
        with LoopThread.shared() as loop:
            ends.append(loop.run(value("new"), 5))

    threads = [threading.Thread(target=use), threading.Thread(target=use_next)]
    threads[0].start()
    assert ending.wait(5)
    threads[1].start()
    may_end.set()
    for thread in threads:
        thread.join(10)

    assert ends == ["old", "new"]
    assert loop_threads() == []


def test_many_threads_may_come_and_go():
    def use():
        for k in range(20):
            with LoopThread.shared() as loop:
                assert loop.run(value(k), 5) == k

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert loop_threads() == []


FORKING = """
import os, sys
from penstock.errors import ConfigError
from penstock.runtime.event_loop import LoopThread

async def value():
    return 3

with LoopThread.shared() as loop:
    loop.run(value(), 5)
    child = os.fork()
    if child == 0:
        try:
            try:
                loop.spawn(value())
            except ConfigError:
                with LoopThread.shared():
                    pass
        except ConfigError as exc:
            sys.stdout.write(str(exc))
            sys.stdout.flush()
            os._exit(7)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert loop.run(value(), 5) == 3
    sys.exit(code)
"""


def test_a_forked_child_is_refused_and_its_parent_goes_on():
    done = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 7, done.stderr
    assert "'spawn'" in done.stdout
    assert "never awaited" not in done.stderr


FORGETFUL = """
from penstock.runtime.event_loop import LoopThread
import asyncio
block = LoopThread.shared()
loop = block.__enter__()
loop.spawn(asyncio.sleep(1000))
print("end")
"""


def test_a_process_that_forgets_to_close_still_ends():
    done = subprocess.run(
        [sys.executable, "-c", FORGETFUL], capture_output=True, text=True, timeout=20
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_who_asks_for_the_loop_that_runs_holds_it_or_starts_none():
    with LoopThread.running() as loop:
        assert loop is None
    with LoopThread.shared() as first, LoopThread.running() as loop:
        assert loop is first
        assert loop.run(asyncio.sleep(0, "runs"), 20) == "runs"
