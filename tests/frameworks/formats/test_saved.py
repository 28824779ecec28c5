"""What Penstock saves, as others read it."""

import json

import duckdb
import numpy as np
import polars as pl
import pyarrow.dataset
import pytest
import tensorflow as tf
import webdataset

from penstock.dataset.dataset import Dataset
from tests.frameworks.formats.mosaic import MDSReader

COUNT = 100


def sample(x):
    return {
        "n": x,
        "name": f"sample {x}",
        "data": b"\0" * int(x),
        "tokens": np.arange(x % 5),
        "image": np.full((2, 3), x, np.uint8),
        "score": np.float32(x) / 2,
    }


@pytest.fixture
def saved(tmp_path):
    """Save samples in a format; return the folder of the files."""

    def save(form):
        path = tmp_path / form
        Dataset.range(COUNT).map(sample).save(path, format=form, chunk_bytes=2000)
        return path / "data"

    return save


def check(read):
    """Check what a reader made of the samples: their numbers, names and so on, in columns."""
    assert list(read["n"]) == list(range(COUNT))
    assert list(read["name"]) == [f"sample {x}" for x in range(COUNT)]
    assert list(map(len, read["data"])) == list(range(COUNT))
    assert [list(tokens) for tokens in read["tokens"]] == [list(range(x % 5)) for x in range(COUNT)]
    assert list(read["score"]) == [x / 2 for x in range(COUNT)]
    assert [np.asarray(image).tolist() for image in read["image"]] == [
        [[x] * 3] * 2 for x in range(COUNT)
    ]


def shaped(images):
    return [np.reshape(image["data"], image["shape"]) for image in images]


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_pyarrow_reads_tables(saved, form):
    read = pyarrow.dataset.dataset(saved(form), format=form).to_table().to_pydict()

    check({**read, "image": shaped(read["image"])})


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_polars_reads_tables(saved, form):
    scan = pl.scan_ipc if form == "arrow" else pl.scan_parquet
    read = scan(saved(form) / f"*.{form}").collect().to_dict(as_series=False)

    check({**read, "image": shaped(read["image"])})


def test_duckdb_reads_parquet_and_tables_of_arrow(saved):
    found = [duckdb.sql(f"SELECT * FROM '{saved('parquet')}/*.parquet' ORDER BY n")]
    arrow = pyarrow.dataset.dataset(saved("arrow"), format="arrow")
    found.append(duckdb.from_arrow(arrow).order("n"))
    for rows in found:
        read = rows.to_arrow_table().to_pydict()
        check({**read, "image": shaped(read["image"])})


def test_tensorflow_reads_examples(saved):
    files = sorted(map(str, saved("tfrecord").iterdir()))
    features = {
        "n": tf.io.FixedLenFeature([], tf.int64),
        "name": tf.io.FixedLenFeature([], tf.string),
        "data": tf.io.FixedLenFeature([], tf.string),
        "tokens": tf.io.VarLenFeature(tf.int64),
        "image": tf.io.FixedLenFeature([], tf.string),
        "image.shape": tf.io.FixedLenFeature([2], tf.int64),
        "score": tf.io.FixedLenFeature([], tf.float32),
    }
    read = {name: [] for name in features}
    for record in tf.data.TFRecordDataset(files):
        for name, value in tf.io.parse_single_example(record, features).items():
            read[name].append(value)
    images = zip(read["image"], read["image.shape"], strict=True)

    check(
        {
            **{name: np.array(read[name]) for name in ("n", "score")},
            "name": [name.numpy().decode() for name in read["name"]],
            "data": [data.numpy() for data in read["data"]],
            "tokens": [tf.sparse.to_dense(tokens).numpy() for tokens in read["tokens"]],
            "image": [tf.reshape(tf.io.decode_raw(i, tf.uint8), s).numpy() for i, s in images],
        }
    )


def test_webdataset_reads_archives(saved):
    files = sorted(map(str, saved("webdataset").iterdir()))
    samples = list(webdataset.WebDataset(files, shardshuffle=False).decode())

    check(
        {
            "n": [one["n.cls"] for one in samples],
            "name": [one["name.txt"] for one in samples],
            "data": [one["data"] for one in samples],
            "tokens": [one["tokens.npy"] for one in samples],
            "image": [one["image.npy"] for one in samples],
            "score": [one["score.npy"] for one in samples],
        }
    )


def test_mosaic_reads_shards(saved):
    folder = saved("mds")
    index = json.loads((folder / "index.json").read_text())
    shards = [MDSReader.from_json(str(folder), None, told) for told in index["shards"]]
    samples = [shard[number] for shard in shards for number in range(len(shard))]

    check({name: [one[name] for one in samples] for name in samples[0]})
