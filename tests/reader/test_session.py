"""The reader's body over real connections, with a dispatcher and a worker that do as told."""

import asyncio
import gc
import json
import logging
import os
import platform
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest

from penstock import Dataset, errors
from penstock.messages import Codec, Failure, ReaderProcess
from penstock.numbers import NO_RUNS, IterationId, Runs, Taken
from penstock.reader import clock
from penstock.reader.core import Reader
from penstock.reader.credit import FrameLimit
from penstock.reader.network import Network
from penstock.reader.orders import SendBeat
from penstock.reader.owed import Owed
from penstock.versions import versions

UPSTREAM = Dataset.range(10)  # what the fake worker does not run


def far(mesh, **kwargs):
    return UPSTREAM.distribute("parallel_epochs", mesh.target, **kwargs)


def wait_until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


def session_of(it):
    return it._reading._tracks.live()[0].session


def numbers(elements):
    return [int(element) for element in elements]


# --- reading ---


@pytest.mark.parametrize(("rank", "known"), [("3", 3), ("", None), ("first", None)])
def test_a_reader_tells_its_host_its_process_and_its_rank(fake, monkeypatch, rank, known):
    monkeypatch.setenv("RANK", rank)
    with fake.FakeMesh(fake.frames(1, 1)) as mesh:
        list(far(mesh))

    (process,) = {beat.process for beat in mesh.dispatcher.beats}
    here = versions()
    assert process == ReaderProcess(platform.node(), os.getpid(), known, here.penstock, here.python)


def test_one_task_is_read_in_order(fake):
    with fake.FakeMesh(fake.frames(20, 50)) as mesh:
        got = list(far(mesh))

        assert numbers(got) == list(range(1000))
        assert {type(x) for x in got} == {np.int64}


def test_every_task_is_read_whole_and_in_its_order(fake):
    with fake.FakeMesh(fake.frames(7, 30), fake.frames(5, 10, 1000), []) as mesh:
        got = numbers(far(mesh))

    assert [x for x in got if x < 1000] == list(range(210))
    assert [x for x in got if x >= 1000] == list(range(1000, 1050))


def test_a_dataset_is_registered_once_and_each_pass_is_the_next_repetition(fake):
    with fake.FakeMesh(fake.frames(1, 3)) as mesh:
        dataset = far(mesh, job_name="job")
        for _ in range(3):
            list(dataset)

        assert len(mesh.dispatcher.registered) == 1
        assert [request.repetition for request in mesh.dispatcher.opened] == [1, 2, 3]
        assert {request.job_name for request in mesh.dispatcher.opened} == {"job"}


def test_repeat_behind_distribute_opens_the_next_repetition_each_turn(fake):
    with fake.FakeMesh(fake.frames(2, 3), fresh=True) as mesh:
        got = numbers(far(mesh, job_name="job").repeat(3))

        assert got == list(range(6)) * 3
        assert [request.repetition for request in mesh.dispatcher.opened] == [1, 2, 3]


def test_an_empty_pass_of_a_shared_job_does_not_end_an_endless_repeat(fake):
    with fake.FakeMesh(fake.frames(1, 3)) as mesh:
        taken_by_others = far(mesh, job_name="job")
        assert len(list(taken_by_others)) == 3

        it, ends = iter(taken_by_others.repeat()), []

        def read():
            try:
                ends.append(next(it, "the end"))
            except errors.Closed:
                ends.append("closed")

        reading = threading.Thread(target=read)
        reading.start()
        wait_until(lambda: len(mesh.dispatcher.opened) >= 4)
        it.close()
        reading.join(5)

        assert ends == ["closed"]


def test_a_dispatcher_that_forgot_the_dataset_is_told_it_again(fake):
    with fake.FakeMesh(fake.frames(1, 3), fresh=True) as mesh:
        dataset = far(mesh)
        list(dataset)
        mesh.refuse_next_opening(errors.UnknownDataset("who?"))

        assert numbers(dataset) == [0, 1, 2]
        assert len(mesh.dispatcher.registered) == 2


def test_a_refusal_at_opening_reaches_the_caller_and_the_pass_does_not_count(fake):
    with fake.FakeMesh(fake.frames(1, 3)) as mesh:
        dataset = far(mesh, job_name="job")
        mesh.refuse_next_opening(errors.JobMismatch("job is another one"))

        with pytest.raises(errors.JobMismatch, match="another one"):
            iter(dataset)
        list(dataset)

        assert [request.repetition for request in mesh.dispatcher.opened] == [1]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("writable", [False, True])
def test_arrays_are_writable_when_asked_for_however_they_were_stored(fake, codec, writable):
    arrays = [np.full((4, 256), i, np.float32) for i in range(6)]
    with fake.FakeMesh([arrays[:3], arrays[3:]], codec=codec) as mesh:
        got = list(far(mesh, writable=writable))

    assert all((a == b).all() for a, b in zip(got, arrays, strict=True))
    assert {a.flags.writeable for a in got} == {writable}


@pytest.mark.parametrize("size", [1, 3, 7])
def test_operators_behind_distribute_go_on_here(fake, size):
    with fake.FakeMesh(fake.frames(4, 25)) as mesh:
        got = list(far(mesh).map(lambda x: x * 2).batch(size))

    assert np.concatenate(got).tolist() == [2 * i for i in range(100)]


def test_a_shuffle_behind_distribute_gives_everything(fake):
    with fake.FakeMesh(fake.frames(10, 25)) as mesh:
        got = numbers(far(mesh).shuffle(40).prefetch(3).take(300))

    assert sorted(got) == list(range(250))
    assert got != sorted(got)


async def test_async_for_reads_too(fake):
    with fake.FakeMesh(fake.frames(4, 25)) as mesh:
        got = [int(x) async for x in iter(far(mesh))]

    assert got == list(range(100))


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_limit_in_frames_is_kept(fake, limit):
    with fake.FakeMesh(fake.frames(30, 2), fake.frames(30, 2, 1000)) as mesh:
        it = iter(far(mesh, max_outstanding_requests=limit))
        next(it)
        core = session_of(it).core
        most = 0
        got = 1
        for _ in it:
            got += 1
            most = max(most, sum(len(share.pieces) for share in core.shares.values()))

        assert got == 120
        assert most <= limit


# --- what is taken ---


def test_what_the_loop_was_given_is_acknowledged_and_nothing_else(fake):
    with fake.FakeMesh(fake.frames(1, 100)) as mesh:
        with iter(far(mesh)) as it:
            for expected in (1, 2, 7):
                while session_of(it).core.shares.get(1) is None or (
                    session_of(it).core.beat(0.0).holdings[1].taken.floor < expected
                ):
                    next(it)
                wait_until(lambda: mesh.worker.shelves[1].taken == Runs.of((0, expected)))
            mesh.do(mesh.dispatcher.beats.clear)
        wait_until(lambda: any(beat.leaving for beat in mesh.dispatcher.beats))

        last = mesh.dispatcher.beats[-1]
        assert last.holdings[1].taken == Taken(7)


def test_what_an_operator_behind_asked_for_is_taken(fake):
    with fake.FakeMesh(fake.frames(1, 100)) as mesh:
        with iter(far(mesh).batch(5)) as it:
            next(it)
            wait_until(lambda: mesh.worker.shelves[1].taken == Runs.of((0, 5)))


@pytest.mark.parametrize("count", [2, 3, 10])
def test_two_loops_in_one_thread_share_a_frame_that_holds_the_whole_dataset(fake, count):
    with fake.FakeMesh(fake.frames(1, count)) as mesh:
        its = [iter(far(mesh, job_name="job")) for _ in range(2)]
        got = [[], []]
        over = [False, False]
        while not all(over):
            for i, it in enumerate(its):
                element = None if over[i] else next(it, None)
                over[i] = element is None
                if element is not None:
                    got[i].append(int(element))

    assert sorted(chain(*got)) == list(range(count))


def test_two_loops_in_lockstep_share_a_long_tail(fake):
    with fake.FakeMesh(fake.frames(10, 40)) as mesh:
        its = [iter(far(mesh, job_name="job").batch(1)) for _ in range(2)]
        got = []
        while its:
            for it in list(its):
                batch = next(it, None)
                if batch is None:
                    its.remove(it)
                else:
                    got.append(int(batch[0]))

    assert sorted(got) == list(range(400))


def test_many_loops_in_threads_take_each_element_once(fake):
    with fake.FakeMesh(fake.frames(60, 20), fake.frames(60, 20, 5000)) as mesh:
        dataset = [far(mesh, job_name="job") for _ in range(4)]
        got = []
        threads = [threading.Thread(target=lambda d=d: got.extend(numbers(d))) for d in dataset]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

    assert Counter(got) == Counter([*range(1200), *range(5000, 6200)])


# --- trouble ---


def test_cut_streams_are_opened_anew_and_nothing_is_lost_or_repeated(fake):
    with fake.FakeMesh(fake.frames(40, 10), fake.frames(40, 10, 1000)) as mesh:
        it = iter(far(mesh))
        got = []
        for element in it:
            got.append(int(element))
            if len(got) in (5, 200, 500):
                mesh.cut_streams()

        assert [x for x in got if x < 1000] == list(range(400))
        assert [x for x in got if x >= 1000] == list(range(1000, 1400))
        assert mesh.worker.streams_opened > 2


def test_a_reader_that_was_given_up_goes_on_under_a_new_name(fake):
    with fake.FakeMesh(fake.frames(10, 10)) as mesh:
        it = iter(far(mesh))
        got = [int(next(it)) for _ in range(15)]

        mesh.give_up(1)
        wait_until(lambda: session_of(it).core.reader != 1)
        got += numbers(it)

    assert got == list(range(100))


def test_a_lost_worker_is_not_noticed_but_for_the_wait(fake):
    with fake.FakeMesh(fake.frames(1, 10), fake.frames(2, 10, 100)) as mesh:
        mesh.withhold(1)
        it = iter(far(mesh))
        got = [int(next(it)) for _ in range(20)]

        mesh.lose(1)
        wait_until(lambda: mesh.heard(lambda beat: beat.holdings[1].fence == 2))
        mesh.find(1)
        mesh.release(1)
        got += numbers(it)

        assert sorted(got) == [*range(10), *range(100, 120)]


def test_a_failure_is_raised_behind_the_elements_before_it(fake):
    failure = Failure.of(errors.TransformError("map(f)", 30, "ValueError: no", "w", "trace"))
    with fake.FakeMesh(fake.frames(3, 10)) as mesh:
        mesh.leave_unfinished(1)
        mesh.worker.failures[1] = mesh.dispatcher.told_failures[1] = failure
        it, got = iter(far(mesh)), []

        with pytest.raises(errors.TransformError) as caught:
            for element in it:
                got.append(int(element))
        with pytest.raises(errors.TransformError):
            next(it)

        assert got == list(range(30))
        assert (caught.value.number, caught.value.worker) == (30, "w")
        it.close()


def test_an_absent_worker_is_named_within_the_timeout(fake):
    with fake.FakeMesh(fake.frames(1, 10)) as mesh:
        address = mesh.dispatcher.address
        mesh.stop_worker()
        began = time.monotonic()

        with pytest.raises(errors.WaitedTooLong, match=f"worker {address} to answer"):
            list(far(mesh, timeout=0.5))

        assert time.monotonic() - began < 2.5


def test_workers_that_cannot_be_reached_are_logged_after_a_second_and_raised_by_name(fake, caplog):
    with ExitStack() as stack:
        hole = stack.enter_context(socket.socket())
        hole.bind(("127.0.0.1", 0))
        hole.listen()  # connections are taken, and nothing is ever answered
        black = f"127.0.0.1:{hole.getsockname()[1]}"
        mesh = stack.enter_context(fake.FakeMesh(*(fake.frames(1, 10) for _ in range(4))))
        there, lost = {2: black, 3: "127.0.0.1:9", 4: "nobody.invalid:1"}, []
        mesh.dispatcher.elsewhere = there
        began = time.monotonic()

        with pytest.raises(errors.WaitedTooLong) as caught:
            for element in far(mesh, timeout=2.5):
                lost.append(element)

    assert len(lost) == 10  # of the task that can be reached
    assert 2.5 <= time.monotonic() - began < 5
    assert all(f"worker {address} to answer" in str(caught.value) for address in there.values())
    assert "--worker-address" in str(caught.value)
    lines = [line for line in caplog.messages if "does not answer" in line]
    assert sorted(line.split()[1] for line in lines) == sorted(there.values())


def test_a_worker_that_makes_elements_for_long_is_no_worker_that_does_not_answer(fake, caplog):
    with fake.FakeMesh(fake.frames(2, 10), beat_interval=0.05) as mesh:
        mesh.withhold(1)
        it = iter(far(mesh, timeout=0.5))
        reading = threading.Thread(target=next, args=(it,))
        reading.start()

        wait_until(lambda: mesh.heard(lambda _: True) and session_of(it).core.shares[1].answered)
        assert session_of(it).core.reach.level(clock.now() + 100) == {}
        mesh.release(1)
        reading.join()
        assert len(numbers(it)) == 19


def test_the_only_worker_that_is_lost_is_waited_for_as_long_as_the_timeout_says(fake):
    with fake.FakeMesh(fake.frames(1, 10)) as mesh:
        it = iter(far(mesh, timeout=1.5))
        mesh.leave_unfinished(1)
        assert int(next(it)) == 0
        mesh.stop_worker()
        mesh.dispatcher.waiting_for = "a worker: none is registered at here"
        mesh.lose(1)
        began = time.monotonic()

        with pytest.raises(errors.WaitedTooLong, match=r"timeout=1\.5\) says how long"):
            list(it)

        assert 1.4 < time.monotonic() - began < 5


def test_a_mesh_without_workers_is_named_within_the_timeout(fake):
    with fake.FakeMesh() as mesh:
        mesh.dispatcher.waiting_for = "a worker: none is registered at here"

        with pytest.raises(errors.WaitedTooLong, match="a worker: none is registered") as caught:
            list(far(mesh, timeout=0.3))

        assert "timeout=0.3" in str(caught.value)


def test_nobody_at_the_address_is_named_within_the_timeout(nothing_left):
    dataset = UPSTREAM.distribute("parallel_epochs", "grpc://127.0.0.1:9", timeout=0.4)
    with nothing_left():
        began = time.monotonic()
        with pytest.raises(errors.Unavailable, match="127.0.0.1:9"):
            iter(dataset)

        assert time.monotonic() - began < 2
        del dataset


def test_a_dispatcher_that_comes_late_is_waited_for(fake):
    with fake.FakeMesh(fake.frames(1, 10)) as mesh:
        dataset = far(mesh, timeout=20)
        refusals = [errors.Unavailable("not yet"), errors.Overloaded("not now")]

        def refuse_some():
            if refusals:
                mesh.dispatcher.refuse = refusals.pop()

        refuse_some()
        assert numbers(dataset) == list(range(10))


def test_a_dispatcher_that_falls_silent_is_named_when_there_is_nothing_more(fake, caplog):
    with fake.FakeMesh(fake.frames(1, 10), lease=0.6) as mesh:
        mesh.leave_unfinished(1)
        it = iter(far(mesh, timeout=0.5))
        got = [int(next(it)) for _ in range(10)]
        mesh.do(setattr, mesh.dispatcher, "silent", True)

        with pytest.raises(errors.WaitedTooLong, match=f"the dispatcher at {mesh.target}"):
            next(it)

        assert got == list(range(10))
        it.close()


def test_a_dispatcher_that_is_gone_is_named_and_what_is_here_is_read_first(fake):
    with fake.FakeMesh(fake.frames(2, 10)) as mesh:
        mesh.leave_unfinished(1)
        it = iter(far(mesh, timeout=0.5))
        got = [int(next(it))]
        wait_until(lambda: session_of(it).core.shares[1].buffered == Runs.of((1, 20)))

        mesh.stop_dispatcher()
        with pytest.raises(errors.WaitedTooLong, match=mesh.target):
            for element in it:
                got.append(int(element))

        assert got == list(range(20))
        began = time.monotonic()
        it.close()
        assert time.monotonic() - began < 1


def test_nothing_is_handed_out_when_the_lease_is_over_not_even_of_a_block_begun(fake):
    with fake.FakeMesh(fake.frames(1, 100), lease=0.5) as mesh:
        it = iter(far(mesh, timeout=0.3))
        first = [int(next(it)) for _ in range(5)]
        mesh.do(setattr, mesh.dispatcher, "silent", True)
        core = session_of(it).core
        wait_until(lambda: clock.now() >= core.permitted_until)
        with pytest.raises(errors.WaitedTooLong, match="dispatcher"):
            next(it)
        mesh.do(setattr, mesh.dispatcher, "silent", False)

        assert first + numbers(it) == list(range(100))


def test_a_dispatcher_that_refuses_the_reader_ends_the_reading(fake):
    with fake.FakeMesh(fake.frames(1, 10)) as mesh:
        it = iter(far(mesh))
        mesh.withhold(1)
        error = errors.UnknownIteration("iteration 1 is over")
        wait_until(lambda: session_of(it).core.reader is not None)
        mesh.do(lambda: [views.put_nowait(error) for views in mesh.dispatcher.answers])

        with pytest.raises(errors.UnknownIteration, match="is over"):
            while True:
                next(it)
        it.close()


def test_a_long_wait_is_logged_with_whom_since_when_and_until_when(fake, caplog, monkeypatch):
    monkeypatch.setattr("penstock.reader.waiting.LOG_EVERY", 0.05)
    monkeypatch.setattr("penstock.reader.session.WAKE_EVERY", 0.02)
    with fake.FakeMesh() as mesh, caplog.at_level(logging.WARNING, "penstock.reader"):
        mesh.dispatcher.waiting_for = "a worker: none is registered at here"
        with pytest.raises(errors.WaitedTooLong):
            list(far(mesh, timeout=0.3))

    lines = [record.message for record in caplog.records]
    assert 2 <= len(lines) <= 7
    assert any("a worker: none is registered" in line and "at most 0.3 s" in line for line in lines)


# --- leaving ---


def begun(mesh):
    it = iter(far(mesh))
    next(it)
    return it


@pytest.mark.parametrize("how", ["close", "del", "with", "end"])
def test_all_is_closed_in_less_than_a_second_and_nothing_is_left(fake, nothing_left, how):
    with fake.FakeMesh(fake.frames(50, 100)) as mesh:
        list(far(mesh))
        mesh.worker.add(1, fake.frames(50, 100))
        began = time.monotonic()
        with nothing_left():
            it = begun(mesh)
            if how == "close":
                it.close()
                it.close()
            elif how == "with":
                with it:
                    pass
            elif how == "end":
                list(it)
            if how != "end":
                began = time.monotonic()
            del it
            assert time.monotonic() - began < 1
        assert mesh.dispatcher.beats[-1].leaving


async def test_who_leaves_while_a_beat_is_on_its_way_says_so_by_the_next():
    core = Reader(IterationId(1), "token", 30.0, FrameLimit(2))
    network = Network(SimpleNamespace(core=core, beat=lambda: core.beat(0.0)), "nowhere", 0.1)
    beats = network._beats()

    assert not (await anext(beats)).leaving
    core.leave(0.0)

    assert (await anext(beats)).leaving
    with pytest.raises(StopAsyncIteration):
        await anext(beats)


def test_every_reader_that_the_dispatcher_heard_of_says_that_it_leaves(fake):
    with fake.FakeMesh(fake.frames(2, 10), beat_interval=0.02, fresh=True) as mesh:
        for count in range(60):
            it = iter(far(mesh))
            for _ in range(count % 4):
                next(it)
            it.close()

        last = {beat.token: beat for beat in mesh.dispatcher.beats}
        assert [token for token, beat in last.items() if not beat.leaving] == []


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
        wait_until(lambda: session_of(it).core.asking)
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
            core.accept, core.lend = striking(strike, core.accept), striking(strike, core.lend)
            with pytest.raises(errors.Closed):
                next(it)

        wait_until(lambda: mesh.dispatcher.beats[-1].leaving)


def test_a_signal_handler_may_close_an_iterator_that_waits(fake):
    with fake.FakeMesh(fake.frames(1, 1)) as mesh:
        mesh.withhold(1)
        it = iter(far(mesh))
        core = session_of(it).core
        with struck_by(it.close) as strike:
            core.ask = striking(threading.Timer(0.05, strike).start, core.ask)
            with pytest.raises(errors.Closed):
                next(it)

        assert mesh.dispatcher.beats[-1].leaving


def test_a_signal_handler_that_saves_in_the_middle_of_a_change_is_told_what_to_do(fake):
    with fake.FakeMesh(fake.frames(5, 10)) as mesh:
        it, told = iter(far(mesh)), []

        def save():
            with pytest.raises(errors.Reentered, match="set a flag") as refused:
                it.state()
            told.append(refused)

        core = session_of(it).core
        with struck_by(save) as strike:
            core.accept = striking(strike, core.accept)
            got = numbers(it)

        assert len(told) == 1
        assert got == list(range(50))


@pytest.mark.parametrize("lock", ["session", "hold", "tracks"])
def test_no_lock_of_a_reader_is_waited_for_by_the_thread_that_has_it(fake, lock):
    with fake.FakeMesh(fake.frames(5, 10)) as mesh:
        it = iter(far(mesh).map(lambda x: x))
        next(it)
        locks = {
            "session": session_of(it)._changed,
            "hold": it._reading._hold._lock,
            "tracks": it._reading._tracks.lock,
        }
        with locks[lock]:  # as a signal handler finds it
            with pytest.raises(errors.Reentered):
                it.state()
            it.close()

        wait_until(lambda: mesh.dispatcher.beats[-1].leaving)


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

        assert mesh.dispatcher.beats[-1].leaving


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
            wait_until(lambda: mesh.dispatcher.beats)
            monkeypatch.setattr(session._network, "_perform", broken)
            monkeypatch.setattr(session.core, "orders", lambda: [SendBeat()])
            monkeypatch.setattr(Reader, "pressing", property(lambda _self: True))

            with pytest.raises(RuntimeError, match="no such order"):
                next(it)


def test_an_iterator_that_the_collector_finds_in_the_loops_thread_is_closed(fake):
    with fake.FakeMesh(fake.frames(5, 10)) as mesh:
        it, other = begun(mesh), begun(mesh)
        loop = session_of(other)._loop
        mesh.do(mesh.dispatcher.beats.clear)
        reading, it._reading = it._reading, None

        loop.call_soon(reading.close)

        wait_until(lambda: any(beat.leaving for beat in mesh.dispatcher.beats))
        other.close()


def test_an_iterator_that_the_collector_finds_under_its_sessions_lock_is_closed(fake):
    with fake.FakeMesh(fake.frames(5, 10)) as mesh:
        it, dropped = iter(far(mesh).prefetch(2)), threading.Event()
        (session,) = it._reading._tracks.read() or [t.session for t in it._reading._tracks.all()]
        borrow = session.core.borrow

        def collecting(now, limit):
            if dropped.is_set():
                gc.collect()
            return borrow(now, limit)

        session.core.borrow = collecting  # it is called with the lock held
        next(it)
        cycle = [it]
        cycle.append(cycle)
        del it, session
        dropped.set()
        del cycle

        wait_until(lambda: (gc.collect(), mesh.dispatcher.beats[-1].leaving)[1], 20)


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
        assert mesh.dispatcher.beats[-1].leaving
        assert mesh.dispatcher.beats[-1].holdings[1].taken == Taken(1)


# --- operators behind the reader ---


class Desk:
    """Follows a session: everything pulled is owed until it is handed out."""

    cuts = False

    def __init__(self):
        self.pulled = self.handed = 0
        self.withdrawn = NO_RUNS

    def owed(self):
        return Owed(Runs.of((self.handed, self.pulled)) - self.withdrawn, self.pulled)

    def withdraw(self, choose):
        places = choose(self.owed())
        self.withdrawn = self.withdrawn | places
        return places


@pytest.fixture
def borrowing(fake):
    """Open a session on a mesh, with a desk that follows it."""
    with ExitStack() as stack:

        def make(mesh, **kwargs):
            it = iter(far(mesh, **kwargs))
            stack.callback(it.close)
            session, desk = session_of(it), Desk()
            session.follow(desk)
            return session, desk

        yield make


def test_what_is_pulled_is_taken_when_it_is_not_owed_any_more(fake, borrowing):
    with fake.FakeMesh(fake.frames(3, 10)) as mesh:
        session, desk = borrowing(mesh)
        got = numbers(session.pull(4))
        desk.pulled += 4
        desk.handed += 3
        session.asks(False)

        wait_until(lambda: mesh.worker.shelves[1].taken == Runs.of((0, 3)))
        assert got == [0, 1, 2, 3]
        assert mesh.worker.shelves[1].held[1].spans[0][0] == 3
        assert mesh.dispatcher.beats[-1].handed <= 3
        session.close()


def test_operators_that_wait_for_an_end_that_waits_for_them_are_told_to_make_do(fake, borrowing):
    with fake.FakeMesh(fake.frames(1, 10)) as mesh:
        session, desk = borrowing(mesh)
        session.asks(True)
        while block := session.pull(3):
            desk.pulled += len(block)

        assert desk.pulled == 10
        assert not session.over
        desk.handed = 10
        assert not session.more()
        assert session.over
        assert mesh.worker.shelves[1].taken == Runs.of((0, 10))
        session.close()


def test_what_operators_hold_goes_to_a_reader_that_waits(fake, borrowing):
    with fake.FakeMesh(fake.frames(1, 10)) as mesh:
        holding, desk = borrowing(mesh, job_name="job")
        holding.asks(True)
        while desk.pulled < 10:
            desk.pulled += len(holding.pull())
        desk.handed = 1
        holding.asks(False)

        got = numbers(far(mesh, job_name="job"))

        assert got == list(range(1, 10))
        assert desk.withdrawn == Runs.of((1, 10))
        holding.close()


def test_what_was_dropped_behind_the_reader_comes_again(fake, borrowing):
    with fake.FakeMesh(fake.frames(1, 6)) as mesh:
        session, desk = borrowing(mesh)
        assert numbers(session.pull()) == list(range(6))
        desk.pulled = 6
        desk.withdrawn = Runs.of((2, 4))

        session.give_back(Runs.of((2, 4)))

        assert session.more()
        assert numbers(session.pull()) == [2, 3]
        session.close()


# --- saves ---


def test_a_save_hands_out_nothing_from_its_cut_on_and_returns_the_jobs_state(fake):
    with fake.FakeMesh(fake.frames(2, 10)) as mesh:
        it = iter(far(mesh))
        got = [int(next(it)) for _ in range(4)]

        states = [json.loads(session_of(it).save("step 4", 5.0)) for _ in range(2)]
        got += numbers(it)

        assert states == [[{"1": [[0, 4]]}]] * 2
        assert got == list(range(20))
        assert [verdict.label for verdict in mesh.dispatcher.verdicts] == ["step 4"] * 2


def test_all_readers_hear_the_same_verdict(fake):
    with fake.FakeMesh(fake.frames(4, 10)) as mesh:
        its = [iter(far(mesh, job_name="job")) for _ in range(3)]
        for it in its:
            next(it)
        mesh.do(setattr, mesh.dispatcher, "readers_of_the_job", 3)

        with ThreadPoolExecutor(3) as pool:
            states = list(pool.map(lambda it: session_of(it).save("", 5.0), its))

        assert len(set(states)) == 1
        for it in its:
            it.close()


def test_a_save_that_failed_says_why_and_the_loop_goes_on(fake):
    with fake.FakeMesh(fake.frames(1, 5)) as mesh:
        it = iter(far(mesh))
        got = [int(next(it))]
        failing = Failure.of(errors.SaveFailed("save 0: reader 2 did not come"))
        mesh.do(setattr, mesh.dispatcher, "failing", failing)

        with pytest.raises(errors.SaveFailed, match="reader 2"):
            session_of(it).save("", 5.0)
        got += numbers(it)

        assert got == list(range(5))


def test_a_save_while_the_dispatcher_is_away_stays_in_force_until_its_verdict(fake):
    with fake.FakeMesh(fake.frames(2, 10)) as mesh:
        it = iter(far(mesh))
        got = [int(next(it)) for _ in range(3)]
        mesh.stop_dispatcher()

        with pytest.raises(errors.WaitedTooLong, match=rf"{mesh.target}.*timeout=0.3"):
            session_of(it).save("", 0.3)
        with ThreadPoolExecutor(1) as pool:
            later = pool.submit(next, it)
            wait_until(lambda: session_of(it).core.asking)
            assert not later.done()
            mesh.start_dispatcher()
            got.append(int(later.result(10)))
        got += numbers(it)

        assert got == list(range(20))
        assert json.loads(mesh.dispatcher.verdicts[0].state) == [{"1": [[0, 3]]}]


def test_the_same_save_called_again_hears_the_verdict(fake):
    with fake.FakeMesh(fake.frames(2, 10)) as mesh:
        it = iter(far(mesh))
        next(it)
        mesh.stop_dispatcher()
        with pytest.raises(errors.WaitedTooLong):
            session_of(it).save("a", 0.2)
        with pytest.raises(errors.SaveFailed, match=r"'b'\) has to wait.*'a'"):
            session_of(it).save("b", 0.2)

        mesh.start_dispatcher()

        assert json.loads(session_of(it).save("a", 10.0)) == [{"1": [[0, 1]]}]
        assert len(mesh.dispatcher.verdicts) == 1
        it.close()


# --- the dispatcher comes back; the job went elsewhere ---


def test_a_dispatcher_that_comes_back_is_found_and_everything_goes_on(fake):
    with fake.FakeMesh(fake.frames(20, 10), lease=1.0) as mesh:
        it, got = iter(far(mesh)), []
        got += [int(next(it)) for _ in range(30)]
        mesh.stop_dispatcher()
        core = session_of(it).core
        wait_until(lambda: clock.now() >= core.permitted_until)

        with ThreadPoolExecutor(1) as pool:
            rest = pool.submit(numbers, it)
            wait_until(lambda: core.asking)
            mesh.start_dispatcher()
            got += rest.result(20)

        assert got == list(range(200))


def test_a_dispatcher_that_answers_nothing_is_called_by_another_connection(fake, monkeypatch):
    monkeypatch.setattr("penstock.reader.network.SILENCE", 0.2)
    with fake.FakeMesh(fake.frames(2, 10), beat_interval=0.02) as mesh:
        it = iter(far(mesh))
        next(it)
        mesh.do(setattr, mesh.dispatcher, "silent", True)
        wait_until(lambda: "silent for" in session_of(it)._network.trouble)

        mesh.do(setattr, mesh.dispatcher, "silent", False)
        wait_until(lambda: not session_of(it)._network.trouble)

        assert numbers(it) == list(range(1, 20))


def test_a_reader_of_what_was_abandoned_hands_out_nothing_more_and_says_so(fake):
    with fake.FakeMesh(fake.frames(1, 100)) as mesh:
        it = iter(far(mesh))
        next(it)
        error = errors.Superseded("iteration 1 was superseded by a restore of job 'job'")
        mesh.do(lambda: [views.put_nowait(error) for views in mesh.dispatcher.answers])
        wait_until(lambda: session_of(it).core.permitted_until < 0)

        for _ in range(2):
            with pytest.raises(errors.Superseded, match="restore of job"):
                next(it)
        it.close()


# --- frames that are not what their header says ---


@pytest.mark.parametrize("behind", ["nothing", "take"])
def test_a_header_that_counts_more_than_its_payload_holds_is_an_error_and_no_end(
    fake, monkeypatch, behind
):
    def short(self, elements):
        return packed(self, elements[:5])

    packed = fake.Worker._packed
    monkeypatch.setattr(fake.Worker, "_packed", short)
    with fake.FakeMesh(fake.frames(20, 50)) as mesh:
        dataset = far(mesh) if behind == "nothing" else far(mesh).take(1000)
        with dataset.iterator() as it:
            for _ in range(2):  # and again, whenever it is asked
                with pytest.raises(errors.VersionMismatch, match="holds 5 elements"):
                    next(it)
