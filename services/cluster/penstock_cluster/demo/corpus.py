"""The demo's text, and the pipeline that turns files into batches of bytes."""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dataset.dataset import Dataset
from penstock.errors import MissingFile

PACKAGES = (
    "asyncio",
    "concurrent",
    "email",
    "http",
    "importlib",
    "json",
    "logging",
    "multiprocessing",
    "unittest",
    "xml",
)
"""Packages of the standard library: real text that every machine with Python has."""

SEQUENCE = 512
BATCH = 32


@dataclass(frozen=True)
class Corpus:
    """Files by number, and how many bytes each holds."""

    files: tuple[str, ...]
    sizes: tuple[int, ...]

    @classmethod
    def find(cls, folder: Path | None = None) -> Corpus:
        """Take all files below *folder*, or the sources of `PACKAGES`.

        Raises:
            MissingFile: naming the folder, when there is none in it.
        """
        if folder is None:
            standard = Path(sysconfig.get_paths()["stdlib"])
            found = [path for name in PACKAGES for path in (standard / name).rglob("*.py")]
        else:
            found = list(folder.rglob("*"))
        files = sorted(str(path) for path in found if path.is_file())
        sizes = [Path(name).stat().st_size for name in files]
        kept = [(name, size) for name, size in zip(files, sizes, strict=True) if size]
        if not kept:
            raise MissingFile(f"no file with text in it below {folder or 'the standard library'}")
        return cls(tuple(name for name, _ in kept), tuple(size for _, size in kept))

    @property
    def nbytes(self) -> int:
        """How many bytes there are in all."""
        return sum(self.sizes)

    def bytes_seen_once(self) -> NDArray[np.int64]:
        """Count each byte value over all files: what one epoch must have shown."""
        counts = np.zeros(256, np.int64)
        for name in self.files:
            counts += np.bincount(np.fromfile(name, np.uint8), minlength=256)
        return counts


def pipeline(corpus: Corpus, seed: int) -> Dataset:
    """Return batches ``{"text", "file": (batch, 512), "mask": (batch, 512) bool}``.

    Each byte carries the number of its file, so that the account can tell which file it is from.
    The last sequence of each task is padded; the mask says which places hold text.
    """
    numbers = {name: number for number, name in enumerate(corpus.files)}

    def read(name: str) -> dict[str, Any]:
        text = np.fromfile(name, np.uint8)
        return {"text": text, "file": np.full(len(text), numbers[name], np.int32)}

    def pad(sequence: dict[str, Any]) -> dict[str, Any]:
        missing = SEQUENCE - len(sequence["text"])
        return {
            "text": np.pad(sequence["text"], (0, missing)),
            "file": np.pad(sequence["file"], (0, missing)),
            "mask": np.arange(SEQUENCE) < SEQUENCE - missing,
        }

    return (
        Dataset.list_files(list(corpus.files), shuffle=True, seed=seed)
        .map(read)
        .rebatch(SEQUENCE)
        .map(pad)
        .shuffle(1000)
        .batch(BATCH)
    )
