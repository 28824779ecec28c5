"""How fast does TensorFlow's own client read from Penstock, beside its own server?

The same client, in turn: of a service of tf.data's with one worker, and of a dispatcher and a
worker of ours. `make bench-peers` makes its environment. Rates of elements that are there at once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from measure import arguments, in_turn, show

from penstock import Dataset
from penstock.service import register_dataset
from penstock_cluster import LocalCluster

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-peers-tensorflow/bin/python"
MIB = np.zeros(1 << 20, np.uint8)
ROWS = {
    "scalars": "elements/s",
    "blocks of 256, unbatched": "elements/s",
    "1 MiB": "elements/s",
    "ten elements": "passes/s",
}


class Client:
    """TensorFlow in a process of its own, which answers how fast it reads."""

    def __init__(self, target: str) -> None:
        command = [str(PYTHON), "-u", str(ROOT / "benchmarks/peers/tensorflow_client.py"), target]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def rate(self, server: str, row: str) -> float:
        """Return how much a second it reads of *row* from *server*."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"server": server, "row": row}), file=self._process.stdin, flush=True)
        return float(json.loads(self._process.stdout.readline())["rate"])

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _register(target: str) -> None:
    numbers = Dataset.range(10**9)
    for name, dataset in {
        "scalars": numbers,
        "blocks of 256, unbatched": numbers.batch(256),
        "1 MiB": numbers.map(lambda _: MIB),
        "ten elements": Dataset.range(10),
    }.items():
        register_dataset(target, dataset, dataset_id=name)


def main() -> None:
    """Run it."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    if not PYTHON.exists():
        sys.exit("TensorFlow is not there: `make bench-peers` makes its environment")
    figures = []
    with LocalCluster(1) as cluster:
        _register(cluster.target)
        client = Client(cluster.target)
        for row, unit in ROWS.items():
            candidates: list[tuple[str, Callable[[], float]]] = [
                (f"{row}: {name}", partial(client.rate, server, row))
                for server, name in (("theirs", "tf.data service"), ("ours", "Penstock"))
            ]
            figures += in_turn(candidates, unit, options.runs)
        client.close()
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
