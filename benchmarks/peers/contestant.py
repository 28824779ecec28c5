"""One contestant: does what it is told, line by line, and says what came of it.

A line is ``{"row": name, "seconds": s}``; the answer ``{"value": v}``, whose unit the row has, or
``{"error": text}``. It begins with ``{"rows": [...], "version": text}``.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import work

WARM = 1.0
"""Seconds that a row gets, from its first element on, before it counts: some start processes."""


def value(row: work.Row | work.Timed | work.ReaderCpu | work.Share, seconds: float) -> float:
    """Return what a row measures: a rate, milliseconds, CPU seconds for each GB, or a share."""
    match row:
        case work.Timed(once):
            return 1000 * median_seconds(once, seconds)
        case work.Share(once):
            return once()
        case work.ReaderCpu(doing, nbytes):
            return cpu(doing, seconds, nbytes)
    return rate(row, seconds)


def rate(row: work.Row, seconds: float) -> float:
    """Return how much a second a row does, after it has begun."""
    done, passed, _ = spent(row, seconds)
    return done / passed


def cpu(row: work.Row, seconds: float, nbytes: int) -> float:
    """Return the CPU seconds of this process for each GB that a row of *nbytes* each brings."""
    done, _, used = spent(row, seconds)
    return used / (done * nbytes / 1e9)


def spent(row: work.Row, seconds: float) -> tuple[int, float, float]:
    """Return how much a row does in about so many *seconds*, how long it takes, and its CPU."""
    doing = row()
    try:
        next(doing)
        done_by(doing, min(WARM, seconds))
        began, used = time.perf_counter(), time.process_time()
        done = done_by(doing, seconds)
        return done, time.perf_counter() - began, time.process_time() - used
    finally:
        doing.close()  # type: ignore[attr-defined]  # they are generators


def done_by(doing: Iterator[int], seconds: float) -> int:
    """Return how much is done within *seconds*, and by the step that is over then."""
    until, done = time.perf_counter() + seconds, 0
    for amount in doing:
        done += amount
        if time.perf_counter() >= until:
            break
    return done


def median_seconds(once: Callable[[], float], seconds: float) -> float:
    """Return the median of as many times as there is room for in *seconds*."""
    until, times = time.perf_counter() + seconds, [once()]
    while time.perf_counter() < until:
        times.append(once())
    return statistics.median(times)


def main(name: str) -> None:
    """Answer until the lines end."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    work.prepare()  # here once, and not in each process that a contestant forks
    module = importlib.import_module(f"{name}_rows")
    with module.ready() as rows:
        print(json.dumps({"rows": list(rows), "version": module.version()}), file=answers)
        for line in sys.stdin:
            told = json.loads(line)
            try:
                answer = {"value": value(rows[told["row"]], told["seconds"])}
            except Exception as exc:  # noqa: BLE001  it is told
                answer = {"error": f"{type(exc).__name__}: {exc}"}
            print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main(sys.argv[1])
