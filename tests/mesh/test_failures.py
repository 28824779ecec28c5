"""What goes wrong on the way is said at the right place, and the mesh stays healthy."""

import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from penstock import errors
from penstock.dataset.dataset import Dataset
from penstock.service import register_dataset
from penstock_cluster import WorkerConfig
from penstock_cluster.cli.picture import picture
from penstock_cluster.cli.status import look
from penstock_cluster.local import LocalCluster
from penstock_dispatcher.config import DispatcherConfig
from tests.mesh.drivers import run_script
from tests.process_tree import below
from tests.waiting import wait_until


def test_an_exception_of_a_user_function_reaches_the_loop_behind_what_came_before(cluster):
    def fragile(x):
        if x == 500:
            raise KeyError("no such sample")
        return x

    far = iter(Dataset.range(1000).map(fragile).distribute("parallel_epochs", cluster.target))
    seen = []
    with pytest.raises(errors.TransformError) as caught:
        for x in far:
            seen.append(int(x))

    error = caught.value
    assert error.operator.startswith("map(")
    assert "fragile" in error.operator
    assert error.number == 500
    assert error.worker in {worker.address for worker in cluster.workers}
    assert "no such sample" in str(error)
    assert "in fragile" in error.remote_traceback
    assert max(seen) == 499
    far.close()
    assert len(list(Dataset.range(10).distribute("distributed_epoch", cluster.target))) == 10


def test_a_dataset_inside_an_element_cannot_be_distributed(cluster):
    far = Dataset.range(6).window(2).distribute("distributed_epoch", cluster.target)

    with pytest.raises(errors.ElementError, match="flat_map"):
        list(far)


def test_an_element_larger_than_the_message_budget_is_named_with_its_size(clusters):
    worker = WorkerConfig(limits={"max_element_bytes": 10_000})
    with clusters.own(workers=1, worker=worker) as cluster:
        far = Dataset.range(3).map(lambda i: np.zeros(int(i) * 10_000, np.uint8))

        with pytest.raises(errors.ElementTooLarge, match="max_element_bytes"):
            list(far.distribute("parallel_epochs", cluster.target))

        small = Dataset.range(3).distribute("parallel_epochs", cluster.target)
        assert len(list(small)) == 3


@pytest.mark.quick(1)
@pytest.mark.parametrize("items", [20_000, 3_000_000])
def test_a_pipeline_that_is_too_large_names_the_variable_that_is(clusters, items):
    table = np.zeros(items)

    def look_up(i):
        return table[int(i)]

    data = Dataset.range(2).map(look_up)
    small = DispatcherConfig(limits={"max_definition_bytes": 50_000, "max_message_bytes": 1 << 20})
    with clusters.own(workers=1, dispatcher=small) as cluster:
        told = "^closure variable 'table' of map.look_up. takes"
        for read in (
            lambda: list(data.distribute("parallel_epochs", cluster.target)),
            lambda: register_dataset(cluster.target, data, element_spec=None),
        ):
            with pytest.raises(errors.DefinitionTooLarge, match=told) as caught:
                read()
            assert "max_definition_bytes" in str(caught.value)


def test_a_runner_that_dies_is_reported_with_its_signal_and_the_worker_lives(cluster):
    def crash(x):
        if x == 3:
            os.kill(os.getpid(), signal.SIGSEGV)
        return x

    with pytest.raises(errors.TransformError, match="SIGSEGV"):
        list(Dataset.range(10).map(crash).distribute("distributed_epoch", cluster.target))

    assert all(worker.running for worker in cluster.workers)
    assert len(list(Dataset.range(10).distribute("distributed_epoch", cluster.target))) == 10


def test_runners_end_with_a_killed_worker_even_in_the_middle_of_user_code(clusters):
    def stuck(x):
        while True:
            pass

    with clusters.own(workers=1) as cluster:
        far = iter(Dataset.range(10).map(stuck).distribute("parallel_epochs", cluster.target))

        def read():
            with suppress(errors.Closed):
                next(far)

        reading = threading.Thread(target=read, daemon=True)
        reading.start()
        wait_until(lambda: len(below(cluster.workers[0].pid)) >= 1)
        processes = below(cluster.workers[0].pid)

        cluster.workers[0].kill()

        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in processes), seconds=5)
        far.close()
        reading.join(5)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "copies"), [("parallel_epochs", 2), ("distributed_epoch", 1)])
def test_a_worker_that_is_killed_in_mid_pass_takes_nothing_along(clusters, mode, copies):
    def slow(x):
        time.sleep(0.001)
        return x

    dispatcher = DispatcherConfig(worker_timeout=2.0)
    with clusters.own(workers=2, dispatcher=dispatcher) as cluster:
        far = iter(Dataset.range(800).map(slow).distribute(mode, cluster.target))
        seen = [int(next(far)) for _ in range(50)]

        cluster.workers[0].kill()
        longest = 0.0
        asked = time.monotonic()
        for element in far:
            longest = max(longest, time.monotonic() - asked)
            seen.append(int(element))
            asked = time.monotonic()

    assert sorted(seen) == sorted(list(range(800)) * copies)
    assert longest < 2.0 + 1.0


@pytest.mark.slow
def test_a_module_that_workers_do_not_have_is_named_in_the_caller(cluster, tmp_path):
    installed = tmp_path / "lib" / "only_here-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Name: only-here\nVersion: 1.0\n")
    (installed / "RECORD").write_text("only_here.py,,\n")
    (installed / "top_level.txt").write_text("only_here\n")
    (tmp_path / "lib" / "only_here.py").write_text("def f(x):\n    return x\n")
    shown = run_script(
        tmp_path,
        f"""
        import sys
        sys.path.insert(0, {str(tmp_path / "lib")!r})
        import only_here
        from penstock import Dataset, errors
        far = Dataset.range(3).map(only_here.f).distribute("distributed_epoch", "{cluster.target}")
        try:
            list(far)
        except errors.DefinitionError as exc:
            print("told:", exc)
        """,
    )

    assert "told:" in shown.stdout
    assert "'only_here'" in shown.stdout
    assert "install it on the workers" in shown.stdout


@pytest.mark.slow
def test_a_script_without_a_main_guard_runs_once_and_its_own_modules_travel(clusters, tmp_path):
    clusters.close()
    (tmp_path / "own_code.py").write_text("FACTOR = 3\n\ndef triple(x):\n    return x * FACTOR\n")
    shown = run_script(
        tmp_path,
        """
        print("begin")
        import own_code
        from penstock import Dataset
        from penstock_cluster import LocalCluster
        with LocalCluster(workers=1) as cluster:
            far = Dataset.range(5).map(own_code.triple)
            print([int(x) for x in far.distribute("parallel_epochs", cluster.target)])
        """,
        cwd="/",
    )

    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines() == ["begin", "[0, 3, 6, 9, 12]"]


@pytest.mark.slow
def test_ctrl_c_in_next_ends_the_script_at_once(cluster, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import time
            from penstock import Dataset
            far = iter(Dataset.range(3).map(lambda x: time.sleep(600)).distribute(
                "parallel_epochs", "{cluster.target}"))
            print("reading", flush=True)
            next(far)
            """
        )
    )
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "reading\n"
            time.sleep(1.0)
            began = time.monotonic()

            process.send_signal(signal.SIGINT)
            process.wait(10)
            took = time.monotonic() - began

            assert "KeyboardInterrupt" in process.stderr.read()
            assert took < 3  # less than any of the waits that could be in the way
        finally:
            process.kill()


@pytest.mark.slow
def test_nobody_at_the_address_is_an_error_that_names_it_in_time(nothing_left):
    far = Dataset.range(3).distribute("parallel_epochs", "127.0.0.1:1", timeout=1.0)
    began = time.monotonic()

    with pytest.raises(errors.Unavailable, match="127.0.0.1:1"):
        list(far)

    assert time.monotonic() - began < 3


@pytest.mark.slow
def test_a_dispatcher_without_workers_is_an_error_that_says_so(clusters):
    with clusters.own(workers=0) as cluster:
        far = Dataset.range(3).distribute("parallel_epochs", cluster.target, timeout=1.0)

        with pytest.raises(errors.WaitedTooLong, match="worker"):
            list(far)


def test_an_iterator_that_is_closed_dropped_or_left_leaves_nothing(cluster, nothing_left):
    def far():
        return iter(Dataset.range(10**6).distribute("parallel_epochs", cluster.target))

    closed = far()
    next(closed)
    began = time.monotonic()
    closed.close()
    dropped = far()
    next(dropped)
    del dropped
    with far() as left:
        next(left)

    assert time.monotonic() - began < 3
    with pytest.raises(errors.Closed):
        next(closed)


@pytest.mark.slow
def test_workers_that_join_take_part(clusters):
    def slow(x):
        time.sleep(0.001)
        return int(x), os.getpid()

    with clusters.own(workers=1) as cluster:
        far = iter(Dataset.range(2500).map(slow).distribute("distributed_epoch", cluster.target))
        seen = [next(far) for _ in range(100)]
        cluster.add_worker()
        seen += list(far)

    assert sorted(int(x) for x, _ in seen) == list(range(2500))
    assert len({int(pid) for _, pid in seen}) == 2


def test_members_can_be_killed_terminated_and_restarted_in_place(clusters):
    with clusters.own(workers=1) as cluster:
        worker, address = cluster.workers[0], cluster.workers[0].address
        worker.kill()
        worker.kill()
        assert not worker.running
        assert worker.pid is None

        worker.restart()

        assert worker.running
        assert worker.address == address
        far = Dataset.range(5).distribute("parallel_epochs", cluster.target)
        assert [int(x) for x in far] == [0, 1, 2, 3, 4]
        worker.terminate()
        worker.terminate()
        assert not worker.running


@pytest.mark.slow
def test_a_cluster_ends_with_the_process_that_started_it(clusters, tmp_path):
    clusters.close()
    shown = run_script(
        tmp_path,
        """
        import os, signal
        from penstock_cluster import LocalCluster
        cluster = LocalCluster(workers=1)
        cluster.start()
        print(cluster.dispatcher.pid, cluster.workers[0].pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )

    pids = [int(pid) for pid in shown.stdout.split()]
    assert len(pids) == 2
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


@pytest.mark.parametrize("workers", [-1, "two", True])
def test_a_cluster_needs_a_number_of_workers(workers):
    with pytest.raises(errors.ConfigError, match="workers"):
        LocalCluster(workers=workers)


def test_a_worker_that_cannot_start_is_named(clusters):
    with pytest.raises(errors.ConfigError, match="worker 0"):
        with clusters.own(workers=1, worker=WorkerConfig(host="no.such.host.invalid")):
            pass


@pytest.mark.slow
def test_what_runs_where_no_reader_comes_goes_on_elsewhere(clusters, caplog):
    dispatcher = DispatcherConfig(worker_timeout=1.5, heartbeat_interval=0.5)
    with clusters.own(workers=1, dispatcher=dispatcher) as cluster:
        cluster._worker_config = replace(cluster._worker_config, worker_address="127.0.0.1:9")
        cluster.add_worker()
        by_network = {"data_transfer_protocol": "grpc", "timeout": 10}
        it = iter(Dataset.range(500).distribute("distributed_epoch", cluster.target, **by_network))

        got = [int(next(it)) for _ in range(499)]
        screen = Console(file=io.StringIO(), width=200)
        screen.print(picture(look(cluster.target)))
        (missed,) = (w for w in look(cluster.target).stats.workers if w.address == "127.0.0.1:9")
        got += map(int, it)

    assert sorted(got) == list(range(500))
    assert "unreachable for 1 reader" in screen.file.getvalue()
    assert missed.unreachable == 1
    assert not missed.tasks
    assert any("worker 127.0.0.1:9 does not answer" in line for line in caplog.messages)


def all_came(elements, count):
    ((_, session),) = elements._reading._sessions.live()
    streams = session.core.tasks.values()
    return sum(stream.acked.floor + len(stream.buffered) for stream in streams) == count


def test_what_a_reader_read_that_leaves_while_dispatcher_and_worker_are_away_comes_once(caplog):
    with LocalCluster(workers=1) as cluster:
        name = "left while all were away"

        def job():
            return Dataset.range(2000).distribute(
                "distributed_epoch", cluster.target, name, on_finished="ignore"
            )

        with job().iterator() as elements:
            first = [int(next(elements)) for _ in range(5)]
            wait_until(lambda: all_came(elements, 2000))
            cluster.dispatcher.kill()
            cluster.workers[0].kill()
            first += [int(next(elements)) for _ in range(400)]

        cluster.dispatcher.restart()
        cluster.workers[0].restart()
        with job().iterator() as elements:
            rest = [int(x) for x in elements]

    assert sorted(first + rest) == list(range(2000))
    (said,) = [line for line in caplog.messages if "a reader that leaves" in line]
    assert "elements that were read here" in said
