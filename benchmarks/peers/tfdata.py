"""tf.data and its service, for `bench_peers.py`: the same pipelines, with AUTOTUNE as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jobs
import numpy as np
import tensorflow as tf
from answering import answer

SERVICE = tf.data.experimental.service
KEPT: list[Any] = []


def _service() -> str:
    """Start a dispatcher and a worker in this process; return the target."""
    dispatcher = SERVICE.DispatchServer()
    address = dispatcher.target.split("://")[1]
    worker = SERVICE.WorkerServer(SERVICE.WorkerConfig(dispatcher_address=address))
    KEPT.extend((dispatcher, worker))
    return dispatcher.target


def _distributed(dataset: Any) -> Any:
    return dataset.apply(
        SERVICE.distribute("distributed_epoch", KEPT[0].target if KEPT else _service())
    )


def _slices() -> Any:
    return tf.data.Dataset.from_tensor_slices(np.arange(jobs.ROWS))


def _sent(nbytes: int) -> Callable[[], Any]:
    # Each element is filled anew, as the peers' are.
    def make(i: Any) -> Any:
        return tf.fill([nbytes], tf.cast(i % 251, tf.uint8))

    return lambda: _distributed(tf.data.Dataset.range(jobs.SENT[nbytes]).map(make))


JOBS: dict[str, Callable[[], Iterable[Any]]] = {
    jobs.SLICES: lambda: _slices().batch(256),
    jobs.SHUFFLED: lambda: _slices().shuffle(10_000).batch(256),
    jobs.BATCHED: lambda: tf.data.Dataset.range(jobs.ROWS).batch(256),
    jobs.SCALARS: lambda: _distributed(tf.data.Dataset.range(jobs.RANGE)),
    jobs.SMALLER: _sent(jobs.MIB),
    jobs.LARGER: _sent(jobs.LARGE),
}

if __name__ == "__main__":
    answer(JOBS)
