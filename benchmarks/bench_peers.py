"""How fast are the same jobs here, in tf.data, in its service, and in PyTorch's DataLoader?

Each runs in a process of its own, and all do a job in turn: whole passes, warm. The peers' packages
are in a venv of theirs (`make bench-peers` makes it); nothing is tuned by hand on any side.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
from measure import Figure, arguments, in_turn, show
from peers import jobs

from penstock import Dataset
from penstock_cluster import LocalCluster
from penstock_worker import WorkerConfig

HERE = Path(__file__).parent / "peers"
PYTHON = os.environ.get("PEERS_PYTHON", sys.executable)
PEERS = {"tf.data": "tfdata.py", "DataLoader": "torch_loader.py"}


class Peer:
    """A process that does jobs when it is asked to."""

    def __init__(self, script: str) -> None:
        quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
        command = [PYTHON, str(HERE / script)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=quiet,
            text=True,
        )
        self.jobs: list[str] = self._answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.communicate()

    def rate(self, job: str) -> float:
        """Return how many elements a second it makes."""
        assert self._process.stdin is not None
        print(json.dumps(job), file=self._process.stdin, flush=True)
        return jobs.ELEMENTS[job] / float(self._answer())

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"{PYTHON} cannot run a peer: are its packages there? `make bench-peers`")
        return json.loads(line)


def _here(cluster: LocalCluster) -> dict[str, Dataset]:
    def sent(nbytes: int) -> Dataset:
        filled = Dataset.range(jobs.SENT[nbytes]).map(lambda i: np.full(nbytes, i % 251, np.uint8))
        return filled.distribute("distributed_epoch", cluster.target)

    slices, numbers = Dataset.from_tensor_slices(np.arange(jobs.ROWS)), Dataset.range(jobs.ROWS)
    busy = Dataset.range(jobs.CALLS).map(jobs.burn, 2, executor="process")
    return {
        jobs.SLICES: slices.batch(256),
        jobs.SHUFFLED: slices.shuffle(10_000).batch(256),
        jobs.BATCHED: numbers.batch(256),
        jobs.SCALARS: Dataset.range(jobs.RANGE).distribute("distributed_epoch", cluster.target),
        jobs.SMALLER: sent(jobs.MIB),
        jobs.LARGER: sent(jobs.LARGE),
        jobs.CPU_BOUND: busy.batch(32),
    }


def _rate(job: str, dataset: Iterable[object]) -> Callable[[], float]:
    def run() -> float:
        began = time.perf_counter()
        for _ in dataset:
            pass
        return jobs.ELEMENTS[job] / (time.perf_counter() - began)

    return run


def main() -> None:
    """Do each job in turn with each that can do it; the peer is the baseline."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    figures: list[Figure] = []
    with ExitStack() as stack:
        cluster = stack.enter_context(LocalCluster(workers=1, worker=WorkerConfig(slots=1)))
        here = _here(cluster)
        for name, script in PEERS.items():
            with Peer(script) as peer:
                for job in [job for job in jobs.ELEMENTS if job in peer.jobs]:
                    pair = [
                        (f"{job}: {name}", lambda peer=peer, job=job: peer.rate(job)),
                        (f"{job}: Penstock", _rate(job, here[job])),
                    ]
                    figures += in_turn(pair, "elements/s", options.runs)
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
