"""Does autocache choose the fastest place to keep elements, and what does it take in all?

As in figure 7 of Cachew (ATC 2022), in the small: a source and an operator that are dear or cheap,
and make larger or smaller elements. Each pipeline is read in five passes: without a snapshot, with
one after the source, with one at the end, and with autocache. Reading what is kept is held to
50 MB/s, as from shared storage. The operators sleep, so other work on the host does not change
them.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
from measure import Figure, arguments, seconds, show

from penstock import AutocacheOptions, Dataset, Options
from penstock.autocache import plan
from penstock.autocache.store_speed import store_speed
from penstock.engine.rows import Block
from penstock.ops.load import ChunkReader
from penstock.saved.folder import _LocalFolder

PASSES, ELEMENTS = 5, 100
SPEED = 50e6
"""Bytes a second that are read."""
CHEAP, DEAR = 0.001, 0.010
"""Seconds for an element."""
NBYTES = 100_000
"""The size of an element of the source."""
LARGER, SMALLER = 2.5, 0.25
"""What the operator makes of that."""
NEAR = 1.05
"""A choice that takes at most so many times the least time is right: that is the noise."""

_random = np.random.default_rng(0).integers(0, 256, int(NBYTES * LARGER), np.uint8)


def _held_back() -> None:
    """Let each read take the time that it takes from shared storage."""
    rows, read = ChunkReader.rows, _LocalFolder.read

    def slow_rows(reader: ChunkReader, n: int) -> Block:
        block = rows(reader, n)
        time.sleep(sum(element.nbytes for element in block) / SPEED)
        return block

    def slow_read(folder: _LocalFolder, name: str) -> bytes | None:
        data = read(folder, name)
        time.sleep(len(data or b"") / SPEED)
        return data

    ChunkReader.rows = slow_rows  # type: ignore[method-assign]
    _LocalFolder.read = slow_read  # type: ignore[method-assign]


def _operator(name: str, work: float, nbytes: int) -> Callable[[object], np.ndarray]:
    def made(_: object) -> np.ndarray:
        time.sleep(work)
        return _random[:nbytes]

    made.__qualname__ = name
    return made


def _passes(dataset: Dataset) -> float:
    def read() -> None:
        for _ in range(PASSES):
            for _ in dataset:
                pass

    return seconds(read)


def _setting(source: float, operator: float, factor: float, folder: Path) -> list[Figure]:
    """Return the times of one pipeline, and whether the choice was right."""
    nbytes = int(NBYTES * factor)
    first = Dataset.range(ELEMENTS).map(_operator("source", source, NBYTES))
    work = _operator("operator", operator, nbytes)
    fixed = {
        "keep nothing": first.map(work),
        "after map(source)": first.snapshot(folder / "source").map(work),
        "after map(operator)": first.map(work).snapshot(folder / "end"),
    }
    kept = Options(autocache=AutocacheOptions(path=folder / "autocache", passes=PASSES))
    dataset = first.map(work).with_options(kept)
    times = {name: _passes(each) for name, each in fixed.items()}
    took = _passes(dataset)
    chosen = next(line for line in iter(dataset).stats().cuts if line.startswith("*"))
    choice = next(name for name in fixed if name in chosen)
    least = min(times.values())
    named = {CHEAP: "cheap", DEAR: "dear"}
    size = "larger" if factor > 1 else "smaller"
    title = f"source {named[source]}, operator {named[operator]}, {size} elements: "
    rows = [Figure(title + name, one, one, one, "s", one / least) for name, one in times.items()]
    right = float(times[choice] <= NEAR * least)
    rows.append(Figure(f"{title}autocache chose: {choice}", took, took, took, "s", took / least))
    return [*rows, Figure(f"{title}right", right, right, right, "of 1")]


def main() -> None:
    """Read each pipeline in each way."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question, runs=1)
    _held_back()
    figures: list[Figure] = []
    folder = Path(tempfile.mkdtemp())
    try:
        trial = seconds(lambda: store_speed(str(folder)))
        plan.store_speed = lambda _: store_speed(str(folder))  # one trial for all settings
        for number, setting in enumerate(product((CHEAP, DEAR), (CHEAP, DEAR), (LARGER, SMALLER))):
            figures += _setting(*setting, folder / str(number))
    finally:
        shutil.rmtree(folder)
    right = sum(figure.median for figure in figures if figure.unit == "of 1")
    rows = [figure for figure in figures if figure.unit != "of 1"]
    rows.append(Figure("trial of the storage, once", trial, trial, trial, "s"))
    rows.append(Figure("settings in which the choice was right", right, right, right, "of 8"))
    show(question, rows, options.json)


if __name__ == "__main__":
    main()
