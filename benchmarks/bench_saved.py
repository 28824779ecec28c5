"""What does a saved dataset cost to write and to read?

Writing, beside iterating over the same pipeline without writing. Reading, beside `Dataset.arrow`
over the same files, pyarrow alone, and Hugging Face's `load_from_disk` if it is installed. In this
process; processor time counts.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from measure import arguments, in_turn, show

from penstock import Dataset

MIB = 1 << 20
ARRAYS, ROWS = 200, 200_000
RANDOM = np.random.default_rng(1).integers(0, 255, MIB, np.uint8)


def _array(i: int) -> dict[str, Any]:
    return {"id": i, "data": np.roll(RANDOM, int(i))}


def _row(i: int) -> dict[str, Any]:
    return {"id": i, "text": f"this is sample {i}", "score": np.float32(i)}


def _touched(element: Any) -> int:
    """Read each page of a large array, as training would; return 1."""
    if isinstance(element, dict) and "data" in element:
        element["data"][::4096].sum()
    return 1


def _timed(count: int, read: Callable[[], Iterable[Any]]) -> Callable[[], float]:
    """Return what measures the microseconds of processor time for each of *count* elements."""

    def run() -> float:
        began = time.process_time()
        found = sum(_touched(element) for element in read())
        assert found == count, found
        return 1e6 * (time.process_time() - began) / count

    return run


def _saved(dataset: Dataset, path: Path, compression: str | None) -> Iterable[Any]:
    shutil.rmtree(path, ignore_errors=True)
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
            save = _timed(count, lambda d=dataset, p=path, h=how: _saved(d, p, h))
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
        if find_spec("datasets"):
            candidates.append(
                (f"{name}: load_from_disk", _timed(count, _hugging_face(folder, name)))
            )
        yield name, candidates


def _hugging_face(folder: Path, name: str) -> Callable[[], Iterable[Any]]:
    import datasets

    fn, count = (_array, ARRAYS) if name == "1 MiB arrays" else (_row, ROWS)
    path = str(folder / f"{name} of Hugging Face")
    made = datasets.Dataset.from_generator(
        lambda: (fn(i) for i in range(count)), cache_dir=str(folder / "cache")
    )
    made.save_to_disk(path)
    return lambda: datasets.load_from_disk(path).with_format("numpy")


def main() -> None:
    """Measure writing, then reading what was written."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        for measured in (_writing, _reading):
            for _, candidates in measured(Path(folder)):
                figures += in_turn(candidates, "µs of a core for an element", options.runs)
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
