"""How fast is Penstock beside tf.data and its service, PyTorch's DataLoader, Grain and Ray Data?

The same work with the same two cores, in turn, each contestant in its own process and environment:
`make bench-peers` makes these, and who has none is left out. Without peers it asks Penstock alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from measure import Figure, in_turn, show

ROOT = Path(__file__).parents[1]
PEERS = ("tensorflow", "torch", "grain", "ray")
TURN, QUICK_TURN, FIRST = 1.0, 0.4, 0.1
"""Seconds that count of each turn; those before, to get warm, are as many. None of the first."""


@dataclass(frozen=True)
class Question:
    """A question, and who answers it: each with the name of its row. The first is the baseline."""

    title: str
    unit: str
    rows: tuple[tuple[str, str, str], ...]
    """Contestant, its row, and what it is called."""


def _plain(title: str, unit: str, row: str, *peers: str, **ours: str) -> Question:
    names = {"tensorflow": "tf.data", "torch": "DataLoader", "grain": "Grain", "ray": "Ray Data"}
    others = tuple((peer, row, names[peer]) for peer in peers)
    mine = ours or {"Penstock": row}
    return Question(
        title,
        unit,
        (*others, *(("penstock", mine[name], name.replace("_", " ")) for name in mine)),
    )


QUESTIONS = (
    _plain(
        "int64 slices → batch(256), in process",
        "elements/s",
        "slices",
        "tensorflow",
        "torch",
        "grain",
    ),
    _plain(
        "int64 slices → shuffle(10,000) → batch(256), in process",
        "elements/s",
        "shuffled slices",
        "tensorflow",
        "torch",
        "grain",
    ),
    Question(
        "range → map in Python, in process",
        "elements/s",
        (
            ("penstock", "map: plain generator", "a plain generator of Python's int"),
            (
                "penstock",
                "map: of NumPy scalars",
                "a plain generator that calls a function of NumPy's int64",
            ),
            ("tensorflow", "map", "tf.data (not in Python: a graph)"),
            ("penstock", "map", "Penstock"),
        ),
    ),
    _plain("range → window(8) → flat_map, in process", "elements/s", "windows", "tensorflow"),
    _plain("scalars from two workers, DYNAMIC", "elements/s", "far scalars", "tensorflow"),
    _plain(
        "scalars → shuffle(10,000), on two workers",
        "elements/s",
        "far shuffled scalars",
        "tensorflow",
    ),
    _plain(
        "scalars from two workers → shuffle(10,000)",
        "elements/s",
        "near shuffled scalars",
        "tensorflow",
    ),
    _plain(
        "whole passes over ten elements from two workers, DYNAMIC",
        "passes/s",
        "far ten elements",
        "tensorflow",
    ),
    Question(
        "arrays of 1 MiB from two workers",
        "elements/s",
        (
            ("tensorflow", "far 1 MiB", "tf.data service"),
            ("torch", "far 1 MiB", "DataLoader(num_workers=2)"),
            ("grain", "far 1 MiB", "Grain, two processes"),
            ("penstock", "far 1 MiB: gRPC", "Penstock, gRPC"),
            ("penstock", "far 1 MiB", "Penstock, shared memory"),
        ),
    ),
    Question(
        "batches of 4.8 MB from two workers",
        "batches/s",
        (
            ("tensorflow", "far 4.8 MB", "tf.data service"),
            ("torch", "far 4.8 MB", "DataLoader(num_workers=2)"),
            ("grain", "far 4.8 MB", "Grain, two processes"),
            ("penstock", "far 4.8 MB: gRPC", "Penstock, gRPC"),
            ("penstock", "far 4.8 MB", "Penstock, shared memory"),
        ),
    ),
    Question(
        "JPEG of 224 x 224 → float32 batches of 32",
        "images/s",
        (
            ("torch", "pictures", "DataLoader(num_workers=2), Pillow"),
            ("tensorflow", "pictures", "tf.data service, two workers, its own decoder"),
            ("grain", "pictures", "Grain, two processes, Pillow"),
            ("ray", "pictures", "Ray Data, two processors, Pillow"),
            ("penstock", "pictures", "Penstock, two workers, Pillow"),
            (
                "penstock",
                "pictures: map with processes",
                "Penstock, in process, map with two processes, Pillow",
            ),
        ),
    ),
    Question(
        "a tokeniser in Python → batches of 32",
        "texts/s",
        (
            ("torch", "texts", "DataLoader(num_workers=2)"),
            ("grain", "texts", "Grain, two processes"),
            ("ray", "texts", "Ray Data, two processors"),
            ("penstock", "texts", "Penstock, two workers"),
            ("penstock", "texts: one worker", "Penstock, one worker"),
            (
                "penstock",
                "texts: map with processes",
                "Penstock, in process, map with two processes",
            ),
        ),
    ),
    Question(
        "two workers against one, a tokeniser in Python",
        "texts/s",
        (
            ("penstock", "texts: one worker", "Penstock, one worker"),
            ("penstock", "texts", "Penstock, two workers"),
        ),
    ),
    *(
        Question(
            f"processor time of the reader's process, elements of {size}",
            "s/GB",
            (
                ("tensorflow", f"reader CPU, {size}", "tf.data service"),
                ("torch", f"reader CPU, {size}", "DataLoader(num_workers=2)"),
                ("penstock", f"reader CPU, {size}: gRPC", "Penstock, gRPC"),
                ("penstock", f"reader CPU, {size}", "Penstock, shared memory"),
            ),
        )
        for size in ("1 MiB", "4.8 MB")
    ),
    Question(
        "the first element of a new iterator, warm, two workers",
        "ms",
        (
            ("tensorflow", "first element", "tf.data service"),
            ("torch", "first element", "DataLoader(num_workers=2)"),
            ("penstock", "first element", "Penstock"),
        ),
    ),
    Question(
        "the first element from nothing, a dispatcher and two workers start",
        "ms",
        (
            ("tensorflow", "cold: processes", "tf.data service, workers are processes"),
            ("tensorflow", "cold", "tf.data service, all in the reader's process"),
            ("penstock", "cold", "Penstock, LocalCluster(2): all are processes"),
        ),
    ),
)


class Contestant:
    """A process that answers how fast it does a row."""

    def __init__(self, name: str, python: Path) -> None:
        self.name = name
        command = [str(python), "-u", str(ROOT / "benchmarks/peers/contestant.py"), name]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        hello = self._heard()
        self.rows, self.version = frozenset(hello["rows"]), hello["version"]

    def value(self, row: str, seconds: float) -> float:
        """Return what it measures for *row*, within about so many *seconds*."""
        assert self._process.stdin is not None
        print(json.dumps({"row": row, "seconds": seconds}), file=self._process.stdin, flush=True)
        answer = self._heard()
        if "error" in answer:
            raise RuntimeError(f"{self.version}, {row}: {answer['error']}")
        return float(answer["value"])

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _heard(self) -> Mapping[str, object]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} has ended with {self._process.wait()}")
        found = json.loads(line)
        assert isinstance(found, dict)
        return found


@contextmanager
def contestants(wanted: bool) -> Iterator[Mapping[str, Contestant]]:
    """Start Penstock, and its peers if they are *wanted* and there; end all of them."""
    found = {"penstock": Contestant("penstock", Path(sys.executable))}
    try:
        for name in PEERS if wanted else ():
            python = ROOT / f".venv-peers-{name}/bin/python"
            if python.exists():
                found[name] = Contestant(name, python)
            else:
                print(f"without {name}: `make bench-peers` makes its environment", file=sys.stderr)
        yield found
    finally:
        for one in found.values():
            one.close()


def answered(
    question: Question, there: Mapping[str, Contestant], seconds: float, runs: int
) -> list[Figure]:
    """Return how fast those that are there answer *question*."""
    candidates: list[tuple[str, Callable[[], float]]] = [
        (name, partial(there[who].value, row, seconds))
        for who, row, name in question.rows
        if who in there and row in there[who].rows
    ]
    for who, row, _ in question.rows:
        if who in there and row in there[who].rows:
            there[who].value(row, FIRST)
    figures = in_turn(candidates, question.unit, runs, warm=True)
    return [replace(figure, name=f"{question.title}: {figure.name}") for figure in figures]


def main() -> None:
    """Run it."""
    question = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--runs", type=int, default=5, help="counted turns of each contestant")
    parser.add_argument("--peers", action="store_true", help="ask peers, too")
    parser.add_argument("--quick", action="store_true", help="two short turns of each")
    parser.add_argument("--only", default="", help="questions with this in their titles alone")
    options = parser.parse_args()
    seconds, runs = (QUICK_TURN, 2) if options.quick else (TURN, options.runs)
    figures: list[Figure] = []
    with contestants(options.peers) as there:
        for one in there.values():
            print(one.version, file=sys.stderr)
        for asked in QUESTIONS:
            if options.only in asked.title:
                print(f"... {asked.title}", file=sys.stderr)
                figures += answered(asked, there, seconds, runs)
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
