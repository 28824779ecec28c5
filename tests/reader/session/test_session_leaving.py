"""How a session ends: closed, struck by a signal, cancelled, collected, forked."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from penstock import errors
from penstock.protocol.ranges import AckedSet
from penstock.protocol.types import IterationId
from penstock.reader.core.effects import SendHeartbeat
from penstock.reader.core.limits import FrameLimit
from penstock.reader.core.state_machine import ReaderCore
from penstock.reader.session import network
from penstock.reader.session.line import Line
from penstock.reader.session.network import SessionNetwork
from tests.reader.session.opened_sessions import far, numbers, session_of, wait_until


def begun(mesh):
    it = iter(far(mesh))
    next(it)
    return it


@pytest.mark.parametrize("how", ["close", "del", "with", "end"])
def test_all_is_closed_in_less_than_a_second_and_nothing_is_left(fake, nothing_left, how):
    with fake.FakeMesh(fake.frames(50, 100)) as mesh:
        list(far(mesh))
        mesh.worker.add(1, fake.frames(50, 100))
        with nothing_left():
            it = begun(mesh)
            began = time.monotonic()
            if how == "close":
                it.close()
                it.close()
            elif how == "with":
                with it:
                    pass
            elif how == "end":
                list(it)
                began = time.monotonic()
            del it
            assert time.monotonic() - began < 1
        assert mesh.dispatcher.heartbeats[-1].leaving


async def test_a_reader_that_leaves_while_a_heartbeat_is_on_its_way_says_so_by_the_next():
    core = ReaderCore(IterationId(1), "token", 30.0, FrameLimit(2))
    network = SessionNetwork(
        SimpleNamespace(core=core, links=(), heartbeat=lambda: core.heartbeat(0.0)),
        Line("nowhere"),
        0.1,
    )
    heartbeats = network._heartbeats()

    assert not (await anext(heartbeats)).leaving
    core.leave(0.0)

    assert (await anext(heartbeats)).leaving
    with pytest.raises(StopAsyncIteration):
        await anext(heartbeats)


async def test_a_reader_that_leaves_waits_on_when_its_worker_turns_out_to_be_dead(monkeypatch):
    monkeypatch.setattr(network, "FAREWELL", 0.01)
    core = SimpleNamespace(membership=SimpleNamespace(left=False), owed=0)
    reading = SessionNetwork(SimpleNamespace(core=core), Line("nowhere"), 0.1)
    leaving = asyncio.create_task(reading._take_leave())
    await asyncio.sleep(0)

    core.owed = 405  # its streams broke after it began to leave
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(leaving), 0.2)
    core.owed = 0

    await asyncio.wait_for(leaving, 5)


@pytest.mark.slow
def test_every_reader_that_the_dispatcher_heard_of_says_that_it_leaves(fake):
    with fake.FakeMesh(fake.frames(2, 10), heartbeat_interval=0.02, fresh=True) as mesh:
        for count in range(60):
            it = iter(far(mesh))
            for _ in range(count % 4):
                next(it)
            it.close()

        last = {heartbeat.session: heartbeat for heartbeat in mesh.dispatcher.heartbeats}
        assert [session for session, heartbeat in last.items() if not heartbeat.leaving] == []


def test_a_closed_iterator_says_so(fake):
    with fake.FakeMesh(fake.frames(5, 10)) as mesh:
        it = begun(mesh)
        it.close()

        with pytest.raises(errors.Closed, match="closed"):
            next(it)


def test_closing_wakes_a_loop_that_waits(fake):
    with fake.FakeMesh(fake.frames(1, 1)) as mesh:
        mesh.withhold(1)
        it, caught = iter(far(mesh)), []

        def read():
            try:
                next(it)
            except errors.Closed as exc:
                caught.append(exc)

        reading = threading.Thread(target=read)
        reading.start()
        wait_until(lambda: session_of(it).core.is_waiting)
        it.close()
        reading.join(5)

        assert len(caught) == 1


@contextmanager
def struck_by(handler):
    """Have *handler* called in this thread, wherever it is, by what this gives."""
    before = signal.signal(signal.SIGUSR1, lambda *_: handler())
    try:
        yield lambda: os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def striking(strike, method):
    """Return *method*, which a signal interrupts in its middle, once."""
    struck = []

    def interrupted(*args):
        if not struck:
            struck.append(True)
            strike()
        return method(*args)

    return interrupted


@pytest.mark.parametrize("behind", [lambda far: far, lambda far: far.map(lambda x: x)])
def test_a_signal_handler_may_close_an_iterator_in_the_middle_of_a_change(fake, behind):
    with fake.FakeMesh(fake.frames(5, 10)) as mesh:
        it = iter(behind(far(mesh)))
        core = session_of(it).core
        with struck_by(it.close) as strike:
            core.deliver = striking(strike, core.deliver)
            with pytest.raises(errors.Closed):
                next(it)  # the handler runs behind the change, so that an element may come
                next(it)

        wait_until(lambda: mesh.dispatcher.heartbeats[-1].leaving)


def test_a_signal_handler_may_close_an_iterator_that_waits(fake):
    with fake.FakeMesh(fake.frames(1, 1)) as mesh:
        mesh.withhold(1)
        it = iter(far(mesh))
        core = session_of(it).core
        with struck_by(it.close) as strike:
            core.next_slice = striking(threading.Timer(0.05, strike).start, core.next_slice)
            with pytest.raises(errors.Closed):
                next(it)

        assert mesh.dispatcher.heartbeats[-1].leaving


def test_a_signal_handler_does_not_run_in_the_middle_of_a_change(fake):
    with fake.FakeMesh(fake.frames(5, 10)) as mesh:
        it, inside = iter(far(mesh)), []
        session = session_of(it)
        core = session.core
        with struck_by(lambda: inside.append(session._changed._is_inside())) as strike:
            core.deliver = striking(strike, core.deliver)
            got = numbers(it)

        assert inside == [False]
        assert got == list(range(50))


def test_a_signal_handler_cannot_take_an_element_in_the_middle_of_taking_one(fake):
    with fake.FakeMesh(fake.frames(1, 1)) as mesh:
        mesh.withhold(1)
        it = iter(far(mesh))
        core = session_of(it).core
        with struck_by(lambda: next(it)) as strike:
            core.next_slice = striking(threading.Timer(0.05, strike).start, core.next_slice)
            with pytest.raises(errors.Reentered, match="set a flag"):
                next(it)


@pytest.mark.parametrize("lock", ["session", "hold", "tracks"])
def test_no_lock_of_a_reader_is_waited_for_by_the_thread_that_has_it(fake, lock):
    with fake.FakeMesh(fake.frames(5, 10)) as mesh:
        it = iter(far(mesh).map(lambda x: x))
        next(it)
        locks = {
            "session": session_of(it)._changed,
            "hold": it._reading._output_block._lock,
            "tracks": it._reading._sessions.lock,
        }
        with locks[lock]:  # as a signal handler finds it
            if lock != "tracks":  # which a state does not need
                with pytest.raises(errors.Reentered):
                    it.state()
            it.close()

        wait_until(lambda: mesh.dispatcher.heartbeats[-1].leaving)


def test_who_closes_while_another_thread_does_finds_all_closed(fake):
    with fake.FakeMesh(fake.frames(5, 10)) as mesh:
        it = begun(mesh)
        reading, session = it._reading, session_of(it)
        with session._changed:
            threads = [threading.Thread(target=reading.close) for _ in range(3)]
            for thread in threads:
                thread.start()
        for thread in threads:
            thread.join(20)
            assert session._running.done()

        assert mesh.dispatcher.heartbeats[-1].leaving


# --- when the network ends by itself ---


def test_a_network_that_is_cancelled_with_its_loop_is_an_error_for_who_waits(fake):
    with fake.FakeMesh(fake.frames(1, 1)) as mesh:
        mesh.withhold(1)
        with iter(far(mesh)) as it:
            session = session_of(it)
            threading.Timer(0.05, session._running.cancel).start()

            with pytest.raises(errors.Closed, match="the background loop was closed"):
                next(it)


def test_an_order_that_cannot_be_performed_is_an_error_for_who_waits(fake, monkeypatch):
    def broken(_order):
        if asyncio.current_task() is None:  # the loop is the caller: it would log this, and go on
            raise RuntimeError("no such order")

    with fake.FakeMesh(fake.frames(1, 1)) as mesh:
        mesh.withhold(1)
        with iter(far(mesh)) as it:
            session = session_of(it)
            wait_until(lambda: mesh.dispatcher.heartbeats)
            monkeypatch.setattr(session._network, "_perform", broken)
            monkeypatch.setattr(session.core, "take_effects", lambda: [SendHeartbeat()])
            monkeypatch.setattr(ReaderCore, "pressing", property(lambda _self: True))

            with pytest.raises(RuntimeError, match="no such order"):
                next(it)


def test_an_iterator_that_the_collector_finds_in_the_loops_thread_is_closed(fake):
    with fake.FakeMesh(fake.frames(5, 10)) as mesh:
        it, other = begun(mesh), begun(mesh)
        loop = session_of(other)._loop
        mesh.do(mesh.dispatcher.heartbeats.clear)
        reading, it._reading = it._reading, None

        loop.call_soon(reading.close)

        wait_until(lambda: any(heartbeat.leaving for heartbeat in mesh.dispatcher.heartbeats))
        other.close()


def test_an_iterator_that_the_collector_finds_under_its_sessions_lock_is_closed(fake):
    with fake.FakeMesh(fake.frames(5, 10)) as mesh:
        it, dropped = iter(far(mesh).prefetch(2)), threading.Event()
        (session,) = it._reading._sessions.read() or [
            t.session for t in it._reading._sessions.all()
        ]
        next_slice = session.core.next_slice

        def collecting(now, limit):
            if dropped.is_set():
                gc.collect()
            return next_slice(now, limit)

        session.core.next_slice = collecting  # it is called with the lock held
        next(it)
        cycle = [it]
        cycle.append(cycle)
        del it, session
        dropped.set()
        del cycle

        wait_until(lambda: (gc.collect(), mesh.dispatcher.heartbeats[-1].leaving)[1], 20)


def test_threads_take_shorter_turns_while_any_reader_is_open(fake):
    before = sys.getswitchinterval()
    with fake.FakeMesh(fake.frames(5, 10)) as mesh:
        one, two = begun(mesh), begun(mesh)
        assert sys.getswitchinterval() == pytest.approx(0.0005)
        one.close()
        assert sys.getswitchinterval() == pytest.approx(0.0005)
        two.close()

    assert sys.getswitchinterval() == pytest.approx(before)


def test_a_reader_in_a_forked_child_is_an_error_that_says_so(fake):
    with fake.FakeMesh(fake.frames(5, 10)) as mesh:
        it = begun(mesh)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                next(it)  # though a block was begun
            except errors.Closed as exc:
                os.write(writing, str(exc).encode())
            finally:
                it.close()
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read().decode()
        os.waitpid(child, 0)

        assert "forked" in said
        assert "spawn" in said
        assert len(list(it)) == 49


@pytest.mark.slow
@pytest.mark.parametrize("what", ["locate", "padding"])
def test_a_forked_child_is_refused_though_another_thread_had_the_lock(fake, what):
    with fake.FakeMesh(fake.frames(5, 10)) as mesh:
        it = begun(mesh)
        session = session_of(it)
        held, over = threading.Event(), threading.Event()

        def hold():
            with session._changed:
                held.set()
                over.wait()

        holder = threading.Thread(target=hold)
        holder.start()
        held.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(5)
            try:
                attribute = getattr(session, what)
                if callable(attribute):
                    attribute()
            except errors.Closed:
                os._exit(7)
            finally:
                os._exit(1)
        over.set()
        holder.join()

        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        it.close()


def test_ctrl_c_reaches_a_loop_that_waits_and_it_can_go_on(fake):
    with fake.FakeMesh(fake.frames(2, 10)) as mesh:
        mesh.withhold(1)
        it = iter(far(mesh))
        strike = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        strike.start()

        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            next(it)
        took = time.monotonic() - began
        mesh.release(1)

        assert took < 1.2
        assert numbers(it) == list(range(20))


@pytest.mark.slow
def test_a_script_that_ends_in_the_middle_leaves(fake, tmp_path):
    with fake.FakeMesh(fake.frames(5, 10)) as mesh:
        script = f"""
            from penstock import Dataset
            it = iter(Dataset.range(3).distribute("parallel_epochs", {mesh.target!r}))
            print(int(next(it)))
        """
        shown = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)],
            capture_output=True,
            text=True,
            timeout=30,
        )

        assert (shown.stdout, shown.stderr, shown.returncode) == ("0\n", "", 0)
        assert mesh.dispatcher.heartbeats[-1].leaving
        assert mesh.dispatcher.heartbeats[-1].reports[1].acked == AckedSet(1)
