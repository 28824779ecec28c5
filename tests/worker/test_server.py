"""A worker in this process and in one of its own: start, stop, and what is in the way."""

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager

import pytest

from penstock.errors import Closed, ConfigError, Refused, Unavailable
from penstock.protocol.types import Failure
from penstock.runtime.event_loop import LoopThread
from penstock.wire.connection import connect, listening
from penstock.wire.dispatcher import dispatcher_handlers
from penstock.wire.worker import WorkerClient
from penstock_worker import WorkerConfig, WorkerServer, server
from penstock_worker.server import PendingWorker
from penstock_worker.service import WorkerService


@contextmanager
def served(dispatcher):
    """*dispatcher* behind a real port, on the loop that this process shares."""

    @asynccontextmanager
    async def line():
        handlers = dispatcher_handlers(dispatcher)
        async with listening(handlers, host="127.0.0.1", port=0, drain=0) as port:
            yield port

    with LoopThread.shared() as loop:
        opened = line()
        port = loop.run(opened.__aenter__(), 5)
        try:
            yield f"127.0.0.1:{port}"
        finally:
            loop.run(opened.__aexit__(None, None, None), 5)


@pytest.fixture
def target(nothing_left, dispatcher):
    dispatcher.register_dataset = dispatcher.open_iteration = dispatcher.status = None
    dispatcher.reader_control = None
    with served(dispatcher) as address:
        yield address


def wait_for(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def port_of(address):
    return int(address.rpartition(":")[2])


def test_a_worker_is_registered_when_start_returns(target, dispatcher):
    server = WorkerServer(WorkerConfig(target))

    assert [beat.worker for beat in dispatcher.beats[:1]] == [server.address]
    assert server.address.startswith("127.0.0.1:")
    server.start()
    server.stop()


def test_a_worker_that_is_not_started_has_no_address_and_can_be_stopped(target):
    server = WorkerServer(WorkerConfig(target), start=False)

    with pytest.raises(Closed, match="not been started"):
        _ = server.address
    server.join()
    server.stop()
    with pytest.raises(Closed, match="stopped"):
        server.start()


def test_a_stopped_worker_is_gone_within_a_second_and_does_not_start_again(target):
    with WorkerServer(WorkerConfig(target)) as server:
        address = server.address
    began = time.monotonic()
    server.stop()

    assert time.monotonic() - began < 1
    server.join()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port_of(address)))
    with pytest.raises(Closed, match="make another"):
        server.start()


def test_a_worker_with_a_task_hands_it_back_before_it_stops(target, dispatcher):
    with WorkerServer(WorkerConfig(target)) as server, LoopThread.shared() as loop:
        loop.call_soon(dispatcher.assign, 1)
        wait_for(lambda: dispatcher.beats[-1].progress)
        server.stop()
        server.stop()

        assert any(beat.draining for beat in dispatcher.beats)
        assert 1 in dispatcher.requeued


@pytest.mark.quick(1)
@pytest.mark.parametrize("how", ["deadline", "at once"])
def test_a_worker_that_cannot_hand_its_task_back_stops_all_the_same(
    target, dispatcher, how, caplog
):
    dispatcher.trusting = False
    drain = 0.3 if how == "deadline" else 60.0
    with ThreadPoolExecutor(1) as threads, LoopThread.shared() as loop:
        server = WorkerServer(WorkerConfig(target, drain=drain))
        loop.call_soon(dispatcher.assign, 1)
        wait_for(lambda: dispatcher.beats[-1].progress)
        began = time.monotonic()
        stopping = threads.submit(server.stop)
        if how == "at once":
            wait_for(lambda: dispatcher.beats[-1].draining)
            server.stop(at_once=True)

        stopping.result(5)
        assert time.monotonic() - began < 6


def test_leaving_the_block_stops_at_once(target, dispatcher):
    dispatcher.trusting = False
    with LoopThread.shared() as loop:
        with WorkerServer(WorkerConfig(target, drain=60.0)):
            loop.call_soon(dispatcher.assign, 1)
            wait_for(lambda: dispatcher.beats[-1].progress)
            began = time.monotonic()

        assert time.monotonic() - began < 10  # by default it waits for a minute


def test_join_returns_when_another_thread_stops_the_worker(target):
    server = WorkerServer(WorkerConfig(target))
    with ThreadPoolExecutor(1) as threads:
        joined = threads.submit(server.join)

        server.stop()

        assert joined.result(5) is None


def test_dropping_the_last_reference_stops_the_worker(target):
    server = WorkerServer(WorkerConfig(target))
    port = port_of(server.address)

    del server
    gc.collect()

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_dispatcher_that_is_absent_at_the_start_is_named_in_time(nothing_left):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    began = time.monotonic()

    with pytest.raises(Unavailable, match=address) as caught:
        WorkerServer(WorkerConfig(address, dispatcher_timeout=0.3))

    assert "dispatcher_timeout=0.3" in str(caught.value)
    assert time.monotonic() - began < 10  # by default it waits for a minute


def test_a_worker_that_waits_for_a_dispatcher_says_so_before_it_gives_up(
    nothing_left, monkeypatch, caplog
):
    monkeypatch.setattr(server, "SAID_AFTER", 0.1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"

    with pytest.raises(Unavailable):
        WorkerServer(WorkerConfig(address, dispatcher_timeout=0.4))

    (said,) = [record.message for record in caplog.records if record.name == "penstock.worker"]
    assert said.startswith(f"waiting for the dispatcher at {address} for up to 0.4 s: ")


def test_a_dispatcher_that_comes_late_is_waited_for(nothing_left, dispatcher):
    dispatcher.absent = True
    dispatcher.register_dataset = dispatcher.open_iteration = dispatcher.status = None
    dispatcher.reader_control = None
    with served(dispatcher) as address, ThreadPoolExecutor(1) as threads:
        starting = threads.submit(WorkerServer, WorkerConfig(address, dispatcher_timeout=20.0))
        while dispatcher.lines < 2:
            assert not starting.done()
            time.sleep(0.001)

        dispatcher.absent = False

        starting.result(10).stop()


def test_a_dispatcher_that_refuses_the_worker_is_heard(target, dispatcher):
    dispatcher.refuse = Failure("Refused", ("not one of worker_addresses",))

    with pytest.raises(Refused, match="not one of worker_addresses"):
        WorkerServer(WorkerConfig(target))


def test_a_refusal_later_ends_the_worker_and_join_says_why(target, dispatcher, caplog):
    server = WorkerServer(WorkerConfig(target))
    dispatcher.refuse = Failure("Refused", ("a newer process answers here",))
    with LoopThread.shared() as loop:
        loop.call_soon(dispatcher.tell)

        with pytest.raises(Refused, match="newer process"):
            server.join()
    server.stop()


def test_a_worker_without_a_dispatcher_s_address_is_refused(nothing_left):
    with pytest.raises(ConfigError, match="dispatcher_address"):
        WorkerServer(WorkerConfig())
    with pytest.raises(ConfigError, match="WorkerConfig, not str"):
        WorkerServer("host:1")


def test_a_worker_that_others_can_reach_does_not_start_unless_something_says_who_may(
    target, nothing_left
):
    with pytest.raises(ConfigError, match="penstock keys init.*--insecure"):
        WorkerServer(WorkerConfig(target, host="0.0.0.0"))


def test_an_insecure_worker_on_all_interfaces_warns_once(target, caplog):
    with WorkerServer(WorkerConfig(target, host="0.0.0.0", insecure=True)):
        pass

    warnings = [r.message for r in caplog.records if r.name == "penstock.worker"]
    assert len(warnings) == 1
    assert "0.0.0.0" in warnings[0]
    assert "insecure" in warnings[0]


def test_many_slots_for_each_core_are_warned_of_once(target, caplog, monkeypatch):
    monkeypatch.setattr("penstock_worker.server.cores", lambda: 2)
    for slots in (8, 9):
        with WorkerServer(WorkerConfig(target, slots=slots)):
            pass

    (warning,) = [r.message for r in caplog.records if r.name == "penstock.worker"]
    assert "slots is 9" in warning
    assert "2 core(s)" in warning


def test_several_workers_share_one_thread(target):
    with WorkerServer(WorkerConfig(target)) as one, WorkerServer(WorkerConfig(target)) as two:
        assert one.address != two.address
        loops = [t for t in threading.enumerate() if t.name == "penstock-loop"]
        assert len(loops) == 1


async def test_a_reader_that_comes_before_the_worker_is_asked_for_patience():
    door = PendingWorker()

    with pytest.raises(Unavailable, match="starting"):
        door.read(None)
    with pytest.raises(Unavailable, match="starting"):
        await door.status()


def test_the_worker_answers_from_the_moment_that_it_is_registered(target):
    async def ask(address):
        async with connect(address) as channel:
            return json.loads(await WorkerClient(channel).status())

    with WorkerServer(WorkerConfig(target, worker_tags=("near",))) as server:
        with LoopThread.shared() as loop:
            stats = loop.run(ask(server.address), 10)

    assert stats["worker"] == server.address
    assert stats["tags"] == ["near"]


def test_a_worker_that_fails_raises_in_join(target, monkeypatch, caplog):
    async def broken(self):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(WorkerService, "tick_forever", broken)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        WorkerServer(WorkerConfig(target)).join()


@contextmanager
def process(*arguments, **env):
    command = [sys.executable, "-m", "penstock_worker", *arguments]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**clean, **env}
    ) as child:
        try:
            yield child
        finally:
            child.kill()


@pytest.mark.quick(1)
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_s_process_says_that_it_is_registered_and_stops_when_told(
    target, dispatcher, signum
):
    with process("--dispatcher-address", target, "--worker-tag", "near") as child:
        said = child.stdout.readline().split()
        began = time.monotonic()

        child.send_signal(signum)

        assert child.wait(10) == 0
        assert time.monotonic() - began < 1.5
        assert said == ["worker", dispatcher.beats[0].worker, "registered", "with", target]
        assert child.stderr.read() == ""


@pytest.mark.slow
def test_a_worker_that_is_told_twice_stops_at_once(target, dispatcher):
    dispatcher.trusting = False
    with process("--dispatcher-address", target, "--drain", "60") as child:
        child.stdout.readline()
        with LoopThread.shared() as loop:
            loop.call_soon(dispatcher.assign, 1)
        wait_for(lambda: dispatcher.beats[-1].progress)
        child.send_signal(signal.SIGTERM)
        wait_for(lambda: dispatcher.beats[-1].ended)
        assert child.poll() is None

        child.send_signal(signal.SIGTERM)

        assert child.wait(10) == 0


def test_a_worker_whose_dispatcher_wants_it_to_leave_ends_with_0(target, dispatcher):
    with process("--dispatcher-address", target) as child:
        child.stdout.readline()
        dispatcher.drain = True
        with LoopThread.shared() as loop:
            loop.call_soon(dispatcher.tell)

            assert child.wait(10) == 0
        assert child.stderr.read() == ""
    assert dispatcher.beats[-1].draining


def test_the_parent_process_may_read_the_address_alone(target, dispatcher):
    ready, far = os.pipe()
    env = {"PENSTOCK_READY_FD": str(far), "PENSTOCK_DISPATCHER_ADDRESS": target}
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_")}
    child = subprocess.Popen(
        [sys.executable, "-m", "penstock_worker"], env={**clean, **env}, pass_fds=(far,)
    )
    os.close(far)
    try:
        with os.fdopen(ready) as pipe:
            assert pipe.readline().strip() == dispatcher.beats[0].worker
    finally:
        child.terminate()
        assert child.wait(10) == 0


def test_the_process_says_in_one_line_what_is_wrong_with_its_settings():
    with process("--dispatcher-address", "nowhere") as child:
        assert child.wait(20) == 2
        said = child.stderr.read().splitlines()

    assert len(said) == 1
    assert "dispatcher_address" in said[0]
    assert "'nowhere'" in said[0]


def test_importing_the_package_loads_neither_grpc_nor_an_event_loop():
    code = (
        "import sys, penstock_worker; "
        "print(sorted({'grpc', 'uvloop', 'asyncio', 'google.protobuf'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert shown.stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="Nothing"):
        __import__("penstock_worker").Nothing


def test_the_socket_for_readers_on_this_host_is_in_the_folder_that_was_asked_for(target, tmp_path):
    arguments = ("--dispatcher-address", target, "--socket-dir", str(tmp_path))
    with process(*arguments, PENSTOCK_SOCKET_DIR="/nowhere") as child:
        child.stdout.readline()
        assert [path.is_socket() for path in tmp_path.iterdir()] == [True]

        child.send_signal(signal.SIGTERM)

        assert child.wait(10) == 0
    assert not [*tmp_path.iterdir()]
