"""`map(executor="process")`: as with threads, but for where the calls are made."""

from __future__ import annotations

import gc
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, DefinitionError, TransformError, Unavailable
from penstock.executors import process_pool as pools
from penstock.executors.process_pool import ProcessPool, ProcessSettings

pytestmark = pytest.mark.usefixtures("function_processes_end")


@pytest.fixture
def own_pool(monkeypatch):
    """A pool with settings of its own."""
    made = []

    def make(**settings):
        pool = ProcessPool(ProcessSettings(**settings))
        made.append(pool)
        monkeypatch.setattr(pools._pools, "pool", pool)
        return pool

    yield make
    for pool in made:
        pool.close()


def in_process(n, fn, calls=2, **kwargs):
    return Dataset.range(n).map(fn, calls, executor="process", **kwargs)


def outcomes(dataset):
    """Return elements, and the errors in between as text."""
    out, it = [], iter(dataset)
    with it:
        while True:
            try:
                out.append(next(it))
            except StopIteration:
                return out
            except TransformError as exc:
                out.append(str(exc))


def whoever(_):
    return os.getpid()


def picky(x):
    if x % 4 == 1:
        raise ValueError(f"{x} is bad")
    return x


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that in twenty seconds"
        time.sleep(0.001)


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it ended, perhaps since it was opened
        return False


@pytest.mark.slow
@pytest.mark.parametrize("calls", [None, 2])
def test_states_are_exact(check_states, calls):
    check_states(
        lambda: in_process(12, lambda x: x * 2, calls), list(range(0, 24, 2)), blocks=(1, 7)
    )


def test_errors_keep_their_places(check_states):
    outcome = check_states(lambda: in_process(10, picky).batch(2), blocks=(2,))

    assert sum(type(x).__name__ == "Failure" for x in outcome) == 3


def test_calls_that_overtake_each_other_lose_nothing(check_states):
    check_states(
        lambda: in_process(10, picky, deterministic=False),
        blocks=(3,),
        unordered=True,
        failures_again=True,
    )


def test_it_runs_elsewhere_and_processes_stay_for_the_next_iteration():
    dataset = in_process(50, whoever)

    first, second = set(map(int, dataset)), set(map(int, dataset))

    assert os.getpid() not in first
    assert len(first | second) <= 2


@pytest.mark.parametrize(
    "element",
    [
        7,
        2.5,
        "text",
        b"bytes",
        np.arange(6).reshape(2, 3).T,
        np.zeros((0, 3), np.float32),
        np.array(["a", "bc"], object),
        np.datetime64("2020-01-01"),
        {"a": (1, "x", {}), "b": np.ones((300, 400))},
        (),
    ],
    ids=str,
)
def test_elements_cross_as_they_are_both_ways(element, plain):
    source = Dataset.from_sequence([element] * 3)

    there_and_back = source.map(lambda *x: x if len(x) != 1 else x[0], 1, executor="process")

    assert list(map(plain, there_and_back)) == list(map(plain, source))


def test_elements_of_different_kinds_keep_their_order():
    def odd(x):
        return [str(x), x, {"x": np.arange(x)}, np.arange(x)][x % 4]

    assert str(list(in_process(40, odd))) == str(list(Dataset.range(40).map(odd)))


def test_arrays_may_be_written_to_on_both_sides():
    def fill(x):
        x[:] = 7
        return x

    zeros = Dataset.from_tensor_slices(np.zeros((20, 5))).map(lambda x: x.copy())
    out = list(zeros.map(fill, 2, executor="process"))
    out[0][:] = 3

    assert [x.tolist() for x in out] == [[3.0] * 5] + [[7.0] * 5] * 19


def test_a_large_element_crosses_and_its_memory_is_given_back():
    out = list(in_process(4, lambda x: np.full(3_000_000, x)))

    assert [int(x.sum()) for x in out] == [0, 3_000_000, 6_000_000, 9_000_000]
    waiting = [process for _, process in pools.pool()._idle._waiting]
    used = [os.fstat(p._made.fd).st_blocks * 512 for p in waiting]
    assert waiting
    assert sum(used) < 1 << 20


def test_random_numbers_are_those_of_threads():
    def draw(x, *, rng):
        return rng.integers(1000, size=3)

    def numbers(executor):
        dataset = Dataset.range(30).map(draw, 2, executor=executor)
        state = {"v": 1, "seed": 5, "at": None}
        return [x.tolist() for x in dataset.iterator({**iter(dataset).state(), **state})]

    assert numbers("process") == numbers("thread")


def test_a_function_may_hold_what_cannot_be_imported_elsewhere():
    table = {i: f"<{i}>" for i in range(10)}

    class Show:
        def __call__(self, x):
            return table[int(x)]

    assert list(in_process(10, Show())) == list(table.values())


def test_a_function_that_cannot_be_sent_says_what_is_wrong():
    lock = threading.Lock()

    with pytest.raises(DefinitionError, match="map"):
        next(iter(in_process(3, lambda x: lock.locked())))


def test_an_element_that_ends_its_process_is_an_error_and_a_new_one_goes_on():
    def deadly(x):
        if x == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        if x == 11:
            os._exit(3)
        if x == 14:
            raise SystemExit(4)
        return x

    out = outcomes(in_process(20, deadly))

    given = "(its input was np.int64"
    assert out[5] == f"map(deadly) failed at element 5: the process died of SIGKILL {given}(5))"
    assert out[11].endswith(f"at element 11: the process ended with exit code 3 {given}(11))")
    assert out[14] == f"map(deadly) failed at element 14: SystemExit: 4 {given}(14))"
    assert [x for x in out if not isinstance(x, str)] == [
        x for x in range(20) if x not in (5, 11, 14)
    ]


def test_a_process_that_died_while_it_waited_is_not_missed(own_pool):
    own_pool()
    dataset = in_process(3, whoever, 1)
    (first,) = set(map(int, dataset))
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not is_alive(first))

    (second,) = set(map(int, dataset))

    assert second != first


def test_an_error_has_the_traceback_of_where_it_was_raised():
    with pytest.raises(TransformError) as failed:
        list(in_process(3, picky))

    assert "in picky" in failed.value.remote_traceback
    assert "in picky" in failed.value.__notes__[-2]
    assert "ValueError: 1 is bad" in str(failed.value)


def test_a_result_that_cannot_cross_is_the_error_of_its_element():
    out = outcomes(in_process(5, lambda x: Dataset.range(2) if x == 3 else x))

    assert out[:3] + out[4:] == [0, 1, 2, 4]
    assert "failed at element 3: ElementError: a dataset inside an element" in out[3]


def test_an_element_that_cannot_cross_is_an_error_of_its_own():
    windows = Dataset.range(4).window(2)

    out = outcomes(windows.map(lambda w: 1, 2, executor="process"))

    assert len(out) == 2
    assert "failed at element 1: ElementError" in out[1]


@pytest.mark.slow
def test_a_process_above_its_cap_is_replaced(own_pool):
    own_pool(process_memory=1)
    kept = []

    def hoard(x):
        kept.append(np.ones(1 << 24, np.uint8))
        return os.getpid()

    pids = list(map(int, in_process(10, hoard, 1)))

    assert 1 < len(set(pids)) < 10
    assert sum(map(is_alive, set(pids))) <= 1


def test_the_keeper_of_a_closed_pool_ends_though_a_process_was_never_put_back(own_pool):
    pool = own_pool()
    process = pool.take("f")

    pool.close()

    wait_until(lambda: pool._keeper is None)
    assert not is_alive(process.pid)


@pytest.mark.slow
def test_processes_that_nobody_uses_end_and_so_does_their_keeper(own_pool):
    pool = own_pool(process_idle=0.05)

    pids = set(map(int, in_process(10, whoever)))

    wait_until(lambda: not any(map(is_alive, pids)))
    wait_until(lambda: pool._keeper is None)
    assert set(map(int, in_process(10, whoever))).isdisjoint(pids)


@pytest.mark.slow
def test_no_more_processes_wait_than_may(own_pool):
    own_pool(processes_idle=1)

    pids = set(map(int, in_process(400, lambda x: (time.sleep(0.001), os.getpid())[1], 3)))

    wait_until(lambda: sum(map(is_alive, pids)) <= 1)
    assert len(pids) > 1


def test_closing_ends_a_call_that_does_not_return():
    def stuck(x):
        if x == 1:
            time.sleep(60)
        return os.getpid()

    it = iter(in_process(10, stuck, 1))
    pid = int(next(it))
    began = time.monotonic()

    it.close()

    assert time.monotonic() - began < 5
    wait_until(lambda: not is_alive(pid))


def test_a_dropped_iterator_leaves_nothing_in_use(own_pool):
    pool = own_pool()
    it = iter(in_process(1000, whoever))
    next(it)

    del it
    gc.collect()

    wait_until(lambda: not pool._used)


@pytest.mark.slow
def test_a_killed_process_takes_those_along(tmp_path):
    pids = run_script(
        tmp_path,
        """
        print(*set(map(int, dataset)), flush=True)
        os.kill(os.getpid(), 9)
        """,
    )

    wait_until(lambda: not any(map(is_alive, pids)))


@pytest.mark.slow
def test_a_fork_has_processes_of_its_own(tmp_path):
    pids = run_script(
        tmp_path,
        """
        print(*set(map(int, dataset)), flush=True)
        pid = os.fork()
        if not pid:
            print(*set(map(int, dataset)), flush=True)
            sys.exit()
        os.waitpid(pid, 0)
        assert set(map(int, dataset))
        """,
    )

    assert len(pids) == 2
    wait_until(lambda: not any(map(is_alive, pids)))


@pytest.mark.slow
def test_a_fork_that_drops_its_copy_of_an_iterator_leaves_the_processes_to_its_parent(tmp_path):
    pids = run_script(
        tmp_path,
        """
        elements = iter(dataset.repeat())
        print(int(next(elements)), flush=True)
        pid = os.fork()
        if not pid:
            elements.close()
            os._exit(0)
        os.waitpid(pid, 0)
        print(int([next(elements) for _ in range(50)][-1]), flush=True)
        """,
    )

    assert len(set(pids)) == 1


def run_script(tmp_path, body):
    """Run a script without a guard for ``__main__``; return the process ids that it prints."""
    script = tmp_path / "script.py"
    head = """
    import os, sys
    from penstock import Dataset
    def whoever(x):
        return os.getpid()
    dataset = Dataset.range(5).map(whoever, 1, executor="process")
    """
    script.write_text(textwrap.dedent(head) + textwrap.dedent(body))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)], capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    return list(map(int, done.stdout.split()))


def test_a_function_that_cannot_even_be_loaded_ends_the_run():
    class Ends:
        def __reduce__(self):
            return os._exit, (5,)

        def __call__(self, x):
            return x

    with pytest.raises(Unavailable, match="ended with exit code 5 while it loaded the function"):
        list(in_process(3, Ends()))


def test_a_slow_call_does_not_hold_up_those_that_are_ready(tmp_path):
    gate = tmp_path / "open"

    def wait_for_the_gate(x):
        while x == 0 and not gate.exists():
            time.sleep(0.01)
        return x

    with iter(in_process(100, wait_for_the_gate, deterministic=False)) as it:
        head = [int(next(it)) for _ in range(90)]
        gate.touch()
        rest = [int(x) for x in it]

    assert 0 not in head
    assert sorted(head + rest) == list(range(100))


def test_an_unknown_executor_is_named():
    with pytest.raises(DatasetError, match='must be "thread" or "process", not \'fork\''):
        Dataset.range(3).map(abs, executor="fork")


def test_a_keeper_is_known_until_it_has_ended_what_it_must(monkeypatch, own_pool):
    pool = own_pool(process_idle=0.05)
    ending, go_on = threading.Event(), threading.Event()
    end = pools._end

    def slowly(processes, seconds):
        processes = list(processes)
        if processes and threading.current_thread().name == "penstock-keeper":
            ending.set()
            go_on.wait(60)
        end(processes, seconds)

    monkeypatch.setattr(pools, "_end", slowly)
    list(in_process(2, abs))

    assert ending.wait(60)
    assert pool._keeper is not None
    go_on.set()
    wait_until(lambda: pool._keeper is None)


def test_a_keeper_that_cannot_be_started_is_raised_and_tried_again(monkeypatch, own_pool):
    start = threading.Thread.start

    def refuse(thread):
        if thread.name == "penstock-keeper":
            raise RuntimeError("can't start new thread")
        start(thread)

    pool = own_pool()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="start new thread"):
                pool.take("a function")

    pool.put(pool.take("a function"))


def test_all_threads_get_processes_though_their_server_ends(own_pool):
    pool = own_pool(processes_idle=8)
    first = pool.take("")
    server = pool._server.server_pid
    got = []
    threads = [
        threading.Thread(target=lambda key: got.append(pool.take(key)), args=(str(i),))
        for i in range(4)
    ]
    os.kill(server, signal.SIGSTOP)
    for thread in threads:
        thread.start()
    time.sleep(0.1)  # they wait for the server
    os.kill(server, signal.SIGKILL)
    for thread in threads:
        thread.join()

    assert len(got) == len(threads)
    for process in (first, *got):
        pool.put(process, fit=False)


def test_the_keeper_ends_no_server_that_another_thread_has_begun_to_use(own_pool, monkeypatch):
    pool = own_pool(process_idle=0.0)
    closing, close = threading.Event(), pool._server.close

    def late(*within):
        closing.set()
        time.sleep(0.2)
        close(*within)

    first = pool.take("first")
    keeper = pool._keeper
    monkeypatch.setattr(pool._server, "close", late)
    pool.put(first)
    closing.wait()
    second = pool.take("second")
    keeper.join()

    assert second._process.poll() is None
    pool.put(second, fit=False)


@pytest.mark.parametrize("forked", [True, False])
def test_the_end_of_a_process_is_noticed_though_a_program_that_it_started_lives(
    own_pool, monkeypatch, forked
):
    def leave(_):
        os.system("sleep 5 &")  # noqa: S605, S607
        os._exit(1)

    own_pool()
    if not forked:
        list(in_process(1, int))
        monkeypatch.setenv("SOMETHING_NEW", "1")
        own_pool()
    before = time.monotonic()
    with pytest.raises(TransformError, match="exit code 1"):
        list(in_process(1, leave))
    assert time.monotonic() - before < 4
