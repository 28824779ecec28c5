"""What tasks run in place of operators that count elements."""

import random

import numpy as np
import pytest

from penstock.analysis.index_selection import selected
from penstock.analysis.sharding import split_providers
from penstock.dataset.dataset import Dataset
from penstock.dataset.iterator import DatasetIterator
from penstock.errors import DatasetError
from tests.analysis.bare_nodes import labels
from tests.analysis.dealt_splits import deal, run_task

RANGE = Dataset.range(12)

RANDOM = Dataset.random(seed=1)

LETTERS = Dataset.from_sequence("abcdefghijk")

ROWS = Dataset.from_tensor_slices({"x": np.arange(13), "y": np.arange(26).reshape(13, 2)})


@pytest.mark.quick(17)
@pytest.mark.parametrize(
    "ds",
    [
        RANGE.shard(3, 1),
        RANGE.map(abs).prefetch(2).shard(2, 1).skip(1),
        RANGE.skip(3).take(5).enumerate(2),
        RANGE.enumerate().shard(2, 1).map(lambda i, x: x).take(2),
        RANGE.concatenate(LETTERS).shard(3, 2),
        RANGE.concatenate(LETTERS).skip(14).take(4),
        Dataset.zip(RANGE, LETTERS, ROWS).shard(4, 3).repeat(2),
        ROWS.shard(2, 1).batch(2).unbatch(),
        Dataset.range(20, 0, -3).skip(2),
        Dataset.range(20, 0, -3).shard(3, 1),
        LETTERS.shard(2, 0).cache().repeat(2),
        RANGE.assert_cardinality(12).shard(5, 4),
        RANGE.take(-1).skip(-1),
        RANGE.shard(1, 0).skip(0).take(0),
        RANDOM.take(7),
        RANDOM.skip(3).shard(2, 1).batch(2).take(4).repeat(2),
        Dataset.zip(RANGE, RANDOM),
        RANDOM.enumerate(3).take(5),
        Dataset.from_tensors(3).shard(2, 1),
        Dataset.from_tensors(3).shard(2, 0),
        Dataset.zip(RANGE, RANGE.shard(2, 1)),
        RANGE.batch(5),
        RANGE.shuffle(3).batch(5, drop_remainder=True).map(len),
        RANGE.batch(2).batch(3),
        RANGE.batch(5).skip(1).take(1),
        RANGE.padded_batch(5).repeat(2),
        Dataset.zip(RANGE, LETTERS).batch(4).map(lambda a, b: a),
        RANGE.global_shuffle(seed=1).batch(5),
        RANGE.skip(2).shard(2, 1).global_shuffle(seed=1).take(4).enumerate(3),
        Dataset.zip(RANGE, LETTERS).map(lambda a, b: a).global_shuffle(seed=1).shard(3, 1),
        Dataset.zip(RANGE, ROWS.global_shuffle(seed=1)).skip(3),
        RANGE.enumerate().concatenate(LETTERS).global_shuffle(seed=1).repeat(2),
        RANGE.global_shuffle(seed=1).concatenate(LETTERS).skip(5),
    ],
)
def test_what_counts_elements_of_a_source_with_an_index_counts_all_of_them(ds):
    expected = sorted(map(repr, ds))
    streams = split_providers(ds.node)

    for seed in range(10):
        rng = random.Random(seed)
        logs = [deal(rng, stream, tasks=3) for stream in streams]
        made = [run_task(ds.node, streams, [log[task] for log in logs]) for task in range(3)]

        assert sorted(repr(element) for task in made for element in task) == expected
    assert labels(ds.node) == []


@pytest.mark.parametrize(
    ("ds", "label"),
    [
        (RANGE.shuffle(3).shard(2, 0), "shuffle"),
        (RANGE.filter(bool).map(abs).shard(2, 0), r"filter\(bool\)"),
        (RANGE.batch(2).shard(2, 0), "batch"),
        (RANGE.repeat(2).shard(2, 0), "repeat"),
        (Dataset.text_lines(["a", "b"]).shard(2, 0), "text_lines"),
    ],
)
def test_a_shard_that_no_index_can_do_is_refused_with_the_ways_out(ds, label):
    with pytest.raises(DatasetError, match=f"^shard: .*{label} before it prevents") as caught:
        split_providers(ds.node)

    assert "job_name" in str(caught.value)


def test_a_shard_of_files_in_an_order_of_each_run_is_refused():
    with pytest.raises(DatasetError, match="shuffle=False or a seed"):
        split_providers(Dataset.list_files("a/*").map(str).shard(2, 0).node)

    (stream,) = split_providers(Dataset.list_files("a/*", shuffle=False).shard(2, 1).skip(3).node)
    assert stream.files.cut(tuple(range(10))) == (7, 9)


def test_files_that_a_shard_leaves_are_read_in_one_process_as_well(tmp_path):
    for name in "abcde":
        (tmp_path / name).touch()
    ds = Dataset.list_files(tmp_path / "*", shuffle=False).shard(2, 1)

    with DatasetIterator(selected(ds.node)) as it:
        assert list(it) == list(ds) == [str(tmp_path / "b"), str(tmp_path / "d")]
