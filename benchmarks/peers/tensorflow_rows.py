"""What tf.data and its service do for each question."""

from __future__ import annotations

import os
import subprocess
import sys
import time
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

IMAGES_BYTES = 4 * int(np.prod(work.IMAGES))

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
    with serving() as target:
        yield _rows(target)


@contextmanager
def serving() -> Iterator[str]:
    """Start a dispatcher here, and two workers in processes; give the address."""
    with ExitStack() as held:
        dispatcher = service.DispatchServer()
        command = [sys.executable, "-c", WORKER, dispatcher.target.split("://")[1]]
        workers = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        for worker in workers:
            held.callback(worker.wait)
            held.callback(worker.kill)
        for worker in workers:
            worker.stdout.readline()
        yield dispatcher.target


def _far(dataset: tf.data.Dataset, target: str) -> Any:
    return _distributed(dataset, target).as_numpy_iterator


def _distributed(dataset: tf.data.Dataset, target: str) -> tf.data.Dataset:
    policy = service.ShardingPolicy.DYNAMIC
    return dataset.apply(service.distribute(policy, target, compression=None))


class Again:
    """A dataset as something that gives an iterator of arrays each time."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator

    def __iter__(self) -> Any:
        return self._iterator()


def _cold() -> float:
    """Return how long a service of two workers, in this process, takes to its first element."""
    began = time.perf_counter()
    dispatcher = service.DispatchServer()
    config = service.WorkerConfig(dispatcher_address=dispatcher.target.split("://")[1])
    workers = [service.WorkerServer(config) for _ in range(2)]
    next(iter(_far(tf.data.Dataset.range(10**9), dispatcher.target)()))
    took = time.perf_counter() - began
    del workers
    return took


def _cold_processes() -> float:
    """Do as `_cold`, with workers that are processes."""
    began = time.perf_counter()
    with serving() as target:
        next(iter(_far(tf.data.Dataset.range(10**9), target)()))
        return time.perf_counter() - began


def _picture(number: tf.Tensor) -> tf.Tensor:
    files = tf.constant(work.pictures())
    image = tf.io.decode_jpeg(files[number % work.PICTURES], channels=3)
    return tf.ensure_shape(tf.cast(image, tf.float32) / 255.0, (work.SIDE, work.SIDE, 3))


def _rows(target: str) -> Mapping[str, Any]:
    data, batch = tf.data.Dataset, work.BATCH
    rows = data.range(work.ROWS)
    slices = data.from_tensor_slices(np.arange(work.ROWS))
    forever = data.range(10**9)

    def near(dataset: tf.data.Dataset) -> Again:
        return Again(dataset.as_numpy_iterator)

    def far(dataset: tf.data.Dataset) -> Again:
        return Again(_far(dataset, target))

    near_shuffled = Again(_distributed(forever, target).shuffle(work.SHUFFLED).as_numpy_iterator)
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
        "near shuffled scalars": partial(counted, near_shuffled, 1, 100),
        "first element": work.Timed(partial(work.first_of, far(forever))),
        "cold": work.Timed(_cold),
        "cold: processes": work.Timed(_cold_processes),
        "reader CPU, 4.8 MB": work.ReaderCpu(partial(counted, far(images)), IMAGES_BYTES),
        "reader CPU, 1 MiB": work.ReaderCpu(partial(counted, far(mib)), work.MIB),
        "far ten elements": partial(whole, far(data.range(10))),
        "far 1 MiB": partial(counted, far(mib)),
        "far 4.8 MB": partial(counted, far(images)),
        "pictures": partial(
            counted, far(forever.map(_picture).batch(work.PICTURE_BATCH)), work.PICTURE_BATCH
        ),
    }
