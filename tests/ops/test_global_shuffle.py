"""`global_shuffle`: its order, its seeds, what it is refused behind, and splits of it."""

from __future__ import annotations

import contextlib
import gc
import json
import random
import sys
import time
import weakref
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from penstock.analysis.index_selection import selected
from penstock.analysis.sharding import assignments, split_providers
from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.engine.draws import Permutation
from penstock.engine.splits import SplitReader
from penstock.errors import DatasetError, StateError, TransformError
from penstock.graph.run import open_root
from tests.analysis.dealt_splits import deal
from tests.sent_definitions import travelled

LETTERS = "abcdefghijklmnopqrstuvw"
ROWS = {"x": np.arange(23), "y": np.arange(46).reshape(23, 2), "z": list(LETTERS)}


class Items:
    """A sequence of which some items cannot be had."""

    def __init__(self, size, *bad):
        self.size, self.bad = size, bad

    def __len__(self):
        return self.size

    def __getitem__(self, number):
        if number in self.bad:
            raise OSError(f"{number} is lost")
        return number


def in_order(values, seed):
    """Return *values* in the order that *seed* says."""
    values = list(values)
    return [values[i] for i in Permutation(seed, len(values)).at(np.arange(len(values)))]


NUMBERS = Dataset.range(23)


@pytest.mark.quick(9)
@pytest.mark.parametrize(
    "ds",
    [
        NUMBERS,
        Dataset.range(40, -6, -2),
        Dataset.range(1),
        Dataset.range(0),
        Dataset.from_tensors({"a": np.arange(3)}),
        Dataset.from_sequence(LETTERS),
        Dataset.from_tensor_slices(ROWS),
        Dataset.from_tensor_slices((ROWS["y"], ROWS["x"])),
        Dataset.from_tensor_slices({"deep": (ROWS["y"], {"z": ROWS["z"]})}),
        NUMBERS.take(9),
        NUMBERS.take(-1).skip(4),
        NUMBERS.skip(-1),
        NUMBERS.shard(4, 3).skip(1),
        NUMBERS.enumerate(5).shard(2, 1),
        Dataset.zip(NUMBERS, Dataset.from_sequence(LETTERS[:11])),
        Dataset.zip({"n": NUMBERS, "rows": Dataset.from_tensor_slices(ROWS).skip(2)}),
        NUMBERS.concatenate(Dataset.from_sequence(LETTERS)).skip(20),
        Dataset.range(0).concatenate(NUMBERS).concatenate(Dataset.range(0)),
        NUMBERS.prefetch(2).map(lambda x: x * 2).assert_cardinality(23),
        NUMBERS.skip(1).map(lambda x: x * 2).shard(2, 1).prefetch(2).take(7).map(lambda x: x + 1),
    ],
)
def test_elements_of_an_index_come_in_the_order_of_the_seed_from_every_state(check_states, ds):
    check_states(lambda: ds.global_shuffle(seed=3), in_order(ds, 3), max_state=200)

    assert ds.global_shuffle().cardinality() == ds.cardinality()


def test_the_order_of_a_seed_is_the_same_for_ever():
    def shown(ds):
        return " ".join(str(x) for x in ds)

    assert shown(Dataset.range(10).global_shuffle(seed=1)) == "2 3 0 4 7 9 5 8 6 1"
    assert shown(Dataset.range(10**9).global_shuffle(seed=-5).take(4)) == (
        "543536868 605044216 804194901 200446237"
    )
    assert shown(Dataset.range(5).global_shuffle(seed=1).repeat(3)) == (
        "4 1 2 3 0 3 4 0 1 2 1 4 0 2 3"
    )


def test_operators_behind_it_go_on_from_every_state(check_states):
    outcome = check_states(
        lambda: NUMBERS.global_shuffle(seed=2).map(lambda x, *, rng: (x, rng.random())).batch(4)
    )

    assert len(outcome) == 6


def test_a_function_before_it_runs_behind_it(counted):
    fn = counted(lambda x: x)
    dataset = Dataset.range(10**9).map(fn, num_parallel_calls=2).global_shuffle(seed=2).take(3)

    numbers = [int(x) for x in dataset]

    assert numbers == [int(x) for x in Dataset.range(10**9).global_shuffle(seed=2).take(3)]
    assert set(numbers) <= set(fn.calls)


@pytest.mark.parametrize("size", [5000, 2**40])
def test_it_goes_on_anywhere_from_a_state_of_few_bytes(size):
    dataset = Dataset.range(size).global_shuffle(seed=8)
    expected = Permutation(8, size).at(np.arange(5000)).tolist()

    with iter(dataset) as it:
        states = {0: it.state()}
        for n in range(1, 5000):
            assert next(it) == expected[n - 1]
            if n % 611 == 0 or n in (4095, 4096, 4097):
                states[n] = it.state()

    assert max(len(json.dumps(state)) for state in states.values()) < 200
    for n, state in states.items():
        with dataset.iterator(state) as it:
            assert [int(x) for _, x in zip(range(5000 - n), it, strict=False)] == expected[n:]


def test_without_a_seed_each_iterator_has_an_order_of_its_own_and_a_state_keeps_it():
    dataset = Dataset.range(5000).global_shuffle()
    with iter(dataset) as it:
        state = it.state()
        first = list(it)

    assert first != list(dataset)
    assert first == list(dataset.iterator(state))
    assert Counter(first) == Counter(range(5000))


@pytest.mark.parametrize("seed", [None, 4])
def test_passes_have_orders_of_their_own_unless_the_user_asks_for_one(check_states, seed):
    first = check_states(lambda: Dataset.range(9).global_shuffle(seed).repeat(3))
    same = check_states(lambda: Dataset.range(9).global_shuffle(seed, False).repeat(3))

    assert first[:9] != first[9:18] != first[18:]
    assert sorted(first[:9]) == sorted(first[9:18]) == sorted(first[18:])
    assert same[:9] == same[9:18] == same[18:]


def test_two_of_them_without_a_seed_have_different_orders():
    left = right = Dataset.range(1000).global_shuffle()

    pairs = [(int(a), int(b)) for a, b in Dataset.zip(left, right)]

    assert sum(a == b for a, b in pairs) < 100


def test_the_first_element_of_a_thousand_millions_comes_at_once():
    began = time.process_time()
    with iter(Dataset.range(10**9).global_shuffle()) as it:
        next(it)

    assert time.process_time() - began < 0.05


def test_rows_of_arrays_are_not_copied_and_cannot_be_written_to():
    images = np.zeros((5, 4, 4))

    for image in Dataset.from_tensor_slices(images).global_shuffle():
        assert np.shares_memory(image, images)
        assert not image.flags.writeable


@pytest.mark.parametrize(
    ("ds", "words"),
    [
        (NUMBERS.batch(2), r"batch stands between .* before batch, right after the source"),
        (NUMBERS.batch(2).map(len).prefetch(1), r"put global_shuffle before batch"),
        (NUMBERS.filter(bool), r"before filter\(bool\), .*; or use shuffle\(buffer_size\)\n"),
        (NUMBERS.repeat(2), "before repeat"),
        (NUMBERS.shuffle(3), "before shuffle"),
        (NUMBERS.global_shuffle(), "before global_shuffle"),
        (NUMBERS.cache(), r"cache has no index, and .* use shuffle\(buffer_size\) after it\n"),
        (Dataset.csv(["a"]), r"csv has no index, .*: use shuffle\(buffer_size\); or"),
        (Dataset.csv(["a"]).batch(2).take(3), "csv has no index"),
        (Dataset.counter().take(3), "counter has no index"),
        (Dataset.from_generator(lambda: iter("ab")), r"from_generator.* has no index"),
        (Dataset.list_files("*.txt", shuffle=False), "list_files comes in random order by itself"),
        (NUMBERS.distribute("distributed_epoch", "a:1"), "put global_shuffle before distribute"),
        (
            Dataset.zip(NUMBERS.map(abs), NUMBERS),
            r"map\(abs\) stands between .*: zip the sources first, put global_shuffle after that",
        ),
        (NUMBERS.concatenate(NUMBERS.batch(2)), "concatenate the sources first"),
        (Dataset.range(-(2**63), 2**63 - 1), "at the most, and range has 18446744073709551615"),
    ],
)
def test_what_has_no_index_is_refused_at_once_with_the_way_out(ds, words):
    with pytest.raises(DatasetError, match=f"^global_shuffle: .*{words}"):
        ds.global_shuffle()


@pytest.mark.parametrize("seed", [1.5, "a", True])
def test_bad_seeds_are_named(seed):
    with pytest.raises(DatasetError, match="global_shuffle: seed must be an integer or None, not"):
        NUMBERS.global_shuffle(seed)


def test_a_state_of_another_size_is_refused():
    with iter(Dataset.range(50).global_shuffle(seed=1)) as it:
        next(it)
        state = it.state()

    with pytest.raises(StateError, match="there were 50 elements .* now there are 51"):
        Dataset.range(51).global_shuffle(seed=1).iterator(state)


@pytest.mark.parametrize("at", [[], [3], [3, 50, 50], ["a", 50], 7, [51, 50], [3, "x" * 10**6]])
def test_a_state_that_is_none_is_refused(at):
    dataset = Dataset.range(50).global_shuffle(seed=1)
    state = {**iter(dataset).state(), "at": at}

    with pytest.raises(StateError) as caught:
        dataset.iterator(state)
    assert len(str(caught.value)) < 1000


def test_a_worker_builds_one_over_hundreds_of_operators_again():
    dataset = Dataset.range(1000)
    for _ in range(900):
        dataset = dataset.skip(1)
    node = dataset.global_shuffle(seed=1).node
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # a worker has not built any of it yet
    try:
        again = travelled(node)
    finally:
        sys.setrecursionlimit(before)

    assert again.cardinality == 100


def test_hundreds_of_sources_have_one_index():
    dataset = Dataset.range(2)
    for n in range(1, 500):
        dataset = dataset.concatenate(Dataset.range(2 * n, 2 * n + 2))

    assert list(dataset.global_shuffle(seed=1)) == in_order(range(1000), 1)


# --- errors ---


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dataset.from_sequence(Items(23, 4, 5, 17)),
        lambda: Dataset.from_sequence(Items(23, 4, 5, 17)).enumerate(),
        lambda: Dataset.zip(
            Dataset.from_sequence(Items(23, 4, 17)), NUMBERS, Dataset.from_sequence(Items(23, 5))
        ),
        lambda: Dataset.from_sequence(Items(10, 4, 5)).concatenate(
            Dataset.from_sequence(Items(13, 7))
        ),
    ],
)
def test_items_that_cannot_be_had_fail_in_their_places_from_every_state(check_states, make):
    outcome = check_states(lambda: make().global_shuffle(seed=5))

    failed = [n for n, element in enumerate(outcome) if type(element).__name__ == "Failure"]
    lost = [n for n, number in enumerate(in_order(range(23), 5)) if number in (4, 5, 17)]
    assert failed == lost


def test_an_error_names_the_item():
    dataset = Dataset.from_sequence(Items(9, 6)).global_shuffle(seed=5)

    with pytest.raises(TransformError, match=r"from_sequence\(Items\)") as caught:
        list(dataset)
    assert caught.value.number == 6


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dataset.from_sequence(Items(9, *range(9))).enumerate(),
        lambda: Dataset.zip(NUMBERS, Dataset.from_sequence(Items(9, *range(9)))),
        lambda: Dataset.from_sequence(Items(9, *range(9))).concatenate(NUMBERS.take(0)),
    ],
)
def test_an_error_does_not_keep_a_dropped_iterator_alive(make):
    run = open_root(make().global_shuffle().node, Context.local(1))
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            with contextlib.suppress(TransformError):
                run.block(2)
        dropped = weakref.ref(run)

        del run

        assert dropped() is None
    finally:
        gc.enable()


# --- splits ---


def read_by_tasks(ds, job_seed, deal_seed, tasks=3):
    """Return what each of *tasks* tasks makes of splits that are dealt at random."""
    streams = split_providers(ds.node)
    logs = [deal(random.Random(deal_seed), stream, tasks, 9) for stream in streams]
    made = []
    for task in range(tasks):
        splits = SplitReader(lambda stream, at, task=task: logs[stream][task][at])
        context = replace(
            Context.local(job_seed, task), splits=splits, providers=assignments(streams)
        )
        run, out = open_root(selected(ds.node), context), []
        while block := run.block(5):
            out += block
        made.append(out)
    return made


@pytest.mark.parametrize("seed", [None, 6])
@pytest.mark.parametrize(
    "build",
    [
        lambda ds: ds,
        lambda ds: ds.take(60),
        lambda ds: ds.skip(13).shard(3, 1),
        lambda ds: ds.map(lambda x: x + 1).skip(3).take(40),
    ],
)
def test_tasks_draw_places_of_one_order(seed, build):
    ds = build(Dataset.range(100).global_shuffle(seed))

    for job_seed in range(5):
        dealt = [read_by_tasks(ds, job_seed, deal_seed) for deal_seed in range(2)]

        one, other = (sorted(int(x) for part in made for x in part) for made in dealt)
        assert one == other
        assert len(set(one)) == len(one) == ds.cardinality()


@pytest.mark.parametrize("seed", [None, 6])
def test_tasks_have_the_same_order_in_the_same_pass(seed):
    ds = Dataset.range(50).global_shuffle(seed).take(10).repeat(4)

    made = read_by_tasks(ds, 1, 2)
    firsts = Counter(int(x) for part in made for x in part)
    alone = Counter(int(x) for part in read_by_tasks(ds, 1, 2, tasks=1) for x in part)

    assert firsts == alone
    assert len(firsts) > 10  # passes differ


def test_numbers_before_and_behind_it_are_those_of_the_index_and_of_the_order():
    ds = Dataset.from_sequence(LETTERS).enumerate().global_shuffle(seed=6).enumerate()

    made = [element for part in read_by_tasks(ds, 1, 2) for element in part]

    expected = in_order(enumerate(LETTERS), 6)
    assert sorted((int(n), int(i), x) for n, (i, x) in made) == [
        (n, i, x) for n, (i, x) in enumerate(expected)
    ]


def test_batches_are_the_same_whoever_makes_them():
    ds = Dataset.range(50).map(lambda x: x * 2).global_shuffle(seed=6).batch(8)

    made = [batch.tolist() for part in read_by_tasks(ds, 1, 2) for batch in part]

    assert sorted(made) == sorted(batch.tolist() for batch in ds)
    assert "sees" not in str(ds.visitation())


def test_a_position_in_a_split_log_is_exact(check_states):
    log = [(0, 5), (9, 20), (20, 21), None, (5, 9), None]
    order = in_order(range(60), 6)

    check_states(
        lambda: Dataset(selected(Dataset.range(60).global_shuffle(6, False).repeat(2).node)),
        [*order[0:5], *order[9:21], *order[5:9]],
        logs=[log],
        streams={".0": 0},
    )


def test_each_copy_of_a_dataset_has_an_order_of_its_own():
    ds = Dataset.range(100).global_shuffle()

    def copy(task):
        return open_root(ds.node, Context.local(1, task)).block(100)

    assert sorted(copy(0)) == sorted(copy(1)) == list(range(100))
    assert copy(0) == copy(0) != copy(1)
