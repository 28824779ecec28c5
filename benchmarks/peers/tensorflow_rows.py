"""What tf.data and its service do for each question."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np
import tensorflow as tf
import work
from work import counted, endlessly, whole

service = tf.data.experimental.service

WORKER = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
config = tf.data.experimental.service.WorkerConfig(dispatcher_address=sys.argv[1])
worker = tf.data.experimental.service.WorkerServer(config)
print("ready", flush=True)
sys.stdin.read()
"""


def version() -> str:
    """Return which TensorFlow this is."""
    return f"tf.data {tf.__version__}"


@contextmanager
def ready() -> Iterator[Mapping[str, Any]]:
    """Have a service of two workers, each a process; give the rows."""
    with ExitStack() as held:
        dispatcher = service.DispatchServer()
        address = dispatcher.target.split("://")[1]
        for _ in range(2):
            worker = subprocess.Popen(
                [sys.executable, "-c", WORKER, address],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            held.callback(worker.kill)
            worker.stdout.readline()
        yield _rows(dispatcher.target)


def _far(dataset: tf.data.Dataset, target: str) -> Any:
    return dataset.apply(
        service.distribute(service.ShardingPolicy.DYNAMIC, target, compression=None)
    ).as_numpy_iterator


class _Again:
    """A dataset as something that gives an iterator of arrays each time."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator

    def __iter__(self) -> Any:
        return self._iterator()


def _picture(number: tf.Tensor) -> tf.Tensor:
    files = tf.constant(work.pictures())
    image = tf.io.decode_jpeg(files[number % work.PICTURES], channels=3)
    return tf.ensure_shape(tf.cast(image, tf.float32) / 255.0, (work.SIDE, work.SIDE, 3))


def _rows(target: str) -> Mapping[str, Any]:
    data, batch = tf.data.Dataset, work.BATCH
    rows = data.range(work.ROWS)
    slices = data.from_tensor_slices(np.arange(work.ROWS))
    forever = data.range(10**9)

    def near(dataset: tf.data.Dataset) -> _Again:
        return _Again(dataset.as_numpy_iterator)

    def far(dataset: tf.data.Dataset) -> _Again:
        return _Again(_far(dataset, target))

    mib = forever.map(lambda _: tf.zeros([work.MIB], tf.uint8))
    images = forever.map(lambda _: tf.zeros(work.IMAGES, tf.float32))
    return {
        "slices": partial(endlessly, near(slices.batch(batch)), batch),
        "shuffled slices": partial(
            endlessly, near(slices.shuffle(work.SHUFFLED).batch(batch)), batch
        ),
        "map": partial(endlessly, near(rows.map(lambda x: x * x)), 1, 1000),
        "windows": partial(endlessly, near(rows.window(8).flat_map(lambda x: x)), 1, 1000),
        "far scalars": partial(counted, far(forever), 1, 100),
        "far shuffled scalars": partial(counted, far(forever.shuffle(work.SHUFFLED)), 1, 100),
        "far ten elements": partial(whole, far(data.range(10))),
        "far 1 MiB": partial(counted, far(mib)),
        "far 4.8 MB": partial(counted, far(images)),
        "pictures": partial(
            counted, far(forever.map(_picture).batch(work.PICTURE_BATCH)), work.PICTURE_BATCH
        ),
    }
