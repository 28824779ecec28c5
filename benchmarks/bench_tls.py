"""What do TLS and tokens cost, beside the same reads by gRPC without them?"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from measure import arguments, in_turn, show

from penstock import Dataset
from penstock.credentials import authority
from penstock_cluster import LocalCluster
from penstock_dispatcher import DispatcherConfig
from penstock_worker import WorkerConfig

SIZES = {"1 MiB": (2**20, 400), "4.8 MB": (4_816_896, 120)}
PASSES = 5
"""Short passes in a row: the first ones after a pause take longer."""


def _throughput(target: str, credentials: str | None, nbytes: int, count: int) -> float:
    array = np.zeros(nbytes, np.uint8)
    dataset = Dataset.range(count).map(lambda _: array)
    far = dataset.distribute(
        "parallel_epochs",
        target,
        compression=None,
        data_transfer_protocol="grpc",
        credentials=credentials,
    )
    with iter(far) as it:
        next(it)
        began = time.perf_counter()
        got = sum(element.nbytes for element in it)
        return got / (time.perf_counter() - began) / 1e9


def _ten_elements(target: str, credentials: str | None) -> float:
    far = Dataset.range(10).distribute(
        "distributed_epoch", target, data_transfer_protocol="grpc", credentials=credentials
    )
    took = []
    for _ in range(PASSES):
        began = time.perf_counter()
        assert sum(1 for _ in far) == 10
        took.append(time.perf_counter() - began)
    return min(took) * 1000


def main() -> None:
    """Measure two clusters, one with credentials and one without, in turn."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        authority.init(keys := Path(folder) / "keys", (), datetime.now(UTC))
        secured = LocalCluster(
            workers=1,
            dispatcher=DispatcherConfig(credentials=str(keys / "dispatcher")),
            worker=WorkerConfig(credentials=str(keys / "worker")),
        )
        with LocalCluster(workers=1) as plain, secured:
            ways = {"plain": (plain.target, None), "TLS": (secured.target, str(keys / "trainer"))}
            for name, (nbytes, count) in SIZES.items():
                pair: list[tuple[str, Callable[[], float]]] = [
                    (f"{name}: {way}", lambda w=where, n=nbytes, c=count: _throughput(*w, n, c))
                    for way, where in ways.items()
                ]
                figures += in_turn(pair, "GB/s", options.runs)
            short: list[tuple[str, Callable[[], float]]] = [
                (f"ten elements: {way}", lambda w=where: _ten_elements(*w))
                for way, where in ways.items()
            ]
            figures += in_turn(short, "ms", options.runs)
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
