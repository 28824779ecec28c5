"""What of decompression does a training loop spend itself, when a thread decompresses ahead of it?

A loop that waits 5 ms for its device at each step reads images, compressed, by gRPC from a worker
of this machine: processor time of the loop's own thread for a step, with frames that another thread
decompresses ahead of it and with frames that it decompresses itself, in turn; without compression,
to compare.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from measure import Figure, arguments, in_turn, show

from penstock import Dataset
from penstock.reader.session import decompress_ahead
from penstock_cluster import LocalCluster

STEPS, DEVICE = 60, 0.005
AHEAD = decompress_ahead.FRAMES
SIZES = (("1 MiB", (1024, 1024)), ("4.8 MB", (2191, 2191)))


def _image(height: int, width: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    y, x = np.mgrid[0:height, 0:width] / 97.0
    image: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] = (
        127 + 60 * np.sin(x) * np.cos(1.3 * y) + 60 * np.sin(0.5 * y)
    ).astype(np.uint8)
    return image


def _milliseconds(far: Dataset, frames: int) -> float:
    """Return what a step takes the loop's thread, with so many *frames* ahead of it."""
    decompress_ahead.FRAMES = frames
    took, elements = [], iter(far)
    next(elements)
    for _ in range(STEPS):
        time.sleep(DEVICE)
        began = time.thread_time()
        next(elements)
        took.append(1000 * (time.thread_time() - began))
    elements.close()
    return statistics.median(took)


def _of_size(target: str, name: str, shape: tuple[int, int], runs: int) -> list[Figure]:
    image = _image(*shape)
    dataset = Dataset.range(100 * STEPS).map(lambda _: image)

    def read(compression: str | None, frames: int) -> Callable[[], float]:
        far = dataset.distribute(
            "parallel_epochs", target, compression=compression, data_transfer_protocol="grpc"
        )
        return partial(_milliseconds, far, frames)

    candidates = [(f"{name}: not compressed", read(None, AHEAD))]
    for codec in ("LZ4", "ZSTD"):
        candidates.append((f"{name}, {codec}: the loop decompresses", read(codec, 0)))
        candidates.append((f"{name}, {codec}: decompressed ahead", read(codec, AHEAD)))
    return in_turn(candidates, "ms", runs)


def main() -> None:
    """Measure one size after the other."""
    question = (__doc__ or "").partition("\n")[0]
    args = arguments(question)
    figures: list[Figure] = []
    with LocalCluster(1) as cluster:
        for name, shape in SIZES:
            figures += _of_size(cluster.target, name, shape, args.runs)
    show(question, figures, args.json)


if __name__ == "__main__":
    main()
