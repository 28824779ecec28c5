import threading
import time
from typing import Any, NamedTuple

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.errors import DatasetError, TransformError
from penstock.executors.function import UserFunction
from penstock.graph.run import open_root


class Point(NamedTuple):
    x: Any
    y: Any


def double(x):
    return x * 2


def picky(x):
    if x % 4 in (0, 3):
        raise ValueError(f"not {x}")
    return x


PICKED = [
    TransformError("map(picky)", i, f"ValueError: not {i}") if i % 4 in (0, 3) else i
    for i in range(13)
]


def test_parallel_calls_that_overtake_each_other_lose_nothing(check_states):
    def uneven(x):
        time.sleep(0.002 * (x % 3 == 0))
        return x

    check_states(
        lambda: Dataset.range(13).map(uneven, num_parallel_calls=3, deterministic=False),
        list(range(13)),
        unordered=True,
        blocks=(1, 5),
    )


@pytest.mark.parametrize("calls", [None, 3])
def test_an_error_belongs_to_its_element(check_states, calls):
    check_states(lambda: Dataset.range(13).map(picky, num_parallel_calls=calls), PICKED)


@pytest.mark.parametrize("calls", [None, 2])
def test_errors_of_two_maps_keep_their_places(check_states, calls):
    def odd(x):
        if x == 5:
            raise KeyError("five")
        return x + 1

    check_states(
        lambda: Dataset.range(9).map(picky, calls).map(odd, calls),
        [
            TransformError("map(picky)", 0, "ValueError: not 0"),
            2,
            3,
            TransformError("map(picky)", 3, "ValueError: not 3"),
            TransformError("map(picky)", 4, "ValueError: not 4"),
            TransformError("map(odd)", 2, "KeyError: 'five'"),
            7,
            TransformError("map(picky)", 7, "ValueError: not 7"),
            TransformError("map(picky)", 8, "ValueError: not 8"),
        ],
    )


def test_errors_that_overtake_each_other_lose_no_element(check_states):
    check_states(
        lambda: Dataset.range(13).map(picky, num_parallel_calls=3, deterministic=False),
        PICKED,
        unordered=True,
    )


def test_a_user_error_is_chained_from_the_original():
    it = iter(Dataset.range(3).map(picky))

    with pytest.raises(TransformError, match=r"map\(picky\) failed at element 0") as caught:
        next(it)

    assert isinstance(caught.value.__cause__, ValueError)
    assert "in picky" in caught.value.remote_traceback


@pytest.mark.parametrize("calls", [None, 2])
def test_a_result_that_is_no_element_is_the_error_of_its_element(check_states, calls):
    def none_of_three(x):
        return None if x == 3 else x

    whole = check_states(lambda: Dataset.range(6).map(none_of_three, calls))

    assert whole[3].text.startswith("map(none_of_three) failed at element 3: ElementError")
    assert len(whole) == 6


@pytest.mark.parametrize("calls", [None, 2])
def test_a_restored_map_calls_the_function_for_no_element_already_returned(counted, calls):
    fn = counted(double)
    it = iter(Dataset.range(100).map(fn, calls))
    for _ in range(40):
        next(it)
    state = it.state()
    it.close()
    fn.calls.clear()

    with Dataset.range(100).map(fn, calls).iterator(state) as it:
        assert next(it) == 80

    assert min(fn.calls) == 40


@pytest.mark.parametrize("calls", [None, 3])
def test_to_skip_calls_nothing(counted, calls):
    fn = counted(double)
    run = open_root(Dataset.range(100).map(fn, calls).node, Context.local(1))

    assert run.skip(90) == 90
    assert fn.calls == []
    assert run.block(1) == [180]
    run.close()


def test_to_skip_does_not_count_what_was_returned_before_a_restore():
    node = Dataset.range(10).map(double, 2, deterministic=False).node
    run = open_root(node, Context.local(1), [1, [1], [[2, 4], [6, 7]]])

    assert run.skip(4) == 4
    assert run.skip(9) == 2
    run.close()


def test_to_skip_passes_over_calls_that_are_made():
    done = threading.Semaphore(0)

    def signal(x):
        done.release()
        return x

    run = open_root(Dataset.range(4).map(signal, 4, deterministic=False).node, Context.local(1))
    (first,) = run.block(1)
    for _ in range(4):
        assert done.acquire(timeout=20)

    assert run.skip(2) == 2
    (last,) = run.block(9)
    assert run.block(9) == []
    assert first != last
    run.close()


def test_a_tuple_is_unpacked_and_nothing_else_is():
    pairs = Dataset.from_tensor_slices(([1, 2], [3, 4]))

    assert list(pairs.map(lambda a, b: a + b)) == [4, 6]
    assert list(pairs.map(Point).map(lambda p: p.x * p.y)) == [3, 8]
    assert list(pairs.map(lambda a, b: {"a": a}).map(lambda d: d["a"])) == [1, 2]
    assert list(pairs.map(lambda *both: both)) == [(1, 3), (2, 4)]


@pytest.mark.parametrize("calls", [None, 4])
@pytest.mark.parametrize("ordered", [True, False])
def test_random_numbers_depend_on_the_element_alone(calls, ordered):
    def noise(x, *, rng):
        return x, rng.integers(1 << 30)

    dataset = Dataset.range(50).map(noise, calls, ordered)
    plain = Dataset.range(50).map(noise)
    with plain.iterator() as it:
        state = it.state()

    expected = list(plain.iterator(state))

    assert sorted(dataset.iterator(state)) == expected
    assert len({number for _, number in expected}) == 50


def test_each_pass_of_a_repeat_has_random_numbers_of_its_own():
    passes = list(Dataset.range(4).map(lambda x, *, rng: rng.integers(1 << 30)).repeat(2))

    assert len(set(passes)) == 8


def test_a_function_without_a_signature_can_be_used():
    assert list(Dataset.range(3).map(np.sqrt).map(float)) == [0.0, 1.0, 2.0**0.5]


def test_a_state_of_parallel_calls_fits_the_serial_map():
    parallel = Dataset.range(20).map(double, 4, deterministic=False)
    with parallel.iterator() as it:
        head = [next(it) for _ in range(7)]
        state = it.state()

    tail = list(Dataset.range(20).map(double).iterator(state))

    assert sorted(head + tail) == [2 * i for i in range(20)]


def test_a_slow_call_that_others_overtake_keeps_the_state_small():
    gate = threading.Event()

    def wait_for_the_gate(x):
        if x == 0:
            gate.wait(20)
        return x

    make = lambda: Dataset.range(500).map(wait_for_the_gate, 3, deterministic=False)
    with make().iterator() as it:
        head = [next(it) for _ in range(400)]
        state = it.state()
        gate.set()

    assert 0 not in head
    assert len(str(state)) < 300
    assert sorted(head + list(make().iterator(state))) == list(range(500))


def test_calls_run_at_the_same_time():
    together = threading.Barrier(4, timeout=20)

    def meet(x):
        time.sleep(0.002)  # calls that take less are made several at a time
        together.wait()
        return x

    assert list(Dataset.range(8).map(meet, num_parallel_calls=4)) == list(range(8))


def test_no_more_calls_are_made_ahead_than_asked_for(counted):
    fn = counted(double)
    with iter(Dataset.range(1000).map(fn, num_parallel_calls=4)) as it:
        for _ in range(10):
            next(it)
        taken_at_most = 10 + 256  # a block that was asked for is not yet handed out

        assert len(fn.calls) <= taken_at_most + 4


@pytest.mark.parametrize("ordered", [True, False])
def test_closing_does_not_wait_for_a_call_that_is_stuck(ordered):
    gate, began = threading.Event(), threading.Event()

    def stuck(x):
        if x == 3:
            began.set()
            gate.wait(20)
        return x

    it = iter(Dataset.range(100).map(stuck, 2, ordered))
    next(it)
    next(it)
    assert began.wait(20)
    start = time.monotonic()

    it.close()

    assert time.monotonic() - start < 1
    gate.set()


def test_closing_ends_all_threads():
    before = set(threading.enumerate())
    it = iter(Dataset.range(1000).map(double, 3).map(double, 2, deterministic=False))
    next(it)

    it.close()

    assert _new_threads(before) == []


def test_dropping_the_iterator_ends_all_threads():
    before = set(threading.enumerate())
    it = iter(Dataset.range(1000).map(double, 3))
    next(it)

    del it

    assert _new_threads(before) == []


def _new_threads(before):
    deadline = time.monotonic() + 10
    while (new := set(threading.enumerate()) - before) and time.monotonic() < deadline:
        next(iter(new)).join(0.1)
    return list(new)


def test_a_generator_that_waits_for_its_consumer_feeds_parallel_calls():
    taken = threading.Semaphore(1)

    def one_at_a_time():
        for i in range(5):
            assert taken.acquire(timeout=20)
            yield i

    got = []
    for x in Dataset.from_generator(one_at_a_time).map(double, num_parallel_calls=3):
        got.append(x)
        taken.release()

    assert got == [0, 2, 4, 6, 8]


def test_a_call_that_ends_its_thread_is_an_error_like_others():
    def leave(x):
        raise SystemExit(3)

    with iter(Dataset.range(3).map(leave, 2)) as it, pytest.raises(TransformError, match="Exit: 3"):
        next(it)


def test_a_call_that_ends_its_thread_takes_no_other_element_along():
    def leave(x):
        if x == 700:
            raise SystemExit(3)
        return x

    out = []
    run = open_root(Dataset.range(1000).map(leave, 2).node, Context.local(1))
    with pytest.raises(TransformError, match="element 700: SystemExit: 3"):
        while True:
            out += run.block(64)
    while block := run.block(64):
        out += block
    run.close()

    assert out == [x for x in range(1000) if x != 700]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("f",), "map_func must be callable, not 'f'"),
        ((double, 0), "num_parallel_calls must be an integer of at least 1, not 0"),
        ((double, 1.5), "num_parallel_calls must be an integer of at least 1, not 1.5"),
    ],
)
def test_bad_arguments_are_named(args, words):
    with pytest.raises(DatasetError, match=f"map: {words}"):
        Dataset.range(3).map(*args)


@pytest.mark.parametrize("calls", [None, 2])
def test_an_error_whose_text_cannot_be_had_takes_nothing_with_it(calls):
    class Mute(Exception):
        def __str__(self):
            raise LookupError("no words")

    def fail_at_one(x):
        if x == 1:
            raise Mute
        return x

    with iter(Dataset.range(3).map(fail_at_one, calls)) as it:
        assert next(it) == 0
        with pytest.raises(TransformError, match=r"element 1: Mute: .*cannot be had: LookupError"):
            next(it)
        assert next(it) == 2


def threads_that_cannot_be_had(monkeypatch, name, behind=0):
    """Let the system have no room for threads of this name, but for the first few."""
    start, had = threading.Thread.start, []

    def refuse(thread):
        if thread.name == name:
            if len(had) == behind:
                raise RuntimeError("can't start new thread")
            had.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    return had


def test_threads_that_cannot_be_started_are_missing_and_the_others_make_everything(monkeypatch):
    had = threads_that_cannot_be_had(monkeypatch, "penstock-map", 2)

    assert list(Dataset.range(50).map(double, 8)) == [2 * i for i in range(50)]
    assert len(had) == 2


@pytest.mark.parametrize("others", [0, 1])
def test_without_a_single_thread_that_is_raised_and_nobody_waits(monkeypatch, others):
    threads_that_cannot_be_had(monkeypatch, "penstock-map", others)

    with iter(Dataset.range(50).map(double, 8)) as it:
        with pytest.raises(RuntimeError, match="start new thread"):
            next(it)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_call_that_cannot_be_copied_for_a_thread_is_raised_and_nobody_waits(monkeypatch, ordered):
    def broken(_call):
        raise MemoryError("no room")

    monkeypatch.setattr(UserFunction, "copy", broken)
    with iter(Dataset.range(50).map(double, 3, deterministic=ordered)) as it:
        with pytest.raises(MemoryError, match="no room"):
            next(it)


def test_a_mark_that_cannot_be_had_is_raised_and_nobody_waits(monkeypatch):
    with iter(Dataset.range(50).map(double, 3)) as it:
        run = it._reading._run

        def broken():
            raise MemoryError("no room")

        monkeypatch.setattr(run._upstream, "mark", broken)
        with pytest.raises(MemoryError, match="no room"):
            next(it)
