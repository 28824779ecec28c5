"""Workers and dispatchers that fail, fall silent or come late, and what their readers hear."""

import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from penstock import errors
from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import Failure
from penstock.runtime import clock
from tests.reader.session.opened_sessions import UPSTREAM, far, numbers, session_of, wait_until


def test_cut_streams_are_opened_anew_and_nothing_is_lost_or_repeated(fake):
    with fake.FakeMesh(fake.frames(40, 10), fake.frames(40, 10, 1000)) as mesh:
        it = iter(far(mesh, max_outstanding_requests=4))
        got = []
        for element in it:
            got.append(int(element))
            if len(got) in (5, 200, 500):
                mesh.cut_streams()

        assert [x for x in got if x < 1000] == list(range(400))
        assert [x for x in got if x >= 1000] == list(range(1000, 1400))
        assert mesh.worker.streams_opened > 2


def test_a_reader_that_expired_goes_on_under_a_new_name(fake):
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
        wait_until(lambda: mesh.heard(lambda heartbeat: heartbeat.reports[1].fence == 2))
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


@pytest.mark.slow
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
    with fake.FakeMesh(fake.frames(2, 10), heartbeat_interval=0.05) as mesh:
        mesh.withhold(1)
        it = iter(far(mesh, timeout=0.5))
        reading = threading.Thread(target=next, args=(it,))
        reading.start()

        wait_until(lambda: mesh.heard(lambda _: True) and session_of(it).core.tasks[1].answered)
        assert session_of(it).core.reachability.level(clock.now() + 100) == {}
        mesh.release(1)
        reading.join()
        assert len(numbers(it)) == 19


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_mesh_without_workers_is_named_within_the_timeout(fake):
    with fake.FakeMesh() as mesh:
        mesh.dispatcher.waiting_for = "a worker: none is registered at here"

        with pytest.raises(errors.WaitedTooLong, match="a worker: none is registered") as caught:
            list(far(mesh, timeout=2))

        assert "timeout=2" in str(caught.value)


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_dispatcher_that_is_gone_is_named_and_what_is_here_is_read_first(fake):
    with fake.FakeMesh(fake.frames(2, 10)) as mesh:
        mesh.leave_unfinished(1)
        it = iter(far(mesh, timeout=0.5))
        got = [int(next(it))]
        wait_until(lambda: session_of(it).core.tasks[1].buffered == RangeSet.of((1, 20)))

        mesh.stop_dispatcher()
        with pytest.raises(errors.WaitedTooLong, match=mesh.target):
            for element in it:
                got.append(int(element))

        assert got == list(range(20))
        began = time.monotonic()
        it.close()
        assert time.monotonic() - began < 1


@pytest.mark.slow
def test_nothing_is_handed_out_when_the_lease_is_over_not_even_of_a_block_begun(fake):
    with fake.FakeMesh(fake.frames(1, 100), lease=0.5) as mesh:
        it = iter(far(mesh, timeout=1))
        first = [int(next(it)) for _ in range(5)]
        mesh.do(setattr, mesh.dispatcher, "silent", True)
        core = session_of(it).core
        wait_until(lambda: clock.now() >= core.lease_until)
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
    monkeypatch.setattr("penstock.reader.session.deadlines.LOG_EVERY", 0.1)
    monkeypatch.setattr("penstock.reader.session.session.WAKE_EVERY", 0.02)
    with fake.FakeMesh() as mesh, caplog.at_level(logging.WARNING, "penstock.reader"):
        mesh.dispatcher.waiting_for = "a worker: none is registered at here"
        with pytest.raises(errors.WaitedTooLong):
            list(far(mesh, timeout=2))

    lines = [record.message for record in caplog.records]
    assert 2 <= len(lines) <= 21
    assert any("a worker: none is registered" in line and "at most 2 s" in line for line in lines)


# --- the dispatcher comes back; the job went elsewhere ---


@pytest.mark.slow
def test_a_dispatcher_that_comes_back_is_found_and_everything_goes_on(fake):
    with fake.FakeMesh(fake.frames(20, 10), lease=1.0) as mesh:
        it, got = iter(far(mesh)), []
        got += [int(next(it)) for _ in range(30)]
        mesh.stop_dispatcher()
        core = session_of(it).core
        wait_until(lambda: clock.now() >= core.lease_until)

        with ThreadPoolExecutor(1) as pool:
            rest = pool.submit(numbers, it)
            wait_until(lambda: core.is_waiting)
            mesh.start_dispatcher()
            got += rest.result(20)

        assert got == list(range(200))


def test_a_dispatcher_that_answers_nothing_is_called_by_another_connection(fake, monkeypatch):
    monkeypatch.setattr("penstock.reader.session.network.SILENCE", 0.2)
    with fake.FakeMesh(fake.frames(2, 10), heartbeat_interval=0.02) as mesh:
        it = iter(far(mesh))
        next(it)
        mesh.do(setattr, mesh.dispatcher, "silent", True)
        wait_until(lambda: "silent for" in session_of(it)._network.reason)

        mesh.do(setattr, mesh.dispatcher, "silent", False)
        wait_until(lambda: not session_of(it)._network.reason)

        assert numbers(it) == list(range(1, 20))


def test_a_reader_of_what_was_abandoned_hands_out_nothing_more_and_says_so(fake):
    with fake.FakeMesh(fake.frames(1, 100)) as mesh:
        it = iter(far(mesh))
        next(it)
        error = errors.Superseded("iteration 1 was superseded by a restore of job 'job'")
        mesh.do(lambda: [views.put_nowait(error) for views in mesh.dispatcher.answers])
        wait_until(lambda: session_of(it).core.lease_until < 0)

        for _ in range(2):
            with pytest.raises(errors.Superseded, match="restore of job"):
                next(it)
        it.close()
