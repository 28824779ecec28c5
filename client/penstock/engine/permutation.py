"""Random orders of which any part can be had alone: a state of them is a seed, a size and a place.

Orders of up to `SORTED` numbers are those of random keys: exactly as random as the keys. Larger
ones are Feistel networks: a number is a pair (left, right), and in each round what stands on one
side turns the other one by a random amount, which can be undone; so different numbers stay
different. The pairs are a few more than the numbers (by less than the root of their count): what
falls on one of these goes through the network again, until it does not.

All is done in 64-bit integers, a block at a time, and so the same on every machine.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from penstock.engine import draws, seeds

SORTED = 4096
"""The size up to which an order is kept, as a table."""

MOST = 2**63 - 1
"""No order is of more."""

_ROUNDS = 6
_HALF = np.uint64(32)


class Permutation:
    """The numbers below *size*, 0 to `MOST`, in the order that *seed* says."""

    __slots__ = ("_keys", "_lefts", "_rights", "_size", "_table")

    def __init__(self, seed: int, size: int) -> None:
        own = seeds.derive(seed, "order", size)
        self._size = np.uint64(size)
        self._table: NDArray[np.int64] | None = None
        if size <= SORTED:
            self._table = np.argsort(draws.draw(own, 0, size), kind="stable").astype(np.int64)
            return
        lefts = math.isqrt(size - 1) + 1
        self._lefts, self._rights = np.uint64(lefts), np.uint64(-(-size // lefts))
        self._keys = draws.draw(own, 0, _ROUNDS).tolist()

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers at *places* of the order, each 0 or more and below the size."""
        if self._table is not None:
            return self._table[places]
        out = self._through(places.astype(np.uint64))
        while (over := np.flatnonzero(out >= self._size)).size:
            out[over] = self._through(out[over])
        return out.view(np.int64)

    def _through(self, pairs: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return what the network makes of *pairs*, each written as one number."""
        left = pairs // self._rights
        right = pairs - left * self._rights
        for first, second in zip(self._keys[::2], self._keys[1::2], strict=True):
            _turn(left, _amounts(first, right, self._lefts), self._lefts)
            _turn(right, _amounts(second, left, self._rights), self._rights)
        left *= self._rights
        left += right
        return left


def _amounts(key: int, side: NDArray[np.uint64], size: np.uint64) -> NDArray[np.uint64]:
    """Return a random number below *size* (at most 2**32) for each of *side*."""
    bits = draws.numbered(key, side)
    bits >>= _HALF
    bits *= size
    bits >>= _HALF
    return bits


def _turn(side: NDArray[np.uint64], amounts: NDArray[np.uint64], size: np.uint64) -> None:
    """Add *amounts* to *side*, modulo *size*; all are below that."""
    side += amounts
    np.minimum(side, side - size, out=side)  # what would be negative is huge instead
