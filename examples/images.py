"""Images from a folder, decoded by a function of your own; a folder in it for each class.

    pip install pillow
    python examples/images.py photos              # the pipeline runs here
    python examples/images.py photos host:7000    # the cluster there runs it

Workers on other hosts need Pillow, and the same folder under the same path; or give a URL that
fsspec reads, such as s3://bucket/photos. What is no image is left out, and named in photos.skipped.
"""

import argparse
from collections import Counter
from pathlib import PurePath
from typing import Any

import fsspec
import numpy as np
from PIL import Image

from penstock import AUTOTUNE, Dataset

SIZE = 64


def decode(path: str, *, rng: np.random.Generator) -> dict[str, Any]:
    """Return the image in *path* as an array of one size, at times mirrored, and its class."""
    with fsspec.open(path, "rb") as file, Image.open(file) as image:
        pixels = np.asarray(image.convert("RGB").resize((SIZE, SIZE)))
    if rng.random() < 0.5:  # an `rng` that Penstock gives: the same when it is made again
        pixels = pixels[:, ::-1]
    return {"image": pixels, "class": PurePath(path).parent.name}


def pipeline(folder: str, address: str | None) -> Dataset:
    """Return batches of the images in *folder*."""
    dataset = (
        Dataset.list_files(f"{folder}/*/*")  # in another order in each pass
        .map(decode, num_parallel_calls=AUTOTUNE)  # Pillow lets threads run at the same time
        .ignore_errors(max_errors=100, log=f"{folder.rstrip('/')}.skipped")
        .batch(16)
    )
    if address is not None:
        dataset = dataset.distribute("distributed_epoch", address)
    return dataset.prefetch(AUTOTUNE)


def train(folder: str, address: str | None) -> None:
    """Read one pass."""
    classes: Counter[str] = Counter()
    for batch in pipeline(folder, address):
        assert batch["image"].shape[1:] == (SIZE, SIZE, 3)  # the step of a model stands here
        classes.update(map(str, batch["class"]))
    print(", ".join(f"{count} of {name}" for name, count in sorted(classes.items())))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", help="where the folders of images are")
    parser.add_argument("address", nargs="?", help="a dispatcher's, as host:port")
    given = parser.parse_args()
    train(given.folder, given.address)
