"""Operators and sources that there are, under splits: what they make, what is refused."""

import random

import pytest

from penstock.analysis.index_selection import selected
from penstock.analysis.sharding import split_providers
from penstock.dataset.dataset import Dataset
from penstock.dataset.iterator import DatasetIterator
from penstock.errors import DatasetError, TransformError
from tests.analysis.dealt_splits import deal, run_task

# --- with the sources and operators that there are ---


def test_file_names_may_be_zipped_and_lines_of_files_may_not():
    names = Dataset.list_files("a/*", shuffle=False)
    lines = Dataset.text_lines("a")

    (stream,) = split_providers(
        Dataset.zip(Dataset.range(9).prefetch(2).cache(), names.enumerate()).node
    )

    assert stream.sources == (".0.0.0", ".1.0", ".1.1")
    assert stream.files == names.node.units()
    with pytest.raises(DatasetError, match="zip: what text_lines is split by"):
        split_providers(Dataset.zip(Dataset.range(9), lines).node)


def test_what_stands_in_a_branch_of_zip_is_refused_with_what_may_and_the_ways_out():
    with pytest.raises(DatasetError) as caught:
        split_providers(Dataset.zip(Dataset.range(9).filter(bool), Dataset.range(9)).node)

    assert str(caught.value) == (
        "zip: filter(bool) stands between a source and zip; under dynamic sharding the branches of "
        "zip are drawn in lockstep, so they may hold only what keeps one element per element (map, "
        "enumerate, prefetch, cache, or equal batches): zip the sources first and do the rest "
        'after it, or use processing_mode="parallel_epochs" (ShardingPolicy.OFF)'
    )


def test_a_generator_cannot_be_split_unless_it_is_inside_flat_map():
    def numbers(x=3):
        yield from range(x)

    with pytest.raises(DatasetError, match=r"^from_generator\(numbers\) cannot be split"):
        split_providers(Dataset.from_generator(numbers).node)
    inner = Dataset.range(3).flat_map(lambda x: Dataset.from_generator(numbers, args=(x,)))
    assert [stream.units for stream in split_providers(inner.node)] == [3]


@pytest.mark.parametrize(
    "change",
    [
        lambda ds: ds.filter(bool),
        lambda ds: ds.shuffle(4),
        lambda ds: ds.shuffle(4).take(4),
        lambda ds: ds.filter(bool).skip(4),
        lambda ds: ds.repeat(2),
        lambda ds: ds.concatenate(ds),
        lambda ds: ds.batch(2).unbatch(),
        lambda ds: ds.batch(2).rebatch(4),
        lambda ds: ds.window(2),
        lambda ds: ds.padded_batch(2),
        lambda ds: ds.flat_map(Dataset.range),
        lambda ds: ds.interleave(Dataset.range),
    ],
)
def test_operators_that_change_the_count_or_order_stay_behind_zip(change):
    ds = Dataset.range(9)

    with pytest.raises(DatasetError, match="stands between a source and zip"):
        split_providers(Dataset.zip(ds, change(ds)).node)

    assert [s.units for s in split_providers(change(Dataset.zip(ds, ds).map(lambda a, b: a)).node)][
        :1
    ] == [9]


# --- drawing by plan ---


def numbers_of(k, n):
    return Dataset.range(k, k + n)


def pairs_of(a, b):
    return Dataset.zip(a.batch(2, drop_remainder=True), b.batch(2, drop_remainder=True))


@pytest.mark.quick(16)
@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: Dataset.zip(a, b),
        lambda a, b: Dataset.zip(a.map(abs).prefetch(2), b.cache()),
        lambda a, b: Dataset.zip(a.batch(3), b.map(abs).batch(3)),
        lambda a, b: Dataset.zip(a.batch(2, drop_remainder=True), b.batch(2)),
        lambda a, b: Dataset.zip(pairs_of(a, b).batch(2), a.batch(4)),
        lambda a, b: Dataset.zip(a, a, Dataset.zip(b, b)).repeat(3),
        lambda a, b: Dataset.zip(a, b).map(lambda x, y: x).concatenate(b).repeat(2),
    ],
)
@pytest.mark.parametrize("sizes", [(12, 12), (13, 8), (8, 13), (1, 20), (0, 3), (11, 11)])
def test_tasks_that_draw_by_plan_make_together_what_one_reader_makes(make, sizes):
    node = make(numbers_of(0, sizes[0]), numbers_of(100, sizes[1])).node
    with DatasetIterator(node) as it:
        expected = sorted(map(repr, it))

    streams = split_providers(node)
    for seed in range(10):
        rng = random.Random(seed)
        logs = [deal(rng, stream, tasks=3) for stream in streams]
        made = [run_task(node, streams, [log[task] for log in logs]) for task in range(3)]

        assert sorted(repr(element) for task in made for element in task) == expected


# --- what is left to the source ---

RANGE = Dataset.range(12)


def test_an_error_of_an_item_names_its_number_in_the_sequence():
    class Items:
        def __len__(self):
            return 10

        def __getitem__(self, i):
            return 1 // (i - 7)

    with pytest.raises(TransformError, match="failed at element 7") as caught:
        list(DatasetIterator(selected(Dataset.from_sequence(Items()).shard(2, 1).node)))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_cache_below_zip_that_is_read_again_is_refused():
    again = Dataset.zip(RANGE.cache(), RANGE)
    split_providers(again.node)

    with pytest.raises(DatasetError, match="put cache after zip"):
        split_providers(again.repeat(2).node)


def test_a_shard_of_what_readers_share_is_refused():
    far = RANGE.distribute("distributed_epoch", "a:1")
    shared = RANGE.distribute("distributed_epoch", "a:1", job_name="job")

    far.shard(2, 0)
    with pytest.raises(DatasetError, match="leave shard out"):
        shared.batch(2).shard(2, 0)
