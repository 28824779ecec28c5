"""`element_spec`: one element is made, once, and the graph says which axes may differ."""

from __future__ import annotations

import pickle
import threading
from typing import Any, NamedTuple

import numpy as np
import pytest

from penstock.analysis.array_spec import ArraySpec, DatasetSpec
from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, MissingFile
from penstock.serialization.fingerprint import fingerprint
from penstock.service import SHARD_HINT

INT = np.dtype(np.int64)


class Pair(NamedTuple):
    a: Any
    b: Any


def ints(*shape):
    return ArraySpec(shape, INT)


def packs(*shapes):
    """Packs whose tokens have the first half of *shapes*, and cu_seqlens the other half."""
    half = len(shapes) // 2
    small = ArraySpec(shapes[:half], np.dtype(np.int32))
    return {
        "tokens": ints(*shapes[:half]),
        "segment_ids": small,
        "positions": small,
        "cu_seqlens": ArraySpec(shapes[half:], np.dtype(np.int32)),
    }


def rows():
    """Arrays of one, two, three ... numbers."""
    return Dataset.range(1, 6).map(lambda n: np.arange(n))


@pytest.mark.parametrize(
    ("make", "spec"),
    [
        (lambda: Dataset.range(5), ints()),
        (lambda: Dataset.from_tensors("text"), ArraySpec((), str)),
        (lambda: Dataset.from_tensors([b"a", b"b"]), ArraySpec((2,), bytes)),
        (
            lambda: Dataset.range(2).map(lambda x: Pair({"x": np.zeros((2, 3), "f4")}, b"")),
            Pair({"x": ArraySpec((2, 3), np.dtype("f4"))}, ArraySpec((), bytes)),
        ),
        (lambda: Dataset.range(5).batch(2), ints(None)),
        (lambda: Dataset.range(4).batch(2), ints(2)),
        (lambda: Dataset.range(3).batch(5), ints(None)),
        (lambda: Dataset.range(5).batch(2, drop_remainder=True), ints(2)),
        (lambda: Dataset.range(5).repeat().batch(2), ints(2)),
        (lambda: Dataset.range(5).filter(lambda x: x > 0).batch(2), ints(None)),
        (lambda: Dataset.range(9).batch(2).batch(3), ints(None, None)),
        (lambda: Dataset.range(8).batch(2).batch(3), ints(None, 2)),
        (lambda: Dataset.range(5).batch(2).shuffle(3).take(1).prefetch(1), ints(None)),
        (lambda: rows().padded_batch(5), ints(5, None)),
        (lambda: rows().padded_batch(2, padded_shapes=(7,)), ints(None, 7)),
        (lambda: rows().padded_batch(2).batch(1), ints(1, None, None)),
        (lambda: rows().padded_batch(2).unbatch(), ints(None)),
        (lambda: Dataset.range(6).batch(2).unbatch(), ints()),
        (lambda: Dataset.range(6).batch(2).rebatch(3), ints(None)),
        (lambda: Dataset.range(6).batch(2).rebatch(3, drop_remainder=True), ints(3)),
        (lambda: Dataset.range(4).batch(2).enumerate(), (ints(), ints(2))),
        (
            lambda: Dataset.zip({"a": Dataset.range(5).batch(2), "b": (Dataset.range(9),)}),
            {"a": ints(None), "b": (ints(),)},
        ),
        (lambda: Dataset.range(3).batch(3).concatenate(Dataset.range(4).batch(3)), ints(None)),
        (lambda: Dataset.range(6).window(2), DatasetSpec(ints())),
        (
            lambda: Dataset.range(5).batch(2).enumerate().window(2),
            (DatasetSpec(ints()), DatasetSpec(ints(None))),
        ),
        (lambda: Dataset.range(6).window(2).flat_map(lambda w: w.batch(2)), ints(None)),
        (
            lambda: Dataset.range(6).window(2).flat_map(lambda w: w.batch(2, drop_remainder=True)),
            ints(2),
        ),
        (lambda: Dataset.range(6).interleave(lambda n: Dataset.range(n + 1).batch(4)), ints(None)),
        (lambda: rows().bucket_by_sequence_length(len, [3], [2, 2]), ints(None, None)),
        (lambda: rows().pack(7, field=None), packs(None, None)),
        (lambda: rows().pack(7, field=None, pad=0), packs(7, 8)),
        (lambda: rows().pack(7, field=None, pad=0).batch(1), packs(1, 7, 1, 8)),
        (lambda: rows().token_batches(7, field=None), packs(None, None)),
        (lambda: Dataset.range(9).batch(2).balance(2, len), ints(None)),
        (lambda: Dataset.range(5).batch(2).map(lambda x: (x * 2, x.sum())), (ints(None), ints())),
        (lambda: Dataset.range(3).batch(5).map(lambda x: x * 2), ints(None)),
        (lambda: Dataset.range(5).batch(2, True).map(lambda x: x * 2), ints(2)),
        (lambda: Dataset.range(5).batch(2).unbatch().map(lambda x: np.zeros(2, int)), ints(2)),
    ],
)
def test_axes_that_may_differ_are_none(make, spec):
    assert make().element_spec == spec


@pytest.mark.parametrize(
    ("mode", "spec"), [("parallel_epochs", ints(2)), ("distributed_epoch", ints(None))]
)
def test_what_is_distributed_is_run_here_and_tasks_may_have_short_batches(mode, spec):
    nobody = "grpc://127.0.0.1:1"

    dataset = Dataset.range(4).batch(2).distribute(mode, nobody).prefetch(1)

    assert dataset.element_spec == spec


def test_what_cannot_run_here_says_why_it_is_run_here():
    dataset = (
        Dataset.text_lines("/nowhere/*").map(len).distribute("distributed_epoch", "127.0.0.1:1")
    )

    with pytest.raises(MissingFile) as failed:
        dataset.element_spec

    assert "without workers" in failed.value.__notes__[0]


def test_one_element_is_made_at_the_first_use_only_and_nothing_else_asks_for_it():
    made = []
    dataset = Dataset.range(100).map(lambda x: made.append(x) or x)
    dataset.cardinality()
    repr(dataset)
    dataset.batch(2)
    before = len(made)

    specs = [dataset.element_spec, dataset.element_spec]

    assert before == 0
    assert made == [0]
    assert specs == [ints()] * 2


def test_a_dataset_whose_elements_are_known_is_the_same_dataset_as_before():
    inner = Dataset.range(3)
    before = fingerprint(Dataset.range(2).flat_map(lambda _: inner).node)

    inner.element_spec

    assert fingerprint(Dataset.range(2).flat_map(lambda _: inner).node) == before
    assert list(pickle.loads(pickle.dumps(inner))) == [0, 1, 2]


def test_an_empty_dataset_says_so():
    with pytest.raises(DatasetError, match="element_spec: the dataset has no elements"):
        Dataset.range(0).map(abs).element_spec


def test_no_thread_is_left():
    before = set(threading.enumerate())

    ahead = Dataset.range(1000).map(lambda x: x, num_parallel_calls=2).prefetch(10)
    spec = ahead.interleave(lambda x: Dataset.range(3), num_parallel_calls=2).element_spec

    assert spec == ints()
    assert set(threading.enumerate()) <= before


def test_a_hint_of_a_shard_does_not_hide_what_elements_look_like():
    hinted = Dataset.range(8).map(lambda x: x).shard(SHARD_HINT, SHARD_HINT).batch(2)

    assert hinted.element_spec == ints(None)
