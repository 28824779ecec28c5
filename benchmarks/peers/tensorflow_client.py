"""TensorFlow's client of tf.data service: reads from its own server or ours, as it is told."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import tensorflow as tf

service = tf.data.experimental.service
SECONDS = 1.5
MIB = 1 << 20


def theirs(row: str, target: str) -> Any:
    """Return the dataset of a row, from TensorFlow's server."""
    numbers = tf.data.Dataset.range(10**9)
    dataset = {
        "scalars": numbers,
        "blocks of 256, unbatched": numbers.batch(256),
        "1 MiB": numbers.map(lambda _: tf.zeros([MIB], tf.uint8)),
        "ten elements": tf.data.Dataset.range(10),
    }[row]
    far = dataset.apply(
        service.distribute(service.ShardingPolicy.DYNAMIC, target, compression=None)
    )
    return far.unbatch() if row.startswith("blocks") else far


def ours(row: str, target: str) -> Any:
    """Return the dataset of a row, from Penstock."""
    shape = {"1 MiB": (MIB,), "blocks of 256, unbatched": (None,)}.get(row, ())
    spec = tf.TensorSpec(shape, tf.uint8 if row == "1 MiB" else tf.int64)
    far = service.from_dataset_id("distributed_epoch", target, row, element_spec=spec)
    return far.unbatch() if row.startswith("blocks") else far


def steps(row: str, dataset: Any) -> Iterator[int]:
    """Read; yield how much came since the last time."""
    if row == "ten elements":
        while True:
            for _ in dataset:
                pass
            yield 1
    if row.startswith("blocks"):  # so that the loop here is not what is measured
        dataset = dataset.batch(4096)
        for block in dataset.as_numpy_iterator():
            yield len(block)
    for _ in dataset.as_numpy_iterator():
        yield 1


def rate(row: str, dataset: Any) -> float:
    """Return how much a second comes, after the first."""
    coming = steps(row, dataset)
    next(coming)
    began, done = time.perf_counter(), 0
    for amount in coming:
        done += amount
        if (lasted := time.perf_counter() - began) >= SECONDS:
            return done / lasted
    raise AssertionError("it has no end")


def main(target: str) -> None:
    """Answer until the lines end."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    dispatcher = service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
    for line in sys.stdin:
        asked = json.loads(line)
        of = {"theirs": (theirs, dispatcher.target), "ours": (ours, target)}[asked["server"]]
        found = rate(asked["row"], of[0](asked["row"], of[1]))
        print(json.dumps({"rate": found}), file=answers)
    del worker


if __name__ == "__main__":
    main(sys.argv[1])
