"""What every benchmark shares: repeat, take median and spread, print one table or JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One measured thing: the median of several runs, and their spread."""

    name: str
    median: float
    low: float
    high: float
    unit: str
    ratio: float | None = None
    """Against the baseline of the same run."""


def measure(name: str, unit: str, run: Callable[[], float], runs: int) -> Figure:
    """Call *run* once to warm up and *runs* times for its figure."""
    run()
    figures = [run() for _ in range(runs)]
    return Figure(name, statistics.median(figures), min(figures), max(figures), unit)


def in_turn(
    candidates: Sequence[tuple[str, Callable[[], float]]],
    unit: str,
    runs: int,
    *,
    warm: bool = False,
) -> list[Figure]:
    """Measure *candidates* in turn, A B A B …, so that a machine that drifts drifts for all.

    The first is the baseline of the ratios, which are medians of the pairs. Each runs once before
    it counts, unless all are *warm*.
    """
    for _, run in () if warm else candidates:
        run()
    rows = [[run() for _, run in candidates] for _ in range(runs)]
    out = []
    for column, (name, _) in enumerate(candidates):
        figures = [row[column] for row in rows]
        ratio = statistics.median(row[column] / row[0] for row in rows) if column else None
        median = statistics.median(figures)
        out.append(Figure(name, median, min(figures), max(figures), unit, ratio))
    return out


def seconds(run: Callable[[], object]) -> float:
    """Return how long *run* takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def arguments(question: str, runs: int = 5, *, plot: bool = False) -> argparse.Namespace:
    """Read the options that every benchmark has, and with *plot* where to draw the figures."""
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--runs", type=int, default=runs, help="counted runs of each candidate")
    if plot:
        parser.add_argument("--plot", help="draw the figures to this SVG file")
    return parser.parse_args()


def show(question: str, figures: Sequence[Figure], as_json: bool) -> None:
    """Print *figures*."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    if as_json:
        rows = [asdict(figure) for figure in figures]
        print(json.dumps({"question": question, "machine": machine, "figures": rows}))
        return
    table = Table("", "median", "spread", "", "ratio", title=question, caption=machine)
    for figure in figures:
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
        spread = f"{_text(figure.low)} to {_text(figure.high)}"
        table.add_row(figure.name, _text(figure.median), spread, figure.unit, ratio)
    Console(width=100).print(table)


def _text(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
