"""Text in compressed JSON lines: two workers turn it into rows of tokens for a language model.

    python examples/jsonl_text.py                       # on files that it makes
    python examples/jsonl_text.py "corpus/*.jsonl.zst"  # on yours: a dict with "text" in each line

Texts are packed: cut into rows of the same length, so that no row has padding. With PyTorch
installed, each batch becomes a tensor.
"""

import argparse
import gzip
import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from penstock import Dataset
from penstock_cluster import LocalCluster

LENGTH, BATCH, END = 128, 8, 256


def make_corpus(folder: Path) -> str:
    """Write six files of 100 texts each, and return the pattern of their names."""
    for number in range(6):
        with gzip.open(folder / f"part-{number}.jsonl.gz", "wt") as file:
            for i in range(100):
                text = f"This is text {i} of file {number}. " * (1 + i % 7)
                file.write(json.dumps({"id": 100 * number + i, "text": text}) + "\n")
    return str(folder / "part-*.jsonl.gz")


def tokens(document: dict[str, Any]) -> np.ndarray:
    """Return the tokens of a document: its bytes and an end. Call your tokeniser here."""
    data = np.frombuffer(str(document["text"]).encode(), np.uint8)
    return np.append(data.astype(np.int32), np.int32(END))


def step(batch: np.ndarray) -> int:
    """Train on *batch*, int32[rows, LENGTH]; return how many rows it has."""
    assert batch.shape[1:] == (LENGTH,)
    if importlib.util.find_spec("torch"):
        import torch  # noqa: PLC0415  the example runs without

        assert torch.from_numpy(batch).shape == batch.shape  # the same memory, as a tensor
    return len(batch)  # your training step goes here


def train(files: str, address: str) -> None:
    """Read ten batches, save the state, and continue from it as another process would."""
    batches = (
        Dataset.json_lines(files)
        .shuffle(1000)
        .map(tokens)
        .unbatch()  # the tokens of one text after another
        .batch(LENGTH, drop_remainder=True)  # rows; the last tokens of a pass fill none
        .batch(BATCH)
        .distribute("distributed_epoch", address, writable=True)
    )
    with batches.iterator() as before:
        rows = sum(step(next(before)) for _ in range(10))
        state = json.dumps(before.state())
    print(f"stopped after {rows} rows; the state has {len(state):,} characters")

    with batches.iterator(json.loads(state)) as after:
        rows += sum(map(step, after))
    print(f"{rows} rows of {LENGTH} tokens")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="?", help="a pattern of files of JSON lines")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, LocalCluster(workers=2) as cluster:
        train(given.files or make_corpus(Path(folder)), cluster.target)
