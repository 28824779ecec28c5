"""A training loop that is killed (kill -9 if you like), and goes on exactly where it saved.

    python examples/resume.py checkpoint.json              # the pipeline runs here
    python examples/resume.py checkpoint.json host:7000    # the cluster there runs it

Kill it, start it again in the same way, as often as you like. In the end every sample was in the
model once: the model and the place in the input are saved together, so what was done since the last
checkpoint is forgotten by both and done again.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from penstock import Dataset

SAMPLES, SAVE_EVERY = 6000, 20


def pipeline(address: str | None) -> Dataset:
    """Return batches of the numbers of samples, in random order."""
    dataset = Dataset.range(SAMPLES).shuffle(500).batch(10)
    return dataset if address is None else dataset.distribute("distributed_epoch", address)


def save(file: Path, checkpoint: dict[str, Any]) -> None:
    """Write *checkpoint*, so that a kill at any moment leaves the old file or the new one."""
    part = file.with_suffix(".part")
    with part.open("w") as out:
        json.dump(checkpoint, out)
        out.flush()
        os.fsync(out.fileno())
    part.replace(file)


def train(file: Path, address: str | None) -> None:
    """Go on from *file*, or begin if there is none."""
    seen, step, place = np.zeros(SAMPLES, int), 0, None
    if file.exists():
        checkpoint = json.loads(file.read_text())
        seen, step, place = np.array(checkpoint["model"]), checkpoint["step"], checkpoint["input"]
        print(f"going on from step {step}", flush=True)
    with pipeline(address).iterator(place) as batches:
        for batch in batches:
            seen[batch] += 1  # our model counts how often it saw each sample
            time.sleep(0.002)
            step += 1
            if step % SAVE_EVERY == 0:
                save(file, {"model": seen.tolist(), "step": step, "input": batches.state()})
                print(f"saved at step {step}", flush=True)
    print(f"{step} steps; samples were seen {sorted(set(seen.tolist()))} time(s)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkpoint", type=Path, help="a file; if it is there, go on from it")
    parser.add_argument("address", nargs="?", help="a dispatcher's, as host:port")
    given = parser.parse_args()
    train(given.checkpoint, given.address)
