"""One contestant: does what it is told, line by line, and says how fast that was.

A line is ``{"row": name, "seconds": s}``; the answer ``{"rate": elements a second}`` or
``{"error": text}``. It begins with ``{"rows": [...], "version": text}``.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

Row = Callable[[], Iterator[int]]
"""Begins the work of a row; yields how much was done since the last time."""

WARM = 1.0
"""Seconds that each turn gets before it counts: some start processes."""


def rate(row: Row, seconds: float) -> float:
    """Return how much a second a row does, after it has begun."""
    doing = row()
    try:
        done_by(doing, WARM)
        began = time.perf_counter()
        done = done_by(doing, seconds)
        return done / (time.perf_counter() - began)
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


def main(name: str) -> None:
    """Answer until the lines end."""
    sys.path.insert(0, str(Path(__file__).parent))
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    module = importlib.import_module(f"{name}_rows")
    with module.ready() as rows:
        print(json.dumps({"rows": list(rows), "version": module.version()}), file=answers)
        for line in sys.stdin:
            told = json.loads(line)
            try:
                answer = {"rate": rate(rows[told["row"]], told["seconds"])}
            except Exception as exc:  # noqa: BLE001  it is told
                answer = {"error": f"{type(exc).__name__}: {exc}"}
            print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main(sys.argv[1])
