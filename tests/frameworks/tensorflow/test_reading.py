"""`penstock.tensorflow.as_dataset`: specs, elements, checkpoints, strategies."""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from penstock import Dataset, Ragged, Reference
from penstock.errors import DatasetError, ElementError
from penstock.tensorflow import as_dataset


def values(batches):
    return [int(x) for batch in batches for x in batch.numpy()]


def test_elements_keep_their_nest_dtypes_and_shapes():
    def make(x):
        return {"x": np.float32([x, x]), "pair": (np.bool_(x % 2), f"é{x}"), "raw": b"\x00\xff"}

    made = as_dataset(Dataset.range(5).map(make).batch(2))

    assert made.element_spec == {
        "x": tf.TensorSpec((None, 2), tf.float32),
        "pair": (tf.TensorSpec((None,), tf.bool), tf.TensorSpec((None,), tf.string)),
        "raw": tf.TensorSpec((None,), tf.string),
    }
    *_, last = made
    assert last["x"].shape == (1, 2)
    assert last["pair"][1].numpy().tolist() == ["é4".encode()]
    assert last["raw"].numpy().tolist() == [b"\x00\xff"]


def test_batches_of_one_length_have_that_in_their_spec():
    made = as_dataset(Dataset.range(8).batch(4))

    assert made.element_spec == tf.TensorSpec((4,), tf.int64)


def document(i):
    images = [np.full((n + 1, 2), n, np.float32) for n in range(int(i))]
    return {
        "tokens": np.arange(i, dtype=np.int32),
        "words": np.array(["é"] * int(i), object),
        "images": Ragged.of(images, like=np.empty((0, 2), np.float32)),
        "label": i,
    }


def test_ragged_arrays_are_ragged_tensors():
    made = as_dataset(Dataset.range(1, 6).map(document).ragged_batch(2, fields=["tokens", "words"]))

    assert made.element_spec == {
        "tokens": tf.RaggedTensorSpec((None, None), tf.int32, 1, tf.int64),
        "words": tf.RaggedTensorSpec((None, None), tf.string, 1, tf.int64),
        "images": tf.RaggedTensorSpec((None, None, None, 2), tf.float32, 2, tf.int64),
        "label": tf.TensorSpec((None,), tf.int64),
    }
    first, *_, last = made
    assert first["tokens"].to_list() == [[0], [0, 1]]
    assert first["words"].to_list() == [["é".encode()], ["é".encode()] * 2]
    assert first["images"].to_list() == [[[[0, 0]]], [[[0, 0]], [[1, 1], [1, 1]]]]
    assert last["tokens"].shape.as_list() == [1, None]


def test_ragged_batches_of_one_size_have_that_in_their_spec_and_keep_their_place(tmp_path):
    documents = Dataset.range(8).map(lambda i: np.arange(i)).ragged_batch(2, drop_remainder=True)
    made = as_dataset(documents)
    it = iter(made)
    next(it)
    path = tf.train.Checkpoint(it=it).write(str(tmp_path / "place"))

    assert made.element_spec.shape.as_list() == [2, None]
    again = iter(as_dataset(documents))
    tf.train.Checkpoint(it=again).read(path)
    assert next(again).to_list() == [[0, 1], [0, 1, 2]]


def test_padded_lengths_are_axes_without_a_length():
    padded = Dataset.range(4).map(lambda x: np.arange(int(x) + 1)).padded_batch(2)

    made = as_dataset(padded)

    assert made.element_spec.shape.as_list() == [2, None]
    assert [batch.shape.as_list() for batch in made] == [[2, 2], [2, 4]]


@pytest.mark.parametrize("dtype", [np.float16, np.uint32, np.complex64, ml_dtypes.bfloat16])
def test_numbers_keep_their_dtype(dtype):
    array = np.array([1, 2]).astype(dtype)

    (tensor,) = as_dataset(Dataset.from_tensors(array))

    assert tensor.dtype == tf.as_dtype(np.dtype(dtype))
    assert tf.cast(tensor, tf.complex64).numpy().real.tolist() == [1, 2]


def test_what_tensorflow_has_not_is_refused():
    with pytest.raises(ElementError, match="TensorFlow has no arrays of datetime64"):
        as_dataset(Dataset.from_tensors(np.zeros(2, "M8[s]")))
    with pytest.raises(ElementError, match="flatten it"):
        as_dataset(Dataset.range(4).window(2))
    with pytest.raises(DatasetError, match=r"give a penstock.Dataset"):
        as_dataset([1, 2])


def test_references_are_refused_when_the_dataset_is_made():
    references = Dataset.range(3).map(lambda number: {"jpg": Reference("x.tar", number, 1)})

    with pytest.raises(ElementError, match=r"no tensors of a Reference: .*dataset\.resolve"):
        as_dataset(references)


def test_a_spec_that_is_given_makes_no_element():
    def fails(x):
        raise AssertionError("it was called")

    made = as_dataset(Dataset.range(3).map(fails), tf.TensorSpec((), tf.int64))

    assert made.element_spec == tf.TensorSpec((), tf.int64)


def test_the_cardinality_is_the_datasets():
    assert int(as_dataset(Dataset.range(9).batch(2)).cardinality()) == 5
    assert int(as_dataset(Dataset.range(9).repeat()).cardinality()) == tf.data.INFINITE_CARDINALITY


def test_a_function_reads_it_by_iterator_and_by_loop():
    made = as_dataset(Dataset.range(10).batch(2))

    @tf.function
    def total(batches):
        found = tf.constant(0, tf.int64)
        for batch in batches:
            found += tf.reduce_sum(batch)
        return found

    @tf.function
    def first(iterator):
        return next(iterator)

    assert int(total(made)) == 45
    assert first(iter(made)).numpy().tolist() == [0, 1]


def test_several_iterators_read_side_by_side():
    made = as_dataset(Dataset.range(4))

    assert [[int(x), int(y)] for x, y in tf.data.Dataset.zip((made, made.skip(1)))] == [
        [0, 1], [1, 2], [2, 3],
    ]  # fmt: skip


@pytest.mark.parametrize("what", ["dataset", "iterator"])
@pytest.mark.parametrize("taken", [0, 2, 5])
def test_a_checkpoint_keeps_the_place(what, taken, tmp_path):
    pipeline = Dataset.range(50).shuffle(20, seed=4).batch(8)
    first = as_dataset(pipeline)
    batches = iter(first)
    for _ in range(taken):
        next(batches)
    path = tf.train.Checkpoint(input=first if what == "dataset" else batches).save(tmp_path / "c")
    rest = values(batches)

    again = as_dataset(pipeline)
    onward = again if what == "dataset" else iter(again)
    tf.train.Checkpoint(input=onward).restore(path).assert_consumed()

    assert values(onward) == rest
    assert sorted(values(again)) == list(range(50))


def test_a_restored_iterator_goes_back(tmp_path):
    batches = iter(as_dataset(Dataset.range(6)))
    checkpoint = tf.train.Checkpoint(input=batches)
    next(batches)
    path = checkpoint.save(tmp_path / "c")
    assert [int(x) for x in batches] == [1, 2, 3, 4, 5]

    checkpoint.restore(path)

    assert [int(x) for x in batches] == [1, 2, 3, 4, 5]


def test_a_job_gives_each_element_once_and_goes_on_from_a_checkpoint(cluster, tmp_path):
    def made():
        read = Dataset.range(200).batch(10).distribute("distributed_epoch", cluster.target)
        return as_dataset(read)

    first = made()
    batches = iter(first)
    before = values([next(batches) for _ in range(6)])
    path = tf.train.Checkpoint(input=first).save(tmp_path / "c")
    del batches, first
    again = made()
    tf.train.Checkpoint(input=again).restore(path)

    assert sorted(before + values(again)) == list(range(200))


def test_a_strategy_is_given_what_each_replica_asks_for_and_shards_nothing():
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    by_function = strategy.distribute_datasets_from_function(
        lambda context: as_dataset(Dataset.range(12).batch(3))
    )
    by_itself = strategy.experimental_distribute_dataset(as_dataset(Dataset.range(12).batch(3)))

    assert values(by_function) == values(by_itself) == list(range(12))
