"""Images in WebDataset's tar shards: two workers decode them, and a saved state continues a pass.

    pip install pillow
    python examples/webdataset_images.py                                # on shards that it makes
    python examples/webdataset_images.py "photos/train-{000..146}.tar"  # on yours: .jpg and .cls

`WIDTH` and `image` are what you change for a model of your own.
"""

import argparse
import io
import json
import tarfile
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from penstock import AUTOTUNE, Dataset
from penstock_cluster import LocalCluster

WIDTH, BATCH = 64, 16


def make_shards(folder: Path) -> str:
    """Write four shards of 50 images each, and return the pattern of their names."""
    rng = np.random.default_rng(0)
    for shard in range(4):
        with tarfile.open(folder / f"train-{shard:03}.tar", "w") as tar:
            for i in range(50):
                pixels = rng.integers(0, 255, (80, 60 + i, 3), np.uint8)
                jpeg = io.BytesIO()
                Image.fromarray(pixels).save(jpeg, "JPEG")
                for field, data in (("jpg", jpeg.getvalue()), ("cls", b"%d" % (i % 10))):
                    member = tarfile.TarInfo(f"{shard:03}{i:04}.{field}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    return str(folder / "train-{000..003}.tar")


def image(data: bytes) -> np.ndarray:
    """Decode an image, and make it as large as all others: a batch is one array.

    `draft` lets the JPEG decoder make a half, a quarter or an eighth of each side, but no less than
    is asked for. A large photo then takes a fraction of the time.
    """
    with Image.open(io.BytesIO(data)) as decoded:
        decoded.draft("RGB", (WIDTH, WIDTH))
        return np.asarray(decoded.convert("RGB").resize((WIDTH, WIDTH)))


def augment(sample: dict[str, Any], *, rng: np.random.Generator) -> dict[str, Any]:
    """Mirror half of the images. Penstock gives `rng`: a sample made again is the same."""
    pixels = sample["jpg"]
    return {"image": pixels[:, ::-1] if rng.random() < 0.5 else pixels, "class": sample["cls"]}


def train(shards: str, address: str) -> None:
    """Train for three steps, save the state, and continue from it as another process would."""
    batches = (
        Dataset.webdataset(shards, decode={"jpg": image, "cls": int})
        .map(augment, num_parallel_calls=AUTOTUNE)
        .shuffle(1000)
        .batch(BATCH)
        .distribute("distributed_epoch", address)
    )
    classes: Counter[int] = Counter()
    with batches.iterator() as before:
        for _ in range(3):
            classes.update(next(before)["class"].tolist())  # your training step goes here
        state = json.dumps(before.state())
    print(f"stopped after {classes.total()} images; the state has {len(state):,} characters")

    with batches.iterator(json.loads(state)) as after:
        for batch in after:
            assert batch["image"].shape[1:] == (WIDTH, WIDTH, 3)
            classes.update(batch["class"].tolist())
    print(f"{classes.total()} images: {dict(sorted(classes.items()))} by class")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("shards", nargs="?", help="a pattern of tar files")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, LocalCluster(workers=2) as cluster:
        train(given.shards or make_shards(Path(folder)), cluster.target)
