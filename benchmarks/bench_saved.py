"""What does a saved dataset cost to write and to read, and how fast is it beside others?

In this process, processor time counts: writing beside iterating over the same pipeline, and reading
beside `Dataset.arrow` over the same files. Then Penstock, tf.data, Hugging Face's datasets and
Mosaic's streaming take turns, each in its own process and environment, and the clock counts.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from contests import Question, arguments, compared
from measure import Figure, in_turn, show

from penstock import Dataset

PEERS = ("tensorflow_saved", "torch_saved", "mosaic_saved")
MIB = 1 << 20
ARRAYS, ROWS = 200, 200_000
RANDOM = np.random.default_rng(1).integers(0, 255, MIB, np.uint8)


def _beside(title: str, unit: str, row: str, **ours: str) -> Question:
    others = ("tensorflow", "tf.data"), ("torch", "HF datasets"), ("mosaic", "Mosaic Streaming")
    return Question(
        title,
        unit,
        (
            *((f"{peer}_saved", row, name) for peer, name in others),
            *(("penstock_saved", mine, name) for name, mine in ours.items()),
        ),
    )


QUESTIONS = (
    _beside("200 arrays of 1 MiB are saved", "ms", "save", Penstock="save", generator="made"),
    _beside(
        "arrays of 1 MiB, loaded in process", "arrays/s", "load", Penstock="load", arrow="plain"
    ),
    _beside(
        "arrays of 1 MiB, loaded by two workers",
        "arrays/s",
        "far load",
        Penstock="far load",
        arrow="far plain",
    ),
    Question(
        "2,000 images of 147 KiB that two workers make",
        "ms",
        (
            ("penstock_saved", "consumed", "read by one process"),
            ("penstock_saved", "written", "saved by the service"),
        ),
    ),
    Question(
        "a save by two workers that is followed, chunk_seconds=0.5",
        "ms",
        (
            ("penstock_saved", "first chunk", "from the call to the first element"),
            ("penstock_saved", "end", "from the last element to the end"),
        ),
    ),
)


def _array(i: int) -> dict[str, Any]:
    return {"id": i, "data": np.roll(RANDOM, int(i))}


def _row(i: int) -> dict[str, Any]:
    return {"id": i, "text": f"this is sample {i}", "score": np.float32(i)}


def _touched(element: Any) -> int:
    """Read each page of a large array, as training would; return 1."""
    if isinstance(element, dict) and "data" in element:
        element["data"][::4096].sum()
    return 1


def _timed(
    count: int, read: Callable[[], Iterable[Any]], without: Path | None = None
) -> Callable[[], float]:
    """Return what measures the microseconds of processor time for each of *count* elements.

    Before that, the folder *without* is deleted.
    """

    def run() -> float:
        if without is not None:
            shutil.rmtree(without, ignore_errors=True)
        began = time.process_time()
        found = sum(_touched(element) for element in read())
        assert found == count, found
        return 1e6 * (time.process_time() - began) / count

    return run


def _saved(dataset: Dataset, path: Path, compression: str | None) -> Iterable[Any]:
    dataset.save(path, compression=compression)
    return range(len(dataset))


def _pyarrow(files: list[Path]) -> Iterable[Any]:
    for file in files:
        with pa.ipc.open_file(pa.memory_map(str(file))) as reader:
            for i in range(reader.num_record_batches):
                for data in reader.get_batch(i).column("data"):
                    yield {"data": data.values.to_numpy()}


def _writing(folder: Path) -> Iterable[tuple[str, list[tuple[str, Callable[[], float]]]]]:
    for name, fn, count in (("1 MiB arrays", _array, ARRAYS), ("rows", _row, ROWS)):
        dataset = Dataset.range(count).map(fn)
        candidates = [(f"{name}: made, not written", _timed(count, lambda d=dataset: d))]
        for how in (None, "lz4", "zstd"):
            path = folder / f"{name} {how}"
            save = _timed(count, lambda d=dataset, p=path, h=how: _saved(d, p, h), path)
            candidates.append((f"{name}: saved, compression {how}", save))
        yield name, candidates


def _reading(folder: Path) -> Iterable[tuple[str, list[tuple[str, Callable[[], float]]]]]:
    for name, count in (("1 MiB arrays", ARRAYS), ("rows", ROWS)):
        path = folder / f"{name} None"
        files = sorted((path / "data").iterdir())
        loaded, plain = Dataset.load(path), Dataset.arrow(list(map(str, files)))
        candidates = [
            (f"{name}: Dataset.arrow", _timed(count, lambda d=plain: d)),
            (f"{name}: Dataset.load", _timed(count, lambda d=loaded: d)),
            (f"{name}: load, global_shuffle", _timed(count, lambda d=loaded: d.global_shuffle())),
        ]
        if name == "1 MiB arrays":
            candidates.append((f"{name}: pyarrow", _timed(count, lambda f=files: _pyarrow(f))))
        yield name, candidates


def _here(runs: int) -> list[Figure]:
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        for measured in (_writing, _reading):
            for _, candidates in measured(Path(folder)):
                figures += in_turn(candidates, "µs of a core for an element", runs)
    return figures


def main() -> None:
    """Measure writing and reading here, then beside others."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    figures = [] if options.only else _here(2 if options.quick else options.runs)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BENCH_SAVED"] = folder
        figures += compared(QUESTIONS, "penstock_saved", PEERS, options)
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
