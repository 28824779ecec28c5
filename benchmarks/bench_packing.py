"""How much padding do packs have, what does a document cost, and what does balance save?

Documents are the files that the demo reads, the files of Python's standard library, their
paragraphs, and 100,000 documents with lengths as in web text. Peers pack the same documents in
processes of their own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from contests import ROOT, python_of
from measure import Figure, in_turn, measure, show
from numpy.typing import NDArray

from penstock import Dataset
from penstock.engine.tallies import Tally
from penstock.ops.internal.documents import Documents
from penstock_cluster import LocalCluster
from penstock_cluster.demo.corpus import Corpus

sys.path.insert(0, str(ROOT / "benchmarks/peers"))

from documents import CAPACITY, lengths, tokens

PEERS = ("trl", "grain")
RANKS = 4
STEPS = 256
MOST = 20_000
"""Documents whose padding is measured: the model of first fit is slow."""


def padding(of: Sequence[int], method: str) -> float:
    """Return the share of padding in packs, in per cent."""
    packs = sum(1 for _ in _packs(tokens(of), method))
    return 100 * (1 - sum(of) / (CAPACITY * packs))


def first_fit(of: Sequence[int], buffer: int = 1024) -> float:
    """Return the same for first fit with as many documents that may wait, in plain Python."""
    open_bins: list[list[int]] = []
    packs = held = 0
    for length in of:
        whole, left = divmod(length, CAPACITY) if length > CAPACITY else (0, length)
        packs += whole
        if not left:
            continue
        for one in open_bins:
            if one[0] >= left:
                break
        else:
            one = [CAPACITY, 0]
            open_bins.append(one)
        one[0] -= left
        one[1] += 1
        held += 1
        if not one[0] or held > buffer:
            fullest = min(open_bins, key=lambda each: each[0])
            open_bins.remove(fullest)
            packs, held = packs + 1, held - fullest[1]
    return 100 * (1 - sum(of) / (CAPACITY * (packs + len(open_bins))))


def _packs(documents: list[NDArray[np.int32]], method: str) -> Dataset:
    return Dataset.from_sequence(documents).pack(CAPACITY, field=None, method=method)


def ours(documents: list[NDArray[np.int32]], method: str) -> float:
    """Return the microseconds of processor time that a document costs."""
    began = time.process_time()
    for _ in _packs(documents, method):
        pass
    return 1e6 * (time.process_time() - began) / len(documents)


def theirs(peer: str, number: int) -> float:
    """Return the same for a peer, which says it itself."""
    command = [str(python_of(peer)), str(ROOT / f"benchmarks/peers/{peer}_packing.py"), str(number)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(ran.stdout.splitlines()[-1])["microseconds"])


def step_seconds(document: NDArray[np.int32]) -> float:
    """Return what a step with *document* takes: a·L + b·L², up to 46 ms at 2,048 tokens."""
    length = len(document)
    return 2e-6 * length + 1e-8 * length**2


def steps(balanced: bool, documents: list[NDArray[np.int32]], target: str) -> float:
    """Return the steps a second of ranks in lock step, each of which sleeps for its document.

    A rank sleeps so that four of them are not slower on two cores than on four.
    """
    dataset = Dataset.from_sequence(documents)
    if balanced:
        dataset = dataset.balance(RANKS, cost=step_seconds)
    name, together, taken = next(_names), threading.Barrier(RANKS), [0] * RANKS

    def train(index: int) -> None:
        far = dataset.distribute("distributed_epoch", target, name, index, RANKS)
        for document in far:
            together.wait()
            if not taken[index]:
                began[index] = time.perf_counter()
            time.sleep(step_seconds(document))
            taken[index] += 1
        ended[index] = time.perf_counter()

    began, ended = [0.0] * RANKS, [0.0] * RANKS
    ranks = [threading.Thread(target=train, args=(index,)) for index in range(RANKS)]
    for one in ranks:
        one.start()
    for one in ranks:
        one.join()
    assert set(taken) == {len(documents) // RANKS}
    return taken[0] / (max(ended) - min(began))


_names = (f"lock step {number}" for number in itertools.count())


def imbalance(ranks: int, documents: list[NDArray[np.int32]], *, balanced: bool) -> float:
    """Return how much longer the longest document of a round is than the mean."""
    dataset = Dataset.from_sequence(documents)
    found = [len(x) for x in (dataset.balance(ranks) if balanced else dataset)]
    rounds = np.array(found[: len(found) // ranks * ranks]).reshape(-1, ranks)
    return float(rounds.max(1).sum() / rounds.mean(1).sum())


def counting(documents: list[NDArray[np.int32]]) -> float:
    """Return the part of a padded pack's processor time in which it is counted, in per cent."""
    began = time.process_time()
    packs = sum(1 for _ in Dataset.from_sequence(documents).pack(CAPACITY, field=None, pad=0))
    packed = time.process_time()
    counted = Documents("pack", None, 0, CAPACITY, Tally("tokens"))
    for _ in range(packs):
        counted.count_pack(CAPACITY)
    return 100 * (time.process_time() - packed) / (packed - began)


def figures(runs: int, number: int, *, peers: bool) -> list[Figure]:
    """Measure everything."""
    out: list[Figure] = []
    for name, all_of in {"the demo's files": Corpus.find().sizes, **lengths(number)}.items():
        of = all_of[:MOST]
        values = [
            ("best fit", padding(of, "best_fit")),
            ("first fit", first_fit(of)),
            ("first fit decreasing", padding(of, "first_fit_decreasing")),
            ("concat", padding(of, "concat")),
        ]
        out += [Figure(f"padding, {name}: {how}", x, x, x, "%") for how, x in values]
    documents = tokens(lengths(number)["web text"])
    there = [one for one in PEERS if peers and python_of(one).exists()]
    candidates: list[tuple[str, Callable[[], float]]] = [
        ("processor time of a document: Penstock, best fit", partial(ours, documents, "best_fit")),
        ("processor time of a document: Penstock, concat", partial(ours, documents, "concat")),
        *(
            (f"processor time of a document: {_NAMES[one]}", partial(theirs, one, number))
            for one in there
        ),
    ]
    out += in_turn(candidates, "µs", runs)
    name = "processor time of a padded pack: counting tokens and padding"
    out.append(measure(name, "%", partial(counting, documents), runs))
    some = documents[: STEPS * RANKS]
    with LocalCluster(workers=1) as cluster:
        ways = {"as they come": False, "balanced": True}
        candidates = [
            (f"four ranks in lock step: {name}", partial(steps, balanced, some, cluster.target))
            for name, balanced in ways.items()
        ]
        out += in_turn(candidates, "steps/s", min(runs, 3), warm=True)
    for name, balanced in (("as they come", False), ("balanced", True)):
        x = imbalance(8, documents, balanced=balanced)
        out.append(Figure(f"longest / mean of eight ranks: {name}", x, x, x, ""))
    return out


_NAMES = {"trl": "TRL, pack_dataset (bfd)", "grain": "Grain, BestFitPackIterDataset"}


def main() -> None:
    """Run it."""
    question = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--runs", type=int, default=5, help="counted turns of each candidate")
    parser.add_argument("--peers", action="store_true", help="ask peers, too")
    parser.add_argument("--quick", action="store_true", help="two turns with fewer documents")
    options = parser.parse_args()
    runs, number = (2, 10_000) if options.quick else (options.runs, 100_000)
    show(question, figures(runs, number, peers=options.peers), options.json)


if __name__ == "__main__":
    main()
