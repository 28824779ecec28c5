"""How much faster is a worker in the training process read without a socket?"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from measure import arguments, in_turn, show

from penstock import Dataset
from penstock_cluster import LocalCluster, WorkerConfig, WorkerServer

SCALARS = 1_000_000
ARRAYS = {"64 KiB arrays": (2**16, 4000), "1 MiB arrays": (2**20, 400)}


def _per_second(dataset: Dataset, target: str, transport: str) -> float:
    far = dataset.distribute(
        "parallel_epochs",
        target,
        data_transfer_protocol=transport,
        target_workers="LOCAL",
        compression=None,
    )
    with iter(far) as elements:
        next(elements)
        assert set(elements.transport.values()) == {transport}
        began = time.perf_counter()
        got = sum(1 for _ in elements)
        return got / (time.perf_counter() - began)


def _arrays(nbytes: int, count: int) -> Dataset:
    array = np.zeros(nbytes, np.uint8)
    return Dataset.range(count).map(lambda _: array)


def main() -> None:
    """Read one and the same worker both ways, in turn."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    datasets = {"int64 scalars": Dataset.range(SCALARS)}
    datasets |= {name: _arrays(*size) for name, size in ARRAYS.items()}
    figures = []
    with (
        LocalCluster(workers=0) as cluster,
        WorkerServer(WorkerConfig(cluster.target)),
    ):
        for name, dataset in datasets.items():
            pair: list[tuple[str, Callable[[], float]]] = [
                (f"{name}: {by}", lambda d=dataset, by=by: _per_second(d, cluster.target, by))
                for by in ("grpc", "local")
            ]
            figures += in_turn(pair, "elements/s", options.runs)
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
