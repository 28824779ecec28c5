"""A pipeline in the training process: files, parse, shuffle, batch, prefetch.

    python examples/local_pipeline.py                # with a few files that it makes
    python examples/local_pipeline.py "data/*.jsonl"

Each line of a file is one example, as JSON: {"text": "...", "label": 0}. Nothing else has to run;
see two_hosts.py for how such a pipeline moves to a cluster.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from penstock import AUTOTUNE, Dataset


def parse(line: str) -> dict[str, Any]:
    """Return an example: the bytes of its text, and its label."""
    record = json.loads(line)
    text = np.frombuffer(record["text"].encode(), np.uint8)
    return {"text": text, "label": np.int64(record["label"])}


def pipeline(pattern: str) -> Dataset:
    """Return batches of the examples in the files that match *pattern*."""
    return (
        Dataset.list_files(pattern)  # in another order in each pass
        .interleave(Dataset.text_lines, cycle_length=4, num_parallel_calls=AUTOTUNE)
        .map(parse, num_parallel_calls=AUTOTUNE)
        .shuffle(1000)
        .padded_batch(32)  # texts differ in length: zeros fill up the shorter ones
        .prefetch(AUTOTUNE)
    )


def write_samples(folder: Path) -> None:
    """Write some files, to have something to read."""
    for number in range(8):
        records = [{"text": f"line {i} " * (i % 5 + 1), "label": i % 2} for i in range(100)]
        lines = [json.dumps(record) + "\n" for record in records]
        (folder / f"{number}.jsonl").write_text("".join(lines))


def train(pattern: str) -> None:
    """Go through the data twice."""
    dataset = pipeline(pattern)
    for epoch in range(2):
        examples = positive = 0
        for batch in dataset:
            # The step of a model stands here; torch.from_numpy(batch["text"]) makes a tensor.
            examples += len(batch["label"])
            positive += int(batch["label"].sum())
        print(f"epoch {epoch}: {examples} examples, {positive} of them positive")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pattern", nargs="?", help="files to read; without it, some are made")
    given = parser.parse_args()
    if given.pattern is not None:
        train(given.pattern)
    else:
        with tempfile.TemporaryDirectory() as samples:
            write_samples(Path(samples))
            train(f"{samples}/*.jsonl")
