"""Which pipelines have one order, and where all their splits must have one size."""

import re

import numpy as np
import pytest

from penstock.analysis.ordering import (
    LEAST_UNITS,
    LEAST_UNITS_TO_PACK,
    MOST_SPLITS,
    why_unordered,
    with_grids,
)
from penstock.analysis.sharding import split_providers
from penstock.dataset.dataset import Dataset
from penstock.ops.write_chunks import WriteChunks
from penstock.options import Options

NUMBERS = Dataset.range(100)
FILES = Dataset.list_files("/data/*.txt", shuffle=False)


def drawn(x, *, rng):
    return x + rng.integers(3)


def why(dataset):
    return why_unordered(dataset.node, split_providers(dataset.node))


def grid(dataset):
    (provider,) = with_grids(dataset.node, split_providers(dataset.node))
    return provider.grid


@pytest.mark.parametrize(
    "dataset",
    [
        NUMBERS,
        NUMBERS.map(abs).filter(bool).prefetch(2),
        NUMBERS.map(abs, num_parallel_calls=4),
        NUMBERS.batch(4),
        NUMBERS.map(abs).batch(4).map(len).unbatch(),
        NUMBERS.take(50).skip(3).shard(2, 1).enumerate(),
        NUMBERS.repeat(1),
        NUMBERS.global_shuffle(seed=3).map(abs),
        NUMBERS.flat_map(lambda x: Dataset.range(x)),
        Dataset.zip(NUMBERS, NUMBERS.map(abs)),
        FILES.interleave(Dataset.text_lines, cycle_length=3),
        Dataset.text_lines(["/a", "/b"]).map(str.strip),
        NUMBERS.with_options(Options(threads=2)),
        NUMBERS.ignore_errors(),
        NUMBERS.filter(bool).map(np.ones).pack(9, None).map(len),
        NUMBERS.map(np.ones).token_batches(100, None),
        NUMBERS.map(abs).balance(4, abs),
    ],
    ids=lambda dataset: type(dataset.node).__name__,
)
def test_what_makes_each_element_of_its_split_alone_has_one_order(dataset):
    assert why(dataset) == ""


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        (NUMBERS.shuffle(10), r"shuffle keeps something .*use global_shuffle"),
        (NUMBERS.repeat(2), r"repeat keeps something .*each turn is a pass of its own"),
        (NUMBERS.cache(), r"cache keeps something .*put it behind distribute"),
        (NUMBERS.filter(bool).take(3), r"take keeps something .*put it behind distribute"),
        (NUMBERS.filter(bool).batch(3), r"batch keeps something .*put it behind distribute"),
        (NUMBERS.filter(bool).enumerate(), "enumerate keeps something"),
        (NUMBERS.scan(0, lambda s, x: (s, x)), r"scan\(.*\) keeps something"),
        (NUMBERS.unique(), "unique keeps something"),
        (NUMBERS.take_while(bool), r"take_while\(bool\) keeps something"),
        (NUMBERS.window(3).flat_map(lambda w: w.batch(3)), "window keeps something"),
        (
            NUMBERS.map(abs, num_parallel_calls=2, deterministic=False),
            r"map\(abs\) lets elements overtake .*leave deterministic at True",
        ),
        (NUMBERS.filter(bool).balance(4, abs), r"balance\(abs\) makes rounds .*after a source"),
        (NUMBERS.concatenate(NUMBERS), "concatenate joins sources that are split apart"),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given.node).__name__,
)
def test_what_keeps_something_across_splits_is_named_with_the_way_out(dataset, words):
    said = why(dataset)

    assert said.startswith("ordered=True: ")
    assert re.search(words, said)


def test_splits_are_as_long_as_is_timely_where_nothing_is_drawn():
    assert grid(NUMBERS.map(abs)) == 0


@pytest.mark.parametrize(
    "pipeline",
    [
        lambda d: d.map(drawn),
        lambda d: d.flat_map(lambda x: Dataset.range(3).shuffle(3)),
        lambda d: d.interleave(lambda x: Dataset.range(3)),
    ],
)
def test_splits_have_one_size_where_chance_may_depend_on_it(pipeline):
    assert grid(pipeline(Dataset.range(10))) == LEAST_UNITS
    assert grid(pipeline(Dataset.range(30 * MOST_SPLITS))) == 30
    assert grid(pipeline(Dataset.range(30 * MOST_SPLITS + 1))) == 31
    assert grid(pipeline(Dataset.random())) == LEAST_UNITS


def test_splits_of_a_save_have_one_size_which_gives_many_workers_work():
    def grid_of(count):
        pipeline = Dataset.range(count).map(np.sqrt)
        return grid(Dataset(WriteChunks(pipeline.node, "/path", None, 1, 1.0)))

    assert [grid_of(count) for count in (5, 1_000, 100_000, 10**6, 10**7)] == [
        1,
        16,
        1563,
        4096,
        9766,
    ]


def test_splits_of_one_size_are_long_if_documents_are_packed_in_them():
    arrays = Dataset.range(10).map(np.ones)

    assert grid(arrays.pack(9, None)) == LEAST_UNITS_TO_PACK
    assert grid(arrays.token_batches(9, None)) == LEAST_UNITS_TO_PACK
    assert grid(Dataset.range(10).balance(3, abs)) == 2049
    assert grid(Dataset.range(4096 * MOST_SPLITS).map(np.ones).pack(9, None)) == 4096


def test_that_size_is_of_whole_batches():
    pairs = Dataset.range(8 * MOST_SPLITS).batch(5)

    assert grid(pairs.map(drawn)) == 20


def test_a_file_is_a_split_anyhow():
    assert grid(FILES.interleave(Dataset.text_lines)) == 0
