"""TensorFlow's own client of tf.data service reads from the mesh: nothing of ours is around it."""

import os
import signal
import textwrap
import threading
import time
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from penstock import Dataset
from penstock.service import register_dataset
from penstock_cluster import LocalCluster
from penstock_cluster.cli.status import look
from penstock_dispatcher import DispatcherConfig
from penstock_worker import WorkerConfig
from tests.frameworks.warm import Program

service = tf.data.experimental.service
NUMBER = tf.TensorSpec((), tf.int64)

QUICK = DispatcherConfig(worker_timeout=2.0, client_timeout=3.0)


def read_by(target, dataset_id, job_name=None, mode="distributed_epoch", spec=NUMBER, **more):
    return service.from_dataset_id(
        mode, target, dataset_id, element_spec=spec, job_name=job_name, **more
    )


def slow(x):
    time.sleep(0.002)
    return x


@pytest.fixture
def target(cluster):
    return cluster.target


def test_every_element_comes_once_in_each_repetition(target):
    register_dataset(target, Dataset.range(300).map(lambda x: 2 * x), dataset_id="doubles")
    dataset = read_by(target, "doubles", "epochs")

    passes = [sorted(int(x) for x in dataset) for _ in range(2)]
    repeated = Counter(int(x) for x in read_by(target, "doubles", "repeated").repeat(3))

    assert passes == [[2 * x for x in range(300)]] * 2
    assert repeated == dict.fromkeys(range(0, 600, 2), 3)


def test_what_elements_look_like_is_known_to_it(target):
    def example(x):
        return {"image": np.full((2, 3), x, np.float32), "name": str(x), "label": np.int32(x)}

    register_dataset(target, Dataset.range(64).map(example).batch(4), dataset_id="examples")

    dataset = read_by(target, "examples", spec=None)
    batches = list(dataset)

    assert dataset.element_spec == {
        "image": tf.TensorSpec((None, 2, 3), tf.float32),
        "name": tf.TensorSpec((None,), tf.string),
        "label": tf.TensorSpec((None,), tf.int32),
    }
    labels = sorted(int(x) for batch in batches for x in batch["label"])
    names = sorted(int(x.numpy()) for batch in batches for x in batch["name"])
    images = sorted(int(x[0, 0]) for batch in batches for x in batch["image"])
    assert labels == names == images == list(range(64))


def test_within_a_function_of_tensorflow(target):
    register_dataset(target, Dataset.range(100).batch(10), dataset_id="tens")
    blocks = read_by(target, "tens", "graph", spec=tf.TensorSpec((None,), tf.int64))

    @tf.function
    def total(dataset):
        found = tf.constant(0, tf.int64)
        for x in dataset:
            found += x
        return found

    assert int(total(blocks.unbatch())) == sum(range(100))


@pytest.mark.parametrize("compression", ["SNAPPY", "AUTO", None])
def test_elements_come_compressed_where_they_are_registered_so(target, compression):
    def example(x):
        return {"text": np.array([str(x), ""]), "zeros": np.zeros((300, 300), np.float32), "x": x}

    name = f"compressed {compression}"
    register_dataset(target, Dataset.range(40).map(example), compression, dataset_id=name)

    found = list(read_by(target, name, spec=None))

    assert sorted(int(one["x"]) for one in found) == list(range(40))
    assert all(int(one["text"][0].numpy()) == int(one["x"]) for one in found)
    assert all(one["text"][1].numpy() == b"" for one in found)
    assert not any(one["zeros"].numpy().any() for one in found)


READS = """
    import sys
    import tensorflow as tf

    read = tf.data.experimental.service.from_dataset_id(
        "parallel_epochs", sys.argv[1], "endless", tf.TensorSpec((), tf.int64), job_name="left"
    )
    for _ in read:
        print("read", flush=True)
"""


def test_a_client_that_is_killed_is_gone_after_its_lease_and_its_job_is_collected(tmp_path):
    program = tmp_path / "reads.py"
    program.write_text(textwrap.dedent(READS))
    config = DispatcherConfig(client_timeout=3.0, job_gc_timeout=1.0, job_gc_check_interval=0.5)

    with LocalCluster(1, dispatcher=config) as cluster:
        register_dataset(cluster.target, Dataset.range(2**40).map(slow), dataset_id="endless")
        client = Program(program, cluster.target, errors=tmp_path / "errors.txt")
        try:
            assert client.stdout.readline() == "read\n", client.errors()
        finally:
            client.kill()
            client.close()

        until(lambda: not any(one.live_readers for one in look(cluster.target).stats.iterations))
        until(lambda: not look(cluster.target).stats.iterations)


def until(true):
    """Wait until *true* is."""
    deadline = time.monotonic() + 100
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_two_consumers_share_a_job(target):
    register_dataset(target, Dataset.range(400).map(slow), dataset_id="shared")
    got = read_at_once(2, lambda _: (int(x) for x in read_by(target, "shared", "both")))

    assert sorted(got[0] + got[1]) == list(range(400))
    assert all(got)


def test_consumers_in_step_get_elements_of_one_group_each(target):
    register_dataset(target, Dataset.range(1000).repeat(), dataset_id="groups")

    def consume(index):
        dataset = read_by(
            target, "groups", "in step", "parallel_epochs", consumer_index=index, num_consumers=2
        )
        return (int(x) for x in dataset.take(40))

    first, second = read_at_once(2, consume)

    assert len(first) == 40
    assert [x + 1 for x in first] == second


def test_a_graph_cannot_be_registered_and_the_error_says_what_to_do(target):
    with pytest.raises(tf.errors.UnimplementedError, match="penstock.service.register_dataset"):
        service.register_dataset(target, tf.data.Dataset.range(3))


def test_what_a_users_function_raises_is_told(target):
    def broken(x):
        raise ValueError(f"no good: {x}")

    register_dataset(target, Dataset.range(4).map(broken), dataset_id="broken", element_spec=None)

    with pytest.raises(tf.errors.InvalidArgumentError, match="no good"):
        list(read_by(target, "broken", "fails"))


def test_a_keras_model_is_fed(target):
    def example(x):
        return np.full((4,), x % 2, np.float32), np.float32(x % 2)

    register_dataset(target, Dataset.range(512).map(example).batch(32), dataset_id="keras")
    spec = (tf.TensorSpec((None, 4), tf.float32), tf.TensorSpec((None,), tf.float32))
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.05), loss="mse")

    fitted = model.fit(read_by(target, "keras", "fit", spec=spec).repeat(3), verbose=0)

    assert fitted.history["loss"][-1] < 0.3


@pytest.fixture
def own(clusters, tmp_path):
    """A cluster that a test may kill."""
    clusters.close()
    config = DispatcherConfig(worker_timeout=2.0, client_timeout=3.0)
    worker = WorkerConfig(buffer_bytes=1 << 20)
    with LocalCluster(2, work_dir=tmp_path, dispatcher=config, worker=worker) as cluster:
        yield cluster


def test_a_dispatcher_that_is_killed_goes_on_and_nothing_is_lost_or_repeated(own):
    register_dataset(own.target, Dataset.range(1500).map(slow), dataset_id="train")
    got = []
    for number, x in enumerate(read_by(own.target, "train", "through a restart")):
        got.append(int(x))
        if number == 300:
            own.dispatcher.kill()
            own.dispatcher.restart()

    assert sorted(got) == list(range(1500))


def test_a_worker_that_is_killed_loses_nothing(own):
    register_dataset(own.target, Dataset.range(1500).map(slow), dataset_id="train")
    got = Counter()
    for number, x in enumerate(read_by(own.target, "train", "through a death")):
        got[int(x)] += 1
        if number == 300:
            os.kill(own.workers[0].pid, signal.SIGKILL)

    assert set(got) == set(range(1500))
    # What it answered in its last second or so is not known to anybody else.
    assert sum(got.values()) - 1500 < 1200


def read_at_once(number, elements):
    """Read in threads; return what each got."""
    got = [[] for _ in range(number)]

    def read(index):
        got[index] = list(elements(index))

    threads = [threading.Thread(target=read, args=(index,)) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return got
