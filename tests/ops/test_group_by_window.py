import json
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, DefinitionError, StateError, TransformError
from penstock.graph.node import INFINITE, UNKNOWN
from penstock.ops.internal import group_buffer
from tests.ops.waiting import seconds_to_close


def grouped(values, key, size):
    """As the reference: full groups as they are full, then the others in the order of keys."""
    held, out = {}, []
    for value in values:
        group = held.setdefault(key(value), [])
        group.append(value)
        if len(group) == size(key(value)):
            out.append(held.pop(key(value)))
    return out + [held[k] for k in sorted(held)]


def flattened(values, key, size):
    return [value for group in grouped(values, key, size) for value in group]


def fussy(x):
    if x % 7 == 3:
        raise ValueError(f"not {x}")
    return x


def same(key, window):
    return window


def test_the_order_is_that_of_the_reference():
    values = [0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0]
    ds = Dataset.from_tensor_slices(values).group_by_window(
        lambda x: x % 2, lambda _, xs: xs.batch(4), 4
    )

    assert [x.tolist() for x in ds] == [[0] * 4, [1] * 4, [0] * 3, [1]]


def test_a_group_is_made_of_whole_elements(check_states):
    def rows(key, window):
        return window.map(lambda e: e["x"] + e["y"][1].sum()).batch(2)

    check_states(
        lambda: (
            Dataset.range(8)
            .map(lambda x: {"x": x, "y": ("text", np.arange(x))})
            .group_by_window(lambda e: e["x"] % 2, rows, 2)
        ),
        [np.array(pair) for pair in ([0, 3], [1, 6], [10, 21], [15, 28])],
    )


def test_a_window_may_be_read_twice_though_functions_write_to_its_dicts():
    def marked(e):
        e["seen"] = e.pop("x")
        return e["seen"]

    def twice(key, window):
        return window.map(marked).concatenate(window.map(marked))

    ds = Dataset.range(3).map(lambda x: {"x": x}).group_by_window(lambda e: 0, twice, 3)

    assert list(ds) == [0, 1, 2, 0, 1, 2]


def test_inner_chance_differs_from_window_to_window(check_states):
    whole = check_states(
        lambda: Dataset.range(40).group_by_window(
            lambda x: x % 2, lambda key, window: window.shuffle(5).map(lambda x: x - x % 2), 5
        )
    )
    orders = {tuple(x[1] for x in whole[i : i + 5]) for i in range(0, 40, 5)}

    assert len(orders) > 2


def test_functions_may_draw(check_states):
    check_states(
        lambda: Dataset.range(25).group_by_window(
            lambda x, *, rng: rng.integers(3),
            lambda key, window, *, rng: window.skip(int(rng.integers(2))),
            window_size_func=lambda key, *, rng: rng.integers(1, 4),
        )
    )


def test_errors_belong_to_their_elements(check_states):
    def key(x):
        if x == 4:
            raise ValueError("no key")
        return x % 2

    def reduce(key, window):
        if key == 1 and next(iter(window)) == 5:
            raise ValueError("no five")
        return window.map(fussy)

    check_states(
        lambda: Dataset.range(14).group_by_window(key, reduce, 2),
        [
            0,
            2,
            1,
            TransformError("map(fussy)", 1, "ValueError: not 3"),
            TransformError("group_by_window(key)", 4, "ValueError: no key"),
            TransformError("group_by_window(reduce)", 7, "ValueError: no five"),
            6,
            8,
            9,
            11,
            TransformError("map(fussy)", 0, "ValueError: not 10"),
            12,
            13,
        ],
    )


@pytest.mark.quick(4)
@pytest.mark.parametrize("size", [1, 2, 3, 9])
@pytest.mark.parametrize("keys", [1, 3, 5])
def test_errors_of_the_input_come_where_they_were_and_only_once(check_states, size, keys):
    check_states(
        lambda: Dataset.range(25).map(fussy).group_by_window(lambda x: x % keys, same, size)
    )


@pytest.mark.slow
@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    values=st.lists(st.integers(0, 30), max_size=30),
    sizes=st.lists(st.integers(1, 4), min_size=3, max_size=3),
    keys=st.integers(1, 3),
    far=st.integers(0, 3),
    most=st.integers(1, 4),
)
def test_any_values_come_in_the_order_of_the_model(
    check_states, monkeypatch, values, sizes, keys, far, most
):
    monkeypatch.setattr(group_buffer, "FAR", far)
    monkeypatch.setattr(group_buffer, "MOST", most)
    check_states(
        lambda: (
            Dataset.from_sequence(values)
            .map(fussy)
            .group_by_window(lambda x: x % keys, same, window_size_func=lambda key: sizes[key])
        )
    )
    kept = [x for x in values if x % 7 != 3]
    ds = Dataset.from_sequence(kept).group_by_window(
        lambda x: x % keys, same, window_size_func=lambda key: sizes[key]
    )

    assert list(ds) == flattened(kept, lambda x: x % keys, lambda key: sizes[key])


def test_a_state_is_small_and_the_functions_are_not_called_for_what_was_sorted(counted):
    def make(made, key):
        rare = Dataset.range(5000).map(made)
        return rare.group_by_window(key, lambda key, window: window.batch(10), 10)

    made, key = counted(lambda x: x), counted(lambda x: 1 if x in (7, 2500) else 0)
    it = iter(make(made, key))
    for _ in range(400):
        next(it)
    state = it.state()
    made.calls.clear()
    key.calls.clear()

    restored = make(made, key).iterator(state)

    assert next(restored).tolist() == list(range(4002, 4012))
    assert len(json.dumps(state)) < 500
    assert key.calls == list(range(4002, 4002 + len(key.calls)))
    assert made.calls[:2] == [7, 2500]
    assert min(made.calls[2:]) > 3980
    assert list(restored)[-1].tolist() == [7, 2500]


def test_the_log_of_what_came_and_went_stays_short():
    it = iter(Dataset.range(30_000).group_by_window(lambda x: x % 5, same, 4))
    run = it._reading._run

    for _ in range(20_000):
        next(it)

    assert len(run._held._log) < 2000


def test_it_reads_on_in_its_split_log(check_states, monkeypatch):
    monkeypatch.setattr(group_buffer, "FAR", 1)

    check_states(
        lambda: Dataset.range(40).group_by_window(lambda x: x % 3, same, 3),
        flattened([*range(4, 11), *range(20, 31)], lambda x: x % 3, lambda key: 3),
        logs=[[(4, 8), (8, 11), (20, 31), None]],
        streams={".0": 0},
        max_state=2000,
    )


def test_a_state_does_not_fit_a_shorter_input():
    def make(n):
        return Dataset.range(n).group_by_window(lambda x: x // 10, same, 7)

    it = iter(make(30))
    for _ in range(14):
        next(it)

    with pytest.raises(StateError, match="the input ends before element"):
        list(make(12).iterator(it.state()))


def test_a_search_for_a_group_that_gives_something_can_be_closed():
    started = threading.Event()

    def nothing(key, window):
        started.set()
        return window.take(0)

    it = iter(Dataset.counter().group_by_window(lambda x: x % 3, nothing, 2))

    seconds_to_close(it, started)


def test_an_element_that_fails_when_it_is_read_again_is_an_error_of_its_own():
    broken = set()

    def fragile(x):
        if int(x) in broken:
            raise ValueError("gone")
        return x

    def make():
        ds = Dataset.range(12).map(fragile)
        return ds.group_by_window(lambda x: x % 3, lambda key, w: w.batch(4), 4)

    it = iter(make())
    assert next(it).tolist() == [0, 3, 6, 9]
    state = it.state()
    broken.add(4)

    restored = make().iterator(state)

    with pytest.raises(TransformError, match="gone"):
        next(restored)
    assert [x.tolist() for x in restored] == [[2, 5, 8, 11], [1, 7, 10]]


def test_a_window_cannot_be_sent_anywhere():
    def leave(key, window):
        return window.distribute("parallel_epochs", "127.0.0.1:1")

    with pytest.raises((DefinitionError, TransformError), match="group_by_window"):
        list(Dataset.range(5).group_by_window(lambda x: 0, leave, 5))


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"key_func": 3, "window_size": 2}, "key_func must be callable, not 3"),
        ({"reduce_func": None, "window_size": 2}, "reduce_func must be callable, not None"),
        ({}, "give either window_size or window_size_func"),
        ({"window_size": 2, "window_size_func": abs}, "give either window_size or"),
        ({"window_size_func": 7}, "window_size_func must be callable, not 7"),
        ({"window_size": 0}, "window_size must be an integer of at least 1, not 0"),
        ({"window_size": -1}, "window_size must be an integer of at least 1, not -1"),
        ({"window_size": 2.5}, "window_size must be an integer of at least 1, not 2.5"),
    ],
)
def test_bad_arguments_are_refused_at_once(kwargs, match):
    with pytest.raises(DatasetError, match=f"^group_by_window: {match}"):
        Dataset.range(5).group_by_window(**{"key_func": abs, "reduce_func": same, **kwargs})


@pytest.mark.parametrize("key", [1.0, "1", None, np.array([1]), True, np.bool_(1), 1 << 63])
def test_a_key_must_be_an_integer(key):
    it = iter(Dataset.range(5).group_by_window(lambda x: key, same, 2))

    with pytest.raises(TransformError, match=r"element 0: .*key_func must return an integer, not"):
        next(it)


@pytest.mark.parametrize("key", [1, np.int8(1), np.array(1), np.uint64(1)])
def test_integers_of_all_kinds_are_keys(key):
    seen = Dataset.range(2).group_by_window(
        lambda x: key, lambda key, window: Dataset.from_tensors(key), 2
    )

    assert list(seen) == [1]
    assert next(iter(seen)).dtype == np.int64


@pytest.mark.parametrize("size", [0, -4, 1.5, None, True])
def test_a_size_that_is_none_belongs_to_the_element_that_asks(size):
    it = iter(
        Dataset.range(4).group_by_window(
            lambda x: x % 2, same, window_size_func=lambda key: 2 if key else size
        )
    )

    with pytest.raises(TransformError, match=r"element 0.*at least 1, but for key 0 it returned"):
        next(it)
    with pytest.raises(TransformError, match="element 2"):
        next(it)
    assert list(it) == [1, 3]


def test_what_is_no_dataset_is_an_error_of_the_group():
    it = iter(Dataset.range(4).group_by_window(lambda x: x % 2, lambda key, w: list(w), 2))

    with pytest.raises(TransformError, match=r"reduce_func must return a Dataset, not .*\(list\)"):
        next(it)


@pytest.mark.parametrize(
    ("dataset", "cardinality"),
    [
        (Dataset.range(0), 0),
        (Dataset.range(9), UNKNOWN),
        (Dataset.range(9).repeat(), INFINITE),
    ],
)
def test_how_many_there_are_only_reading_tells(dataset, cardinality):
    assert dataset.group_by_window(abs, same, 2).cardinality() == cardinality


def test_an_endless_input_is_grouped_as_it_comes():
    endless = Dataset.counter().group_by_window(lambda x: x % 3, lambda key, w: w.batch(2), 2)

    assert [x.tolist() for x in endless.take(3)] == [[0, 3], [1, 4], [2, 5]]
