"""Training on a dataset while two workers save it; a worker is killed in the middle.

    python examples/save_and_train.py

A second process lets the workers turn the sources of Python's standard library into tokens and
write them into a folder, and ends at once: a worker commits the save. This process trains on what
is committed, and follows the save to its end. Each line comes exactly once, although a worker dies.
The second epoch reads the complete folder in a shuffled order: nothing is made again. It needs
pyarrow.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
import zlib
from pathlib import Path

import numpy as np

from penstock import Dataset
from penstock.service import save
from penstock_cluster import LocalCluster

SOURCES = sorted(map(str, Path(sysconfig.get_paths()["stdlib"]).glob("*.py")))[:60]


def tokens(line: str) -> dict[str, object]:
    """Turn a line into a number for each word."""
    words = [zlib.crc32(word.encode()) % 50_000 for word in line.split()]
    return {"text": line, "tokens": np.array(words, np.int32)}


def pipeline() -> Dataset:
    """Return the lines of all files with their tokens, in one order."""
    return Dataset.text_lines(SOURCES, errors="replace").map(tokens)


def write(folder: str, target: str) -> None:
    """Have the workers at *target* save the pipeline, and leave."""
    save(pipeline(), folder, target, chunk_bytes=100_000, chunk_seconds=0.5)


def main() -> None:
    """Save in one process, and train in this one."""
    expected = sum(1 for _ in Dataset.text_lines(SOURCES, errors="replace"))
    with tempfile.TemporaryDirectory() as folder, LocalCluster(workers=2) as cluster:
        command = [sys.executable, __file__, f"{folder}/tokens", cluster.target]
        subprocess.run(command, check=True)
        followed = Dataset.load(f"{folder}/tokens", wait=True, timeout=120)
        count, total = 0, 0
        for count, sample in enumerate(followed, start=1):
            total += len(sample["tokens"])  # a training step
            if count == expected // 4:
                cluster.workers[0].kill()
                print(f"a worker was killed after {count:,} lines")
        print(f"epoch 1: {count:,} lines, {total:,} tokens, while they were written")
        assert count == expected

        loaded = Dataset.load(f"{folder}/tokens")
        shuffled = loaded.global_shuffle(seed=1)
        again = sum(len(sample["tokens"]) for sample in shuffled)
        print(f"epoch 2: {len(loaded):,} lines, {again:,} tokens, shuffled")
        assert (len(loaded), again) == (count, total)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        write(*sys.argv[1:])
    else:
        main()
