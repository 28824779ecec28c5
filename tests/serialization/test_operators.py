"""Every operator travels, but for those that exist only in a run."""

import os
import tempfile

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.errors import DefinitionError
from penstock.files import literally
from penstock.graph.node import OPERATORS
from penstock.graph.traversal import walk
from penstock.serialization.fingerprint import fingerprint
from tests.sent_definitions import closing_over, elements, travelled


def rows(x):
    return Dataset.range(x % 3)


def rows_of(x):
    return np.arange(x % 6)


def pairs(x):
    return x, np.arange(x % 4)


def build(op, *inputs, **params):
    return OPERATORS[op](*(getattr(each, "node", each) for each in inputs), **params)


NUMBERS = Dataset.range(20)
SAVED = tempfile.TemporaryDirectory()
"""A saved dataset without elements."""
Dataset.range(0).save(SAVED.name)
EVERY_OPERATOR = {
    "range": build("range", 3, 9, 2),
    "from_tensors": build("from_tensors", {"a": np.arange(3), "b": ("x", 1.5, b"y")}),
    "from_tensor_slices": build(
        "from_tensor_slices", (np.arange(6).reshape(3, 2), ["a", "b", "c"])
    ),
    "from_sequence": build("from_sequence", [(1, "a"), (2, "b")], size=2),
    "from_generator": build("from_generator", range, (3, 7)),
    "list_files": build("list_files", (__file__,), shuffle=False, seed=None),
    "text_lines": build("text_lines", (__file__,), errors="replace"),
    "map": build("map", NUMBERS, abs),
    "map_batches": build("map_batches", NUMBERS, abs),
    "filter": build("filter", NUMBERS, lambda x: x % 2 == 0),
    "flat_map": build("flat_map", NUMBERS, rows),
    "interleave": build("interleave", NUMBERS, rows, cycle=3, length=2),
    "batch": build("batch", NUMBERS, 3, drop_remainder=False),
    "padded_batch": build(
        "padded_batch",
        NUMBERS.map(pairs),
        4,
        shapes=((), (None,)),
        values=(None, -1),
        drop_remainder=False,
    ),
    "ragged_batch": build(
        "ragged_batch", NUMBERS.map(rows_of), 4, drop_remainder=False, names=None
    ),
    "unbatch": build("unbatch", NUMBERS.batch(3)),
    "rebatch": build("rebatch", NUMBERS.batch(3), 7, drop_remainder=False),
    "window": build(
        "flat_map",
        build("window", NUMBERS, 3, shift=2, stride=1, drop_remainder=False),
        lambda w: w,
    ),
    "shuffle": build("shuffle", NUMBERS, 8, seed=5, reshuffle=True),
    "global_shuffle": build("global_shuffle", NUMBERS, seed=5, reshuffle=True),
    "repeat": build("repeat", NUMBERS, 2),
    "take": build("take", NUMBERS, 5),
    "skip": build("skip", NUMBERS, 5),
    "shard": build("shard", NUMBERS, 3, 1),
    "enumerate": build("enumerate", NUMBERS, 7),
    "zip": build("zip", (NUMBERS.node, NUMBERS.map(abs).node)),
    "concatenate": build("concatenate", NUMBERS, NUMBERS.map(abs)),
    "cache": build("cache", NUMBERS),
    "counter": build("take", build("counter", 3, 2), 5),
    "random": build("take", build("random", 5, rerandomize=True), 5),
    "fixed_length_records": build(
        "fixed_length_records", (os.devnull,), 4, header=0, footer=0, compression=""
    ),
    "json_lines": build("json_lines", literally((os.devnull,)), {"a": 1}),
    "webdataset": build("webdataset", literally((os.devnull,)), select=("jpg",)),
    "parquet": build("parquet", literally(()), ("a",), {"a": 1}, [("a", ">", 3)], 4),
    "arrow": build("arrow", literally(()), ("a",), {"a": 1}),
    "array_records": build("array_records", literally(())),
    "load": Dataset.load(SAVED.name).node,
    "follow": build("follow", SAVED.name, 9.0),
    "snapshot": build("snapshot", NUMBERS, f"{SAVED.name}/snapshots", None, 1),
    "write_chunks": build(
        "map",
        build("write_chunks", NUMBERS, f"{SAVED.name}/other", None, 1, 9.0),
        lambda chunk, row, told: row,
    ),
    "mds": build("mds", literally(()), {"a.mds": (("n",), ("int",), (8,), 2, (("sha1", "a"),))}),
    "csv": build(
        "csv",
        (os.devnull,),
        names=("a", "b"),
        columns=(("b", "str", None),),
        selected=("b",),
        delimiter=";",
        quotes=True,
        na_value="-",
        header=False,
        compression="",
    ),
    "tfrecords": build("tfrecords", (os.devnull,), compression=""),
    "scan": build("scan", NUMBERS, np.int64(0), lambda total, x: (total + x, total)),
    "ignore_errors": build("ignore_errors", NUMBERS.map(lambda x: 12 // x), max_errors=1, log=None),
    "take_while": build("take_while", NUMBERS, lambda x: x < 12),
    "assert_cardinality": build("assert_cardinality", NUMBERS, 20),
    "with_options": build(
        "with_options",
        NUMBERS,
        deterministic=True,
        threads=2,
        autotune=True,
        cpu_budget=2,
        ram_budget=1000,
        external_state_policy="ignore",
    ),
    "group_by_window": build(
        "group_by_window", NUMBERS, lambda x: x % 3, lambda key, w: w.batch(4), size=4
    ),
    "bucket_by_sequence_length": build(
        "bucket_by_sequence_length",
        NUMBERS.map(rows_of),
        (2, 4),
        (2, 3, 4),
        shapes=None,
        values=None,
        to_boundary=False,
        no_padding=False,
        drop_remainder=False,
        length_func=len,
    ),
    "pack": build(
        "pack",
        NUMBERS.map(rows_of),
        capacity=7,
        field=None,
        method="best_fit",
        buffer=3,
        split_long="cut",
        pad=0,
    ),
    "token_batches": build("token_batches", NUMBERS.map(rows_of), max_tokens=30, field=None),
    "balance": build("balance", NUMBERS, num_consumers=2, window=6, cost=lambda x: x % 5),
    "unique": build("unique", NUMBERS.map(lambda x: x % 3)),
    "choose_from_datasets": build(
        "choose_from_datasets",
        NUMBERS.map(lambda x: x % 2),
        (NUMBERS.node, NUMBERS.map(abs).node),
        stop=False,
    ),
    "sample_from_datasets": build(
        "sample_from_datasets",
        (NUMBERS.node, NUMBERS.map(abs).node),
        weights=(0.5, 0.5),
        seed=3,
        stop=False,
        rerandomize=False,
    ),
    "mixture": build(
        "mixture",
        (NUMBERS.node, NUMBERS.map(abs).node),
        names=("one", "other"),
        stages=((0, (1, 2)), (9, (1, 0))),
        stop="repeat",
        max_epochs=(3, None),
        seed=3,
        turns_per_task=64,
    ),
    "mixed_streams": build(
        "mixed_streams",
        (NUMBERS.node, NUMBERS.map(abs).node),
        names=("one", "other"),
        stages=((0, (1, 2)),),
        stop="drop",
        seed=0,
        unit="tokens",
        obstacle="unit='tokens' counts",
        length=abs,
    ),
    "prefetch": build("prefetch", NUMBERS, 2),
}


@pytest.mark.parametrize("op", [op for op in OPERATORS if op != "window elements"])
def test_every_operator_travels(op):
    node = EVERY_OPERATOR[op]

    arrived = travelled(node)

    assert [below.label for _, below in walk(arrived)] == [below.label for _, below in walk(node)]
    assert fingerprint(arrived) == fingerprint(node)
    assert repr(elements(arrived)) == repr(elements(node))


def test_a_dataset_that_exists_only_in_a_run_cannot_be_sent():
    inside = build("window elements", [1, 2])

    with pytest.raises(DefinitionError, match="flatten it there, as in window"):
        encode(Dataset(inside).map(abs).node)
    with pytest.raises(DefinitionError, match="of closure variable 'held': .*flatten it there"):
        encode(closing_over(Dataset(inside)))
