"""How much faster is a tokenising map in Python with two processes than with one thread?"""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Callable, Iterator

import numpy as np
from measure import arguments, in_turn, seconds, show
from numpy.typing import NDArray

from penstock import Dataset

N = 8_000
PROCESSES = 2

_WORDS = re.compile(r"[a-z]+|\d|[^\sa-z\d]")


def _lines() -> list[str]:
    rng = np.random.default_rng(7)
    words = ["".join(rng.choice(list("etaoinshrdlu"), n)) for n in rng.integers(2, 11, 500)]
    return [" ".join(rng.choice(words, 160)) for _ in range(200)]


LINES = _lines()
PIECES = {line[i : i + n]: n for line in LINES for n in (1, 2, 3, 4) for i in range(0, 240, 3)}
IDS = {piece: number for number, piece in enumerate(sorted(PIECES))}


def tokenise(line: str) -> NDArray[np.int32]:
    """Cut words into the longest pieces that are known, from the left, and return their numbers."""
    ids = []
    for word in _WORDS.findall(line.lower()):
        start = 0
        while start < len(word):
            for stop in range(min(len(word), start + 4), start, -1):
                found = IDS.get(word[start:stop])
                if found is not None:
                    break
            ids.append(-1 if found is None else found)
            start = stop
    return np.array(ids, np.int32)


def _texts() -> Iterator[str]:
    return (LINES[i % len(LINES)] for i in range(N))


def _penstock(executor: str, calls: int | None) -> Callable[[], object]:
    lines = Dataset.from_sequence(LINES).repeat(N // len(LINES))
    dataset = lines.map(tokenise, num_parallel_calls=calls, executor=executor)
    return lambda: _read(dataset)


def _read(elements: object) -> None:
    count = sum(1 for _ in elements)  # type: ignore[call-overload]
    if count != N:
        raise AssertionError(f"{count} elements instead of {N}")


def _torch() -> Callable[[], object] | None:
    try:
        from torch.utils import data
    except ImportError:
        return None

    class Lines(data.Dataset):  # type: ignore[type-arg,misc]
        def __len__(self) -> int:
            return N

        def __getitem__(self, i: int) -> NDArray[np.int32]:
            return tokenise(LINES[i % len(LINES)])

    loader = data.DataLoader(
        Lines(), batch_size=None, num_workers=PROCESSES, persistent_workers=True, prefetch_factor=64
    )
    return lambda: _read(loader)


def main() -> None:
    """Measure each candidate, warm; the baseline is Penstock's map in the reader's thread."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question)
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        runs: dict[str, Callable[[], object] | None] = {
            "map, in the reader's thread": _penstock("thread", None),
            "plain loop": lambda: _read(map(tokenise, _texts())),
            "map, two threads": _penstock("thread", PROCESSES),
            "map, one process": _penstock("process", 1),
            "map, two processes": _penstock("process", PROCESSES),
            "multiprocessing.Pool.imap, chunks of 64": lambda: _read(
                pool.imap(tokenise, _texts(), 64)
            ),
            "PyTorch DataLoader, two workers": _torch(),
        }

        def rate(run: Callable[[], object]) -> Callable[[], float]:
            return lambda: N / seconds(run)

        candidates = [(name, rate(run)) for name, run in runs.items() if run is not None]
        figures = in_turn(candidates, "elements/s", options.runs)
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
