"""Where chance comes from: everything random is a pure function of numbers that are saved.

`derive` makes one seed from another seed and names. `draws` makes random numbers from a seed: it
needs NumPy, and a dispatcher, which only makes seeds, starts without NumPy.
"""

from __future__ import annotations

import hashlib
import secrets


def fresh() -> int:
    """Draw a new 63-bit seed from the operating system."""
    return secrets.randbits(63)


def derive(seed: int, *names: int | str) -> int:
    """Return the 64-bit seed that *names* have under *seed*; equal on every machine."""
    text = "\x1f".join([str(seed), *map(str, names)]).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def pass_key(outer: int, path: str, number: int) -> int:
    """Return the pass key of pass *number* of the `repeat` at *path*, itself in pass *outer*.

    With the path: a pass of an outer `repeat` is not that of an inner one.
    """
    return derive(outer, path, number) if number else outer
