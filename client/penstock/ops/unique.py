"""`unique`: each element when it comes for the first time.

State: ``[the digests of all elements so far, the input's state]``: 16 bytes for each different
element, in base64. It is the only state that grows, because nothing smaller can identify the
elements that came before.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.element import Element, sorted_keys, structure
from penstock.element import leaves as leaves_of
from penstock.engine.context import Context
from penstock.engine.iterator import Mark, OneInputIterator, OpIterator, State
from penstock.graph.node import Node

SIZE = 16


@dataclass(frozen=True, eq=False)
class Unique(Node):
    """The elements without those that came before."""

    op: ClassVar[str] = "unique"
    per_task: ClassVar[bool] = True
    upstream: Node

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        came, below = state or ("", None)
        return _UniqueIterator(context.open(self.upstream, below), base64.b64decode(came))


class _UniqueIterator(OneInputIterator):
    def __init__(self, upstream: OpIterator, came: bytes) -> None:
        self._upstream = upstream
        self._order = bytearray(came)
        """The digests, in the order in which they came; it only grows."""
        self._came = {came[at : at + SIZE] for at in range(0, len(came), SIZE)}
        self._inputs: list[Element] = []
        """Elements of the input's last block that were not looked at yet."""
        self._behind: list[int] = []
        """For each element of the last block, how many inputs of its block come after it."""

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        out: list[Element] = []
        self._behind = []
        while not out:
            self._inputs = self._inputs or self._upstream.block(n)
            if not self._inputs:
                break
            looked, self._inputs = self._inputs[:n], self._inputs[n:]
            for i, element in enumerate(looked):
                digest = _digest(element)
                if digest not in self._came:
                    self._came.add(digest)
                    self._order += digest
                    out.append(element)
                    self._behind.append(len(looked) - i + len(self._inputs))
        return out

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        order, count, left = self._order, len(self._order), len(self._inputs)
        behind, below = self._behind, self._upstream.mark()

        def at(back: int) -> State:
            came = bytes(order[: count - SIZE * back])
            return [base64.b64encode(came).decode(), below(behind[-back] if back else left)]

        return at


def _digest(element: Element) -> bytes:
    """Return a digest of *element*, the same for equal values of equal types."""
    hashed = hashlib.blake2b(digest_size=SIZE)
    if isinstance(element, (tuple, dict)):
        hashed.update(repr(structure(element)).encode())
    for leaf in leaves_of(sorted_keys(element)):
        for part in _parts(leaf):
            hashed.update(len(part).to_bytes(8, "little"))
            hashed.update(part)
    return hashed.digest()


def _parts(leaf: object) -> list[bytes]:
    if isinstance(leaf, str):
        return [b"str", leaf.encode("utf-8", "surrogatepass")]
    if isinstance(leaf, bytes):
        return [b"bytes", leaf]
    array = np.asarray(leaf)
    if array.dtype.hasobject:
        text = [part for value in array.flat for part in _parts(value)]
        return [repr(array.shape).encode(), *text]
    return [f"{array.dtype.str}{array.shape}".encode(), array.tobytes()]
