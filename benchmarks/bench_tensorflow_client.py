"""How fast does TensorFlow's own client read from Penstock, beside its own server?

The same client, in turn: of a service of tf.data's with one worker, and of a dispatcher and a
worker of ours; each server has processes of its own. `make bench-peers` makes the environment.
Rates of elements that are there at once, once buffers are full, and the servers' time for each.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from measure import Figure, arguments, in_turn, show

from penstock import Dataset
from penstock.service import register_dataset
from penstock_cluster import LocalCluster

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-peers-tensorflow/bin/python"
MIB = np.zeros(1 << 20, np.uint8)
NAMES = {"theirs": "tf.data service", "ours": "Penstock"}
ROWS = {
    "scalars": "elements/s",
    "blocks of 256, unbatched": "elements/s",
    "1 MiB": "elements/s",
    "ten elements": "passes/s",
}


@dataclass(frozen=True)
class Server:
    """A service to read from, and its processes."""

    name: str
    target: str
    pids: Sequence[int]


class Client:
    """TensorFlow in a process of its own, which answers how fast it reads *servers*, by name."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers = {server.name: server for server in servers}
        self._process = _started()

    def rate(self, server: str, row: str, spent: list[float]) -> float:
        """Return how much a second it reads of *row*; add what each cost to *spent*, in µs."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        one = self._servers[server]
        asked = {"server": server, "row": row, "target": one.target, "pids": list(one.pids)}
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        spent.append(answer["spent"] * 1e6)
        return float(answer["rate"])

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _started(*arguments: str) -> subprocess.Popen[str]:
    command = [str(PYTHON), "-u", str(ROOT / "benchmarks/peers/tensorflow_client.py"), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextmanager
def _theirs() -> Iterator[Server]:
    """Have TensorFlow's own service in a process."""
    process = _started("serve")
    assert process.stdin is not None
    assert process.stdout is not None
    yield Server("theirs", process.stdout.readline().strip(), (process.pid,))
    process.stdin.close()
    process.wait()


@contextmanager
def _ours() -> Iterator[Server]:
    """Have a dispatcher and a worker, with what is read registered."""
    with LocalCluster(1) as cluster:
        _register(cluster.target)
        pids = [one.pid for one in (cluster.dispatcher, *cluster.workers)]
        yield Server("ours", cluster.target, [pid for pid in pids if pid is not None])


def _register(target: str) -> None:
    numbers = Dataset.range(10**9)
    for name, dataset in {
        "scalars": numbers,
        "blocks of 256, unbatched": numbers.batch(256),
        "1 MiB": numbers.map(lambda _: MIB),
        "ten elements": Dataset.range(10),
    }.items():
        register_dataset(target, dataset, dataset_id=name)


def _cost(name: str, spent: Sequence[float]) -> Figure:
    return Figure(
        f"  {name}'s servers", statistics.median(spent), min(spent), max(spent), "CPU µs each"
    )


def main() -> None:
    """Run it."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    if not PYTHON.exists():
        sys.exit("TensorFlow is not there: `make bench-peers` makes its environment")
    figures = []
    with _theirs() as theirs, _ours() as ours:
        client = Client((theirs, ours))
        for row, unit in ROWS.items():
            spent: dict[str, list[float]] = {name: [] for name in NAMES}
            candidates: list[tuple[str, Callable[[], float]]] = [
                (f"{row}: {name}", partial(client.rate, server, row, spent[server]))
                for server, name in NAMES.items()
            ]
            figures += in_turn(candidates, unit, options.runs)
            figures += [_cost(name, spent[server]) for server, name in NAMES.items()]
        client.close()
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
