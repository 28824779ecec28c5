"""What every contestant does the same: arrays, pictures, texts, and functions of users."""

from __future__ import annotations

import io
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TypeAlias

import numpy as np

ROWS = 1_000_000
BATCH = 256
SHUFFLED = 10_000
MIB = 1 << 20
IMAGES = (8, 224, 224, 3)
"""4.8 MB of float32."""
PICTURES, SIDE = 64, 224
PICTURE_BATCH = 32
LENGTH = 1024
"""Of a text in pieces, which is cut or filled."""
TEXT_BATCH = 32
TEXTS = 64

Row: TypeAlias = Callable[[], Iterator[int]]
"""Begins the work of a row; yields how much was done since the last time."""


@dataclass(frozen=True)
class Timed:
    """A row that is about how long something takes."""

    once: Callable[[], float]
    """Does it, and returns the seconds that count."""


@dataclass(frozen=True)
class ReaderCpu:
    """A row that is about what CPU time the reader's process needs for its elements."""

    row: Row
    nbytes: int
    """Bytes of an element."""


@dataclass(frozen=True)
class Share:
    """A row that is a share of something, measured once for each turn."""

    once: Callable[[], float]


def first_of(elements: Iterable[object]) -> float:
    """Return how many seconds a new iterator of *elements* takes until its first element."""
    began = time.perf_counter()
    iterator = iter(elements)
    next(iterator)
    return time.perf_counter() - began


def prepare() -> None:
    """Make all pictures and texts."""
    pictures()
    for number in range(TEXTS):
        text(number)


def counted(elements: Iterable[object], weight: int = 1, together: int = 1) -> Iterator[int]:
    """Take *elements*, so many *together*; yield how many were taken, each of this *weight*."""
    taken = iter(elements)
    while True:
        chunk = deque(enumerate(islice(taken, together), 1), maxlen=1)
        if not chunk:
            return
        yield chunk[0][0] * weight


def endlessly(passes: Iterable[object], weight: int = 1, together: int = 1) -> Iterator[int]:
    """Read *passes* again and again."""
    while True:
        yield from counted(passes, weight, together)


def whole(passes: Iterable[object]) -> Iterator[int]:
    """Read *passes* again and again; yield 1 for each."""
    while True:
        deque(passes, maxlen=0)
        yield 1


@cache
def pictures() -> tuple[bytes, ...]:
    """Return JPEG files of smooth noise."""
    from PIL import Image

    random, found = np.random.default_rng(7), []
    for _ in range(PICTURES):
        small = random.integers(0, 256, (16, 16, 3), np.uint8)
        file = io.BytesIO()
        Image.fromarray(small).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(file, "JPEG")
        found.append(file.getvalue())
    return tuple(found)


def decode(number: int) -> np.ndarray:
    """Return picture *number* as float32 between 0 and 1, of shape (224, 224, 3)."""
    from PIL import Image

    with Image.open(io.BytesIO(pictures()[int(number) % PICTURES])) as image:
        return np.asarray(image, np.float32) / np.float32(255)


@cache
def text(number: int) -> str:
    """Return a text of about 1.1 KB."""
    words = np.random.default_rng(number).integers(0, 5000, 190)
    return " ".join(f"w{word}" for word in words)


def tokens(number: int) -> np.ndarray:
    """Return the pieces of a text as int32 of one length: plain Python, about 100 µs."""
    known: dict[str, int] = {}
    out = []
    for word in text(int(number) % TEXTS).split():
        out += [known.setdefault(word[at : at + 2], len(known)) for at in range(0, len(word), 2)]
    return np.array((out + [0] * LENGTH)[:LENGTH], np.int32)
