"""TensorFlow's client of tf.data service: reads from its own server or ours, as it is told.

Its own server is this program, too, in another process: a client reads a worker of its own process
by a call of a function, with no network and no message.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import tensorflow as tf
from processes import family

service = tf.data.experimental.service
WARM, SECONDS = 1.5, 1.5
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


def cpu(pids: Sequence[int]) -> float:
    """Return the processor's time that processes took, and those that they started."""
    # The clock of a process is what clock_getcpuclockid(3) gives.
    return sum(time.clock_gettime((~one << 3) | 2) for one in family(pids))


def rate(row: str, dataset: Any, pids: Sequence[int]) -> tuple[float, float]:
    """Return how much a second comes once buffers are full, and what each costs its servers."""
    coming = steps(row, dataset)
    next(coming)
    began = time.perf_counter()
    while time.perf_counter() < began + WARM:  # buffers fill, of the server and in here
        next(coming)
    done, spent = 0, cpu(pids)
    began = time.perf_counter()
    for amount in coming:
        done += amount
        if (lasted := time.perf_counter() - began) >= SECONDS:
            return done / lasted, (cpu(pids) - spent) / done
    raise AssertionError("it has no end")


def serve() -> None:
    """Be TensorFlow's own service, of one worker, until the lines end; print the target."""
    dispatcher = service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
    print(dispatcher.target, flush=True)
    sys.stdin.read()
    del worker


def main() -> None:
    """Answer until the lines end."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        asked = json.loads(line)
        of = {"theirs": theirs, "ours": ours}[asked["server"]]
        found, spent = rate(asked["row"], of(asked["row"], asked["target"]), asked["pids"])
        print(json.dumps({"rate": found, "spent": spent}), file=answers)


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
