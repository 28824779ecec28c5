"""A dispatcher inside this process, and as a process."""

import gc
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import Closed, ConfigError, InternalError
from penstock.runtime.event_loop import LoopThread
from penstock.runtime.signals import ExitCode
from penstock.wire.connection import connect
from penstock.wire.dispatcher import DispatcherClient
from penstock_dispatcher.config import DispatcherConfig
from penstock_dispatcher.core.state_machine import DispatcherCore
from penstock_dispatcher.server import DispatchServer


def status(target):
    async def call():
        async with connect(target.removeprefix("grpc://")) as channel:
            return await DispatcherClient(channel).status()

    with LoopThread.shared() as loop:
        return loop.run(call(), 5)


def loop_threads():
    return [t for t in threading.enumerate() if t.name == "penstock-loop"]


def test_a_server_answers_at_its_target_until_it_is_stopped():
    with DispatchServer() as server:
        assert server.target == f"grpc://127.0.0.1:{server.port}"
        assert b'"workers":[]' in status(server.target)
        began = time.monotonic()
        server.stop()

    assert time.monotonic() - began < 1
    assert not loop_threads()


def test_start_and_stop_can_be_repeated_but_not_in_turn():
    server = DispatchServer(start=False)
    server.start()
    port = server.port
    server.start()
    assert server.port == port

    server.stop()
    server.stop()

    server.join()
    with pytest.raises(Closed):
        server.start()
    with pytest.raises(RuntimeError, match="stopped"):
        server.start()


def test_a_server_may_be_stopped_before_its_start():
    server = DispatchServer(start=False)
    with pytest.raises(Closed, match="not been started"):
        _ = server.target

    server.stop()
    server.join()

    with pytest.raises(Closed):
        server.start()


def test_a_server_without_references_stops():
    server = DispatchServer()
    port = server.port

    del server
    gc.collect()

    assert not loop_threads()
    with DispatchServer(DispatcherConfig(port=port)) as again:
        assert again.port == port


def test_a_fault_ends_a_server_in_this_process_with_an_error_for_all_who_use_it(monkeypatch):
    def faulty(*_):
        raise RuntimeError("a fault")

    with DispatchServer() as server:
        numbers = Dataset.range(10).distribute("distributed_epoch", server.target)
        with numbers.iterator() as reading:
            monkeypatch.setattr(DispatcherCore, "_on_tick", faulty)
            began = time.monotonic()
            with pytest.raises(InternalError, match="a fault.*no work_dir"):
                next(reading)
        with pytest.raises(InternalError, match="deciding on Tick failed"):
            server.join()
        with pytest.raises(Closed, match="dispatcher stopped by itself: .*a fault"):
            _ = server.target

    assert time.monotonic() - began < 20


def test_a_server_whose_loop_closes_before_its_first_step_is_not_waited_for(monkeypatch):
    spawn, gate = LoopThread.spawn, threading.Event()

    def cancelled(loop, coro):
        loop.call_soon(gate.wait, 20)
        future = spawn(loop, coro)
        future.cancel()
        gate.set()
        return future

    with LoopThread.shared():
        monkeypatch.setattr(LoopThread, "spawn", cancelled)
        with pytest.raises(Closed, match="loop was closed while the dispatcher started"):
            DispatchServer()


def test_a_work_dir_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match="work_dir"):
        DispatchServer(DispatcherConfig(work_dir=str(tmp_path / "file")))


def test_a_config_of_another_type_is_refused():
    with pytest.raises(ConfigError, match="dict"):
        DispatchServer({"port": 1})


def test_a_dispatcher_that_others_can_reach_does_not_start_unless_something_says_who_may():
    with pytest.raises(ConfigError, match="penstock keys init.*--insecure"):
        DispatchServer(DispatcherConfig(host="0.0.0.0"))


def test_insecure_on_all_interfaces_is_a_warning_and_an_address_that_others_can_use(caplog):
    with caplog.at_level("INFO", "penstock.dispatcher"):
        with DispatchServer(DispatcherConfig(host="0.0.0.0", insecure=True)) as server:
            assert "0.0.0.0" not in server.target

    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert len([w for w in warnings if "insecure" in w]) == 1
    assert [r for r in caplog.records if "a restart would lose" in r.getMessage()]


@contextmanager
def running(*options, **env):
    """Run a dispatcher, and see to it that it is gone afterwards."""
    with subprocess.Popen(
        [sys.executable, "-m", "penstock_dispatcher", *options],
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.quick(1)
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_soon_and_without_error(signum):
    with running("--port", "0") as process:
        line = process.stdout.readline()
        assert line.startswith("listening on grpc://127.0.0.1:")
        assert status(line.split()[-1])
        began = time.monotonic()

        process.send_signal(signum)

        assert process.wait(20) == 0
        assert time.monotonic() - began < 6
        assert process.stderr.read() == ""


@pytest.mark.slow
def test_settings_come_from_the_environment_and_flags_go_first():
    with DispatchServer() as server:
        port = server.port
    with running(PENSTOCK_PORT=str(port)) as process:
        assert process.stdout.readline().strip().endswith(f":{port}")
    with running("--port", str(port), PENSTOCK_PORT="7") as process:
        assert process.stdout.readline().strip().endswith(f":{port}")


def test_the_parent_process_reads_the_address_and_takes_the_process_along():
    ready, ready_far = os.pipe()
    lifeline_far, lifeline = os.pipe()
    env = {"PENSTOCK_READY_FD": str(ready_far), "PENSTOCK_LIFELINE_FD": str(lifeline_far)}
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock_dispatcher"],
        env={**os.environ, **env},
        pass_fds=(ready_far, lifeline_far),
    )
    try:
        os.close(ready_far)
        os.close(lifeline_far)
        with os.fdopen(ready) as pipe:
            address = pipe.readline().strip()
        assert address.startswith("127.0.0.1:")

        os.close(lifeline)

        assert process.wait(5) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_wrong_setting_ends_the_command_with_its_name_and_the_remedy():
    with socket.create_server(("127.0.0.1", 0)) as taken, ExitStack() as started:
        busy = str(taken.getsockname()[1])
        told = [
            (["--http-port", busy], rf"127.0.0.1:{busy}.*another http_port \(--http-port\)"),
            (["--limit", "max_jobs=0"], "max_jobs must be a number from 1 to .*, not 0"),
        ]
        at_once = [(started.enter_context(running(*words)), said) for words, said in told]
        for process, said in at_once:
            assert process.wait(30) == ExitCode.MISUSED
            assert re.search(said, process.stderr.read())
