"""`mixture` by turns: which element each turn takes, and that tasks, states and passes agree."""

from __future__ import annotations

import json
import random
from contextlib import closing
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.analysis.index_selection import selected
from penstock.analysis.ordering import why_unordered, with_grids
from penstock.analysis.sharding import assignments, split_providers
from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.engine.splits import SplitReader
from penstock.errors import DatasetError, StateError, TransformError
from penstock.graph.node import INFINITE, UNKNOWN
from penstock.graph.run import open_root
from penstock.protocol.mixture import WeightStage, changed, encode, parts_of, stages_of
from penstock.protocol.splits import Split
from penstock.protocol.turns import Turns

WEIGHTS = {"a": 0.5, "b": 0.3, "c": 0.2}
SIZES = {"a": 9, "b": 5, "c": 12}


def numbers(name):
    first = 100 * "abc".index(name)
    return range(first, first + SIZES[name])


def parts(build=lambda ds: ds):
    return {name: build(Dataset.range(numbers(name)[0], numbers(name)[-1] + 1)) for name in SIZES}


def mix(datasets=None, weights=None, **more):
    return Dataset.mixture(datasets or parts(), weights or WEIGHTS, **more)


def expected(elements, weights, count, **more):
    """Return the first *count* elements, when each source has the list *elements* in each pass."""
    names = tuple(elements)
    sizes = [len(each) for each in elements.values()]
    turns = Turns(stages_of(weights, names), sizes, **more)
    given = [0] * len(names)
    out = []
    for source in turns.sources(0, count):
        out.append(elements[names[source]][given[source] % sizes[source]])
        given[source] += 1
    return out


def ints(elements):
    return [int(each) for each in elements]


LISTS = {name: list(numbers(name)) for name in SIZES}


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("more", "count"),
    [
        ({"stop": "first"}, 100),
        ({"stop": "drop"}, 100),
        ({"stop": "all"}, 500),
        ({"max_epochs": 2}, 200),
        ({"max_epochs": {"a": 1, "b": 3, "c": 1}, "seed": 3}, 200),
    ],
)
def test_each_turn_takes_the_next_element_of_its_dataset(check_states, more, count):
    check = dict(more)
    if "max_epochs" in check:
        given = check["max_epochs"]
        check["max_epochs"] = [given] * 3 if isinstance(given, int) else list(given.values())
    wanted = expected(LISTS, WEIGHTS, count, **check)

    check_states(lambda: mix(**more), wanted)

    assert mix(**more).cardinality() == len(wanted)


def test_without_an_end_datasets_repeat_each_by_itself(check_states):
    check_states(lambda: mix().take(60), expected(LISTS, WEIGHTS, 60))

    assert mix().cardinality() == INFINITE


def test_weights_change_along_a_line(check_states):
    points = [(0, {"a": 1}), (20, {"b": 1, "c": 1}), (30, {"c": 1})]

    check_states(lambda: mix(weights=points).take(40), expected(LISTS, points, 40))


def test_the_shares_of_each_prefix_are_exact():
    taken = ints(mix().take(1000))

    for n in range(1, 1001):
        for source, weight in enumerate(WEIGHTS.values()):
            count = sum(x // 100 == source for x in taken[:n])
            assert abs(count - n * weight) < 1


def test_many_datasets_that_end_one_by_one_have_short_patterns_and_give_each_element():
    shares = np.random.default_rng(0).random(100).tolist()
    datasets = {f"part {i}": Dataset.range(10 * i, 10 * i + 10) for i in range(100)}

    made = mix(datasets, dict(zip(datasets, shares, strict=True)), stop="drop")

    assert sum(sum(parts) for _, parts in made.node.stages) <= 2**20 / 100
    assert sorted(ints(made)) == list(range(1000))


def even(x):
    return x % 2 == 0


def fails_at_thirds(x):
    if x % 3 == 0:
        raise ValueError("a third")
    return x


BUILDS = {
    "map": lambda ds: ds.map(lambda x: x + 1).prefetch(2),
    "parallel map": lambda ds: ds.map(lambda x: x + 1, num_parallel_calls=3),
    "chance": lambda ds: ds.map(lambda x, *, rng: x * 1000 + rng.integers(1000)),
    "shuffled": lambda ds: ds.global_shuffle().map(lambda x: x),
    "cut": lambda ds: ds.skip(1).take(5).shard(2, 0),
    "numbered": lambda ds: ds.enumerate().map(lambda i, x: i * 1000 + x),
    "batched": lambda ds: ds.batch(2).map(np.sum),
    "filtered": lambda ds: ds.map(lambda x: x + 1).filter(even).map(lambda x: x // 2),
    "chance after a filter": lambda ds: ds.filter(even).map(
        lambda x, *, rng: x * 1000 + rng.integers(1000)
    ),
    "failing": lambda ds: ds.map(fails_at_thirds),
    "ignored": lambda ds: ds.map(fails_at_thirds).ignore_errors(),
    "filtered and failing": lambda ds: ds.filter(even).map(fails_at_thirds),
    "nested": lambda ds: Dataset.mixture(
        {"same": ds, "more": ds.map(lambda x: -x)}, {"same": 2, "more": 1}, stop="all"
    ),
    "repeated": lambda ds: ds.repeat(),
    "joined": lambda ds: ds.concatenate(Dataset.range(1000, 1005)),
    "paired": lambda ds: Dataset.zip(ds, ds).map(lambda x, y: x + y),
}


@pytest.mark.slow
@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_states_are_exact_whatever_datasets_do(check_states, build):
    check_states(lambda: mix(parts(build), turns_per_task=16).take(40), max_state=2048)


@pytest.mark.slow
def test_a_state_at_each_of_200_points_gives_the_same_rest():
    def make():
        build = BUILDS["filtered"]
        datasets = {**parts(BUILDS["shuffled"]), "b": build(Dataset.range(100, 130))}
        return mix(datasets, turns_per_task=32, stop="repeat").take(220)

    whole = ints(make().iterator(seed=4))
    assert len(whole) == 220
    for point in range(200):
        iterator = make().iterator(seed=4)
        before = [int(next(iterator)) for _ in range(point)]
        state = json.loads(json.dumps(iterator.state()))
        assert before + ints(make().iterator(state)) == whole


# --- tasks ---


def read_by_tasks(ds, tasks, size=None, seed=1, changes=()):
    """Return what tasks make of splits of one size, each split by a task of its own, in order."""
    (provider,) = with_grids(ds.node, split_providers(ds.node))
    size = size or provider.grid
    end = min(provider.units, 200)
    splits = [Split(i, min(i + size, end), changes) for i in range(0, end, size)]
    groups = [splits] if tasks is None else [[split] for split in splits]
    out = []
    for task, group in enumerate(groups):
        log = [*group, Split(0, 0)]
        reader = SplitReader(lambda _, at, log=log: log[at])
        about = {"splits": reader, "providers": assignments([provider])}
        context = replace(Context.local(seed, task), **about)
        with closing(open_root(selected(ds.node), context)) as run:
            while block := read(run):
                out += block
    return out


def read(run):
    try:
        return run.block(5)
    except TransformError:
        return ["failed"]


def outcomes(ds, seed=1):
    out = []
    with closing(open_root(ds.node, Context.local(seed))) as run:
        while len(out) < 400 and (block := read(run)):
            out += block
    return out


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_tasks_make_what_one_process_makes_in_the_same_order(build):
    ds = mix(parts(build), stop="all", turns_per_task=16)

    whole = outcomes(ds)

    assert read_by_tasks(ds, None)[: len(whole)] == whole[: len(read_by_tasks(ds, None))]
    assert read_by_tasks(ds, 1) == read_by_tasks(ds, None)


def test_later_passes_of_a_shuffled_dataset_are_the_same_behind_a_take_on_workers():
    few = {"few": Dataset.range(5).global_shuffle(3), "many": Dataset.range(100, 200)}
    ds = Dataset.mixture(few, {"few": 1, "many": 1}, seed=1, turns_per_task=16).take(90)
    nested = Dataset.mixture({"both": ds, "few": few["few"]}, {"both": 3, "few": 1}, seed=1).take(
        150
    )

    assert ints(read_by_tasks(ds, 1)) == ints(ds)
    assert ints(read_by_tasks(nested, 1)) == ints(nested)
    assert len({tuple(x for x in ints(ds)[i : i + 10] if x < 5) for i in range(0, 90, 10)}) > 3


@pytest.mark.quick(6)
@pytest.mark.parametrize("size", [5, 1, 17, 200])
@pytest.mark.parametrize("name", ["map", "chance", "shuffled", "numbered", "failing", "nested"])
def test_the_size_of_splits_does_not_matter_if_nothing_is_dropped(name, size):
    ds = mix(parts(BUILDS[name]), turns_per_task=16)

    assert read_by_tasks(ds, 1, size) == outcomes(ds)[:200]


def test_tasks_that_draw_splits_of_any_size_make_each_element_once():
    ds = mix(parts(BUILDS["filtered"]), stop="drop")
    wanted = sorted(x // 2 for name in SIZES for x in (n + 1 for n in numbers(name)) if even(x))

    for size in (1, 3, 50):
        assert sorted(ints(read_by_tasks(ds, 1, size))) == wanted


@pytest.mark.parametrize(
    "build",
    [
        lambda ds: ds.take(50),
        lambda ds: ds.skip(11).take(30),
        lambda ds: ds.enumerate().map(lambda i, x: i * 1000 + x).take(60),
        lambda ds: ds.take(64).batch(8).map(np.sum),
    ],
)
def test_take_skip_and_enumerate_after_it_count_turns_on_workers_too(build):
    ds = build(mix())

    assert not why_unordered(ds.node, split_providers(ds.node))
    assert ints(read_by_tasks(ds, 1, 8)) == ints(ds)


def test_shards_of_a_mixture_are_refused_on_workers_with_a_remedy():
    ds = mix().shard(2, 1)

    assert ints(ds.take(20)) == expected(LISTS, WEIGHTS, 40)[1::2]
    with pytest.raises(DatasetError, match="mixture before it prevents that: leave shard out and"):
        selected(ds.node)


def test_weights_that_a_split_brings_take_the_place_of_those_of_the_mixture():
    ds, names = mix(), tuple(SIZES)
    stages = changed(stages_of(WEIGHTS, names), WeightStage(30, parts_of({"b": 1}, names)))

    made = ints(read_by_tasks(ds, 1, 10, changes=(encode(stages),)))

    turns = Turns(stages, tuple(SIZES.values()))
    assert [x // 100 for x in made] == list(turns.sources(0, 200))


def test_a_split_of_a_task_has_one_size_in_ordered_reads():
    (provider,) = with_grids(mix().node, split_providers(mix().node))
    (batched,) = with_grids(mix().batch(30).node, split_providers(mix().batch(30).node))

    assert provider.grid == 2048
    assert batched.grid == 2040


def test_what_a_dataset_dropped_is_not_counted_by_the_mixture():
    assert mix(parts(BUILDS["filtered"]), stop="drop").cardinality() == UNKNOWN
    assert len(list(mix(parts(BUILDS["filtered"]), stop="drop"))) == 4 + 2 + 6


def write_parquet(path, numbers):
    pq.write_table(pa.table({"n": list(numbers)}), path, row_group_size=7)


def test_files_with_an_index_are_mixed_by_turns(tmp_path):
    for name in SIZES:
        write_parquet(tmp_path / f"{name}.parquet", numbers(name))
    files = {name: Dataset.parquet(str(tmp_path / f"{name}.parquet")) for name in SIZES}
    read = {name: each.map(lambda row: int(row["n"])) for name, each in files.items()}
    shuffled = {**read, "c": files["c"].global_shuffle(seed=2).map(lambda row: int(row["n"]))}

    assert ints(mix(read).take(90)) == expected(LISTS, WEIGHTS, 90)
    assert ints(read_by_tasks(mix(shuffled), 1, 8)) == ints(mix(shuffled).take(200))


# --- what is refused ---


@pytest.mark.parametrize(
    ("other", "more"),
    [
        ({"a": 0.5, "b": 0.2, "c": 0.3}, {}),
        (WEIGHTS, {"stop": "first"}),
        (WEIGHTS, {"seed": 8}),
        (WEIGHTS, {"max_epochs": 9}),
    ],
)
def test_a_state_of_another_mixture_is_refused(other, more):
    iterator = mix().iterator()
    next(iterator)

    with pytest.raises(StateError, match="other names, weights, sizes of the datasets"):
        next(mix(weights=other, **more).iterator(iterator.state()))


def test_a_state_is_refused_if_a_dataset_has_another_size_now():
    iterator = mix().iterator()
    next(iterator)

    with pytest.raises(StateError, match="other names, weights, sizes of the datasets"):
        next(mix({**parts(), "b": Dataset.range(8)}).iterator(iterator.state()))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (({}, {"a": 1}), "datasets must not be empty"),
        (([Dataset.range(3)], {"a": 1}), "datasets must be a dict of Datasets by name"),
        (({"a": 5}, {"a": 1}), "datasets must be a dict of Datasets by name"),
        (({"a": Dataset.range(3)}, {"b": 1}), "source 'b'; there are 'a'"),
        (({"a": Dataset.range(3)}, {"a": -1}), "the weight of 'a' must be"),
        (({"a": Dataset.range(3)}, {"a": 0}), "at least one weight must be positive"),
        (({"a": Dataset.range(0)}, {"a": 1}), "'a' has no elements: leave it out"),
    ],
)
def test_datasets_and_weights_that_make_no_mixture_are_refused(arguments, said):
    with pytest.raises(DatasetError, match=said):
        Dataset.mixture(*arguments)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"stop": "never"}, "stop must be one of 'repeat', 'first', 'all', 'drop', not 'never'"),
        ({"unit": "words"}, "unit must be one of 'elements', 'tokens', 'bytes', not 'words'"),
        ({"unit": "tokens"}, "unit='tokens' needs length, a function"),
        ({"unit": "tokens", "length": 5}, "unit='tokens' needs length, a function.*not 5"),
        ({"length": len}, 'length is for unit="tokens" and unit="bytes"'),
        ({"max_epochs": 0}, "max_epochs must be an integer of at least 1, not 0"),
        ({"max_epochs": {"a": 0}}, "max_epochs of 'a' must be an integer of at least 1, not 0"),
        ({"max_epochs": {"d": 1}}, "max_epochs names the dataset 'd'; there are 'a', 'b', 'c'"),
        ({"max_epochs": 2, "stop": "first"}, 'max_epochs is for stop="repeat"'),
        ({"seed": 0.5}, "seed must be an integer"),
        ({"seed": 1 << 70}, "seed must fit int64"),
        ({"turns_per_task": 0}, "turns_per_task must be an integer of at least 1, not 0"),
    ],
)
def test_other_arguments_that_are_malformed_are_refused(more, said):
    with pytest.raises(DatasetError, match=said):
        mix(**more)


def test_random_points_of_reading_ahead_do_not_move_the_order():
    chance = random.Random(3)
    out = []
    with closing(open_root(mix().node, Context.local(1))) as run:
        while len(out) < 300:
            out += run.block(chance.randint(1, 40))
    assert ints(out)[:300] == expected(LISTS, WEIGHTS, 300)


# --- what elements look like ---


def rows(length, dtype=np.int64):
    return Dataset.range(4).map(lambda x: {"x": np.full(length, x, dtype), "name": "n"})


def test_elements_look_like_those_of_all_datasets():
    mixed = mix({"a": rows(3), "b": rows(3)}, {"a": 1, "b": 1}).element_spec
    longer = mix({"a": rows(3), "b": rows(5)}, {"a": 1, "b": 1}).element_spec

    assert mixed == rows(3).element_spec
    assert longer["x"].shape == (None,)
    assert longer["name"] == mixed["name"]
    assert mix().element_spec == Dataset.range(3).element_spec


@pytest.mark.parametrize(
    "other", [rows(3, np.float32), Dataset.range(3), rows(3).map(lambda row: {"x": row["x"]})]
)
def test_two_datasets_whose_elements_differ_are_named(other):
    mixed = mix({"a": rows(3), "b": rows(2), "c": other})

    with pytest.raises(DatasetError, match=r"the elements of 'a' look like .* and those of 'c' li"):
        _ = mixed.element_spec
