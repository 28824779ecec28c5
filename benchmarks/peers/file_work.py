"""The files that contestants of `bench_files` read, and what users' functions do with them.

As a script it makes them: ``python file_work.py FOLDER SHARE`` writes those that its environment
can write, with so large a share of the elements.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

VARIABLE = "BENCH_FILES"
"""Holds the folder of the files, for contestants."""

FILES = 4
ROWS, ROW_GROUP, ROW_BATCH = 4_000_000, 1 << 17, 1024
"""Of all Parquet files; of 44 bytes each."""
NUMBERS = tuple(f"f{i}" for i in range(8))
PICTURES, STORED, SIDE, PICTURE_BATCH = 4_000, 256, 224, 32
LINES = 200_000
SAMPLES, TOKENS, SAMPLE_BATCH = 60_000, 1024, 32
ONE_FILE = 2_000_000_000
"""Bytes of the file that two workers share."""


def folder() -> Path:
    """Return where the files are."""
    return Path(os.environ[VARIABLE])


def names(pattern: str) -> list[str]:
    """Return the files of *pattern* in the folder."""
    return sorted(map(str, folder().glob(pattern)))


def resized(jpeg: bytes) -> np.ndarray:
    """Decode a picture, and return it as float32 between 0 and 1, of shape (224, 224, 3)."""
    from PIL import Image

    with Image.open(io.BytesIO(jpeg)) as image:
        small = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        return np.asarray(small, np.float32) / np.float32(255)


def write_table(to: Path, share: float) -> None:
    """Write Parquet files of numbers, as pyarrow writes them by default."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = int(ROWS * share) // FILES
    for number in range(FILES):
        random = np.random.default_rng(number)
        columns: dict[str, Any] = {
            "id": np.arange(number * count, (number + 1) * count),
            "label": random.integers(0, 1000, count, np.int32),
            **{name: random.random(count, np.float32) for name in NUMBERS},
        }
        pq.write_table(pa.table(columns), to / f"table-{number}.parquet", row_group_size=ROW_GROUP)


def write_pictures(to: Path, share: float) -> None:
    """Write tar files of JPEG, smooth noise of 256 x 256, with a class each."""
    from PIL import Image

    random, pictures = np.random.default_rng(7), []
    for _ in range(64):
        small, file = random.integers(0, 256, (32, 32, 3), np.uint8), io.BytesIO()
        Image.fromarray(small).resize((STORED, STORED), Image.Resampling.BICUBIC).save(file, "JPEG")
        pictures.append(file.getvalue())
    for number in range(FILES):
        with tarfile.open(to / f"pictures-{number}.tar", "w") as tar:
            for i in range(int(PICTURES * share) // FILES):
                for field, data in (("jpg", pictures[i % 64]), ("cls", str(i % 10).encode())):
                    member = tarfile.TarInfo(f"{number}{i:06}.{field}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


def document(number: int) -> dict[str, Any]:
    """Return a document as corpora for language models have it."""
    words = np.random.default_rng(number).integers(0, 5000, 80)
    return {
        "id": f"doc-{number}",
        "text": " ".join(f"w{word}" for word in words),
        "url": f"https://example.org/{number}",
        "meta": {"lang": "en", "score": number / 7, "words": len(words)},
    }


def write_documents(to: Path, share: float) -> None:
    """Write JSON lines, packed by zstd."""
    import pyarrow as pa

    lines = [json.dumps(document(number)) + "\n" for number in range(1000)]
    block = "".join(lines).encode()
    for number in range(FILES):
        with pa.output_stream(
            str(to / f"documents-{number}.jsonl.zst"), compression="zstd"
        ) as file:
            for _ in range(int(LINES * share) // FILES // len(lines)):
                file.write(block)


def write_one_file(to: Path, share: float) -> None:
    """Write one large file of JSON lines."""
    block = "".join(json.dumps(document(number)) + "\n" for number in range(1000)).encode()
    with (to / "one.jsonl").open("wb") as file:
        while file.tell() < ONE_FILE * share:
            file.write(block)


def sample(number: int) -> dict[str, Any]:
    """Return a sample of token ids."""
    return {"tokens": np.arange(number, number + TOKENS, dtype=np.int32), "id": number}


def mosaic() -> ModuleType:
    """Import Mosaic's library; a torchvision that does not load beside PyTorch for CPUs is empty.

    Only its data sets of pictures use that.
    """
    with suppress(ImportError, OSError, RuntimeError):
        return importlib.import_module("streaming")
    for name in [name for name in sys.modules if name.startswith(("torchvision", "streaming"))]:
        del sys.modules[name]
    for name in ("", ".datasets", ".transforms", ".transforms.functional"):
        empty = ModuleType(f"torchvision{name}")
        empty.VisionDataset, empty.to_tensor = type("VisionDataset", (), {}), None  # type: ignore[attr-defined]
        sys.modules[empty.__name__] = empty
    return importlib.import_module("streaming")


def write_mosaic(to: Path, share: float) -> None:
    """Write samples as Mosaic's shards."""
    columns = {"tokens": f"ndarray:int32:{TOKENS}", "id": "int"}
    with mosaic().MDSWriter(out=str(to / "mosaic"), columns=columns) as writer:
        for number in range(int(SAMPLES * share)):
            writer.write(sample(number))


def make(to: Path, share: float) -> None:
    """Write what this environment can write."""
    writers: tuple[Callable[[Path, float], None], ...] = (
        write_table,
        write_pictures,
        write_documents,
        write_one_file,
    )
    if "mosaic" in sys.prefix:
        writers = (write_mosaic,)
    for write in writers:
        write(to, share)


if __name__ == "__main__":
    make(Path(sys.argv[1]), float(sys.argv[2]))
