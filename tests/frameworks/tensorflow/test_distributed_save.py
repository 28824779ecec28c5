"""TensorFlow's own `load` reads what `distributed_save` writes, also while it is written."""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from penstock import Dataset
from penstock.errors import TransformError
from penstock.service import distributed_save
from penstock_cluster import LocalCluster

COUNT = 500


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(workers=2) as cluster:
        yield cluster


def element(x):
    return {"x": x, "part": (np.arange(x % 5, dtype=np.float32), f"é{x}"), "raw": b"\x00\xff"}


def save(dataset, path, cluster, **options):
    return distributed_save(dataset, str(path), cluster.target, format="tfrecord", **options)


@pytest.mark.parametrize("compression", [None, "AUTO", "GZIP"])
def test_each_compression(cluster, tmp_path, compression):
    save(Dataset.range(COUNT).map(element), tmp_path / "s", cluster, compression=compression).wait()
    loaded = tf.data.Dataset.load(str(tmp_path / "s"))

    assert loaded.element_spec == {
        "x": tf.TensorSpec((), tf.int64),
        "part": (tf.TensorSpec((None,), tf.float32), tf.TensorSpec((), tf.string)),
        "raw": tf.TensorSpec((), tf.string),
    }
    found = {int(each["x"]): each for each in loaded.as_numpy_iterator()}
    assert sorted(found) == list(range(COUNT))
    assert found[9]["part"][0].tolist() == [0, 1, 2, 3]
    assert found[9]["part"][1].decode() == "é9"


def test_arrays_of_text_and_an_empty_dataset(cluster, tmp_path):
    words = Dataset.range(3).map(lambda n: np.array(["é"] * int(n), object))
    save(words, tmp_path / "words", cluster).wait()
    found = tf.data.Dataset.load(str(tmp_path / "words")).as_numpy_iterator()
    assert sorted(len(each) for each in found) == [0, 1, 2]

    save(Dataset.range(0), tmp_path / "none", cluster).wait()
    assert list(tf.data.Dataset.load(str(tmp_path / "none"), wait=True)) == []


def test_it_is_read_while_it_is_written(cluster, tmp_path):
    got, gate = [], tmp_path / "gate"

    def held(x):
        time.sleep(0.005)
        while x == COUNT - 1 and not gate.exists():
            time.sleep(0.01)
        return x

    def read():
        for each in tf.data.Dataset.load(str(tmp_path / "s"), wait=True):
            got.append(int(each))
            gate.touch()

    job = save(Dataset.range(COUNT).map(held), tmp_path / "s", cluster, chunk_seconds=0.2)
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    job.wait(120)
    reader.join(60)

    assert sorted(got) == list(range(COUNT))


def test_a_failed_save_tells_its_error(cluster, tmp_path):
    def bad(x):
        if x == 7:
            raise ValueError("not this one")
        return x

    job = save(Dataset.range(9).map(bad), tmp_path / "s", cluster)
    with pytest.raises(TransformError, match="not this one"):
        job.wait(60)
    with pytest.raises(ValueError, match="(?s)save job failed to write it.*not this one"):
        list(tf.data.Dataset.load(str(tmp_path / "s")))
