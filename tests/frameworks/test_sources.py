"""Datasets of PyTorch, Hugging Face and TensorFlow as sources, here and on workers."""

import datasets
import numpy as np
import pytest
import tensorflow as tf
import torch
from datasets.distributed import split_dataset_by_node

from penstock import Dataset
from penstock.errors import TransformError


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        return (
            torch.full((2,), i, dtype=torch.bfloat16),
            torch.tensor(float(i), requires_grad=True),
            i,
        )


def build():
    whole = tf.data.Dataset.range(40)
    return whole.map(lambda x: {"x": x, "s": tf.strings.as_string(x)})


def unknown():
    return tf.data.Dataset.range(40).filter(lambda x: x % 2 == 0)


@pytest.fixture
def rows():
    return datasets.Dataset.from_dict(
        {
            "x": np.arange(40, dtype=np.int32),
            "s": [f"s{i}" for i in range(40)],
            "ragged": [[1.0] * (i % 3) for i in range(40)],
            "pair": np.arange(80).reshape(40, 2),
            "flag": [i % 2 == 0 for i in range(40)],
        }
    )


def read(dataset, cluster):
    return dataset.distribute("distributed_epoch", cluster.target)


def goes_on(dataset, number, taken=7):
    """Read some, go on from a state elsewhere; return the numbers of all, by *number*."""
    with iter(dataset) as elements:
        before = [number(next(elements)) for _ in range(taken)]
        state = elements.state()
    return before + [number(each) for each in dataset.iterator(state)]


def test_samples_of_a_map_style_dataset_come_once_and_go_on(cluster):
    dataset = Dataset.from_torch(Samples())

    half, grad, i = list(dataset)[3]
    assert (str(half.dtype), half.tolist(), float(grad), int(i)) == ("bfloat16", [3, 3], 3.0, 3)
    assert goes_on(dataset, lambda each: int(each[2])) == list(range(40))
    assert sorted(goes_on(read(dataset, cluster), lambda each: int(each[2]))) == list(range(40))


def test_tensors_that_a_map_returns_become_arrays():
    made = Dataset.range(2).map(lambda x: torch.ones(2, dtype=torch.bfloat16, requires_grad=True))

    assert [each.tolist() for each in made] == [[1, 1], [1, 1]]


def test_rows_come_with_their_columns_in_arrows_memory(rows):
    (first, *_) = Dataset.from_huggingface(rows)

    assert {name: getattr(each, "dtype", type(each)) for name, each in first.items()} == {
        "x": np.int32, "s": str, "ragged": np.float64, "pair": np.int64, "flag": np.bool_,
    }  # fmt: skip
    whole = rows.data.column("pair").chunk(0).values.to_numpy()
    assert np.shares_memory(first["pair"], whole)


def test_rows_on_disk_come_once_and_go_on(rows, cluster, tmp_path):
    rows.save_to_disk(tmp_path / "rows")
    for source in (rows, datasets.load_from_disk(tmp_path / "rows"), rows.shuffle(seed=1)):
        dataset = Dataset.from_huggingface(source)

        assert len(dataset) == 40
        assert sorted(goes_on(dataset, lambda each: int(each["x"]))) == list(range(40))
        assert sorted(goes_on(read(dataset, cluster), lambda each: int(each["x"]))) == list(
            range(40)
        )


def test_arrays_of_several_axes_and_classes_keep_their_dtypes():
    features = datasets.Features(
        {
            "x": datasets.Array2D((2, 3), "float32"),
            "y": datasets.ClassLabel(names=["a", "b"]),
        }
    )
    rows = datasets.Dataset.from_dict({"x": np.zeros((4, 2, 3)), "y": [0, 1, 0, 1]}, features)

    (batch,) = Dataset.from_huggingface(rows).batch(4)

    assert (batch["x"].dtype, batch["x"].shape) == (np.float32, (4, 2, 3))
    assert batch["y"].tolist() == [0, 1, 0, 1]


def test_images_are_decoded():
    from PIL import Image

    pictures = [Image.fromarray(np.full((4, 5, 3), i, np.uint8)) for i in range(3)]
    rows = datasets.Dataset.from_dict(
        {"image": pictures, "n": [0, 1, 2]},
        datasets.Features({"image": datasets.Image(), "n": datasets.Value("float32")}),
    )

    (batch,) = Dataset.from_huggingface(rows).batch(3)

    assert (batch["image"].shape, batch["image"].dtype) == ((3, 4, 5, 3), np.uint8)
    assert (batch["image"][:, 0, 0, 0].tolist(), batch["n"].dtype) == ([0, 1, 2], np.float32)


def test_a_format_of_the_users_holds(rows):
    shown = rows.with_transform(lambda batch: {"double": [2 * x for x in batch["x"]]})

    assert [int(each["double"]) for each in Dataset.from_huggingface(shown)][:3] == [0, 2, 4]


def test_a_row_with_a_gap_is_an_error_in_its_place():
    elements = iter(Dataset.from_huggingface(datasets.Dataset.from_dict({"x": [1, None, 3]})))

    assert int(next(elements)["x"]) == 1
    with pytest.raises(TransformError, match="cannot hold None"):
        next(elements)
    assert int(next(elements)["x"]) == 3


def test_a_stream_is_split_by_its_shards_and_goes_on(rows, cluster):
    stream = Dataset.from_huggingface(rows.to_iterable_dataset(num_shards=4))

    assert goes_on(stream, lambda each: int(each["x"])) == list(range(40))
    assert sorted(goes_on(read(stream, cluster), lambda each: int(each["x"]))) == list(range(40))


@pytest.mark.parametrize(("fn", "wanted"), [(build, range(40)), (unknown, range(0, 40, 2))])
def test_a_pipeline_of_tensorflow_comes_once_and_goes_on(fn, wanted, cluster):
    def number(each):
        return int(each["x"] if isinstance(each, dict) else each)

    dataset = Dataset.from_tf(fn)

    assert dataset.cardinality() == (40 if fn is build else -2)
    assert goes_on(dataset, number) == list(wanted)
    assert sorted(goes_on(read(dataset, cluster), number)) == list(wanted)


@pytest.mark.parametrize(
    "change",
    [
        lambda stream: stream.take(3),
        lambda stream: stream.skip(3),
        lambda stream: stream.batch(4),
        lambda stream: datasets.interleave_datasets([stream, stream]),
        lambda stream: split_dataset_by_node(stream, 1, 2),
        lambda stream: stream.map(lambda row, i: {"x": i}, with_indices=True),
        lambda stream: stream.filter(lambda row: row["x"] % 2),
    ],
)
def test_a_stream_gives_what_the_library_gives(change):
    whole = change(datasets.Dataset.from_dict({"x": range(12)}).to_iterable_dataset(num_shards=2))

    ours = [np.asarray(row["x"]).tolist() for row in Dataset.from_huggingface(whole)]

    assert sorted(ours) == sorted(row["x"] for row in whole)


def test_the_epoch_of_a_stream_reaches_each_shard():
    rows = datasets.Dataset.from_dict({"x": range(80)}).to_iterable_dataset(num_shards=4)
    shuffled = rows.shuffle(seed=1, buffer_size=20)
    orders = set()
    for epoch in range(3):
        shuffled.set_epoch(epoch)
        orders.add(tuple(int(row["x"]) for row in Dataset.from_huggingface(shuffled)))

    assert len(orders) == 3


@pytest.mark.parametrize("stream", [False, True], ids=["rows", "stream"])
def test_columns_have_the_types_that_the_features_declare(stream):
    value, lists = datasets.Value, datasets.List
    features = datasets.Features(
        {
            "small": value("int8"),
            "empty": lists(value("int32")),
            "nested": lists(lists(value("int16"))),
            "flags": lists(value("bool")),
            "moment": value("timestamp[s]"),
            "inner": {"x": value("float16")},
        }
    )
    row = {"small": 1, "empty": [], "nested": [[1], [2]], "flags": [True], "moment": 3}
    row["inner"] = {"x": 1.0}
    rows = datasets.Dataset.from_dict({k: [v] for k, v in row.items()}, features=features)

    made = next(iter(Dataset.from_huggingface(rows.to_iterable_dataset() if stream else rows)))

    inner = made.pop("inner")
    found = {name: str(each.dtype) for name, each in made.items()} | {"x": str(inner["x"].dtype)}
    assert found == {
        "small": "int8", "empty": "int32", "nested": "int16", "flags": "bool",
        "moment": "datetime64[s]", "x": "float16",
    }  # fmt: skip
