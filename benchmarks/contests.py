"""What benchmarks beside peers share: questions, and contestants that answer them in turn.

Each contestant is a process with its own environment: `make bench-peers` makes these, and whoever
has none is left out. Without peers, only Penstock answers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from measure import Figure, in_turn

ROOT = Path(__file__).parents[1]
TURN, QUICK_TURN, FIRST = 1.0, 0.4, 0.1
"""Seconds that count of each turn; those before, to get warm, are as many. None of the first."""


@dataclass(frozen=True)
class Question:
    """A question, and who answers it: each with the name of its row. The first is the baseline."""

    title: str
    unit: str
    rows: tuple[tuple[str, str, str], ...]
    """Contestant, its row, and what it is called."""


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


def python_of(environment: str) -> Path:
    """Return the interpreter of a peer's *environment*, whether it is there or not."""
    return ROOT / f".venv-peers-{environment}/bin/python"


@contextmanager
def contestants(ours: str, peers: Sequence[str]) -> Iterator[Mapping[str, Contestant]]:
    """Start *ours*, which is Penstock, and those of *peers* that are there; end all of them.

    The name of a contestant begins with that of its environment.
    """
    found = {ours: Contestant(ours, Path(sys.executable))}
    try:
        for name in peers:
            python = python_of(name.partition("_")[0])
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


def arguments(question: str) -> argparse.Namespace:
    """Read the options that every benchmark beside peers has."""
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--runs", type=int, default=5, help="counted turns of each contestant")
    parser.add_argument("--peers", action="store_true", help="ask peers, too")
    parser.add_argument("--quick", action="store_true", help="two short turns of each")
    parser.add_argument("--only", default="", help="questions with this in their titles alone")
    return parser.parse_args()


def compared(
    questions: Sequence[Question],
    ours: str,
    peers: Sequence[str],
    options: argparse.Namespace,
) -> list[Figure]:
    """Return how fast *ours* and *peers* answer the *questions* that *options* choose."""
    seconds, runs = (QUICK_TURN, 2) if options.quick else (TURN, options.runs)
    figures: list[Figure] = []
    with contestants(ours, peers if options.peers else ()) as there:
        for one in there.values():
            print(one.version, file=sys.stderr)
        for asked in questions:
            if options.only in asked.title:
                print(f"... {asked.title}", file=sys.stderr)
                figures += answered(asked, there, seconds, runs)
    return figures
