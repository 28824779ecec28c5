"""Elements of a frame, decoded when the training loop asks for the first of them."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Protocol

from penstock.element import Element
from penstock.errors import VersionMismatch
from penstock.frames.compression import decompress
from penstock.frames.frame import unpack
from penstock.protocol.data import FrameHeader
from penstock.protocol.types import Codec
from penstock.runtime import clock


class FramePayload:
    """A frame's payload, which becomes elements when the first of them is wanted."""

    __slots__ = ("_elements", "_frame", "_payload", "_writable")

    def __init__(self, frame: FrameHeader, payload: memoryview, *, writable: bool) -> None:
        self._frame, self._writable = frame, writable
        self._payload: memoryview | None = payload
        self._elements: list[Element] = []

    def elements(self, start: int, stop: int) -> list[Element]:
        """Return the elements with the numbers *start* to *stop*."""
        if self._payload is not None:
            self._elements = self._unpacked(self._payload)
            self._payload = None
        first = self._frame.first
        if start == first and stop == first + len(self._elements):
            return self._elements
        return self._elements[start - first : stop - first]

    def _unpacked(self, payload: memoryview) -> list[Element]:
        if self._frame.stored is not Codec.NONE:
            payload = decompress(payload, self._frame.raw_nbytes)
        elements = unpack(self._frame.layout, payload, writable=self._writable)
        if len(elements) != self._frame.count:
            raise VersionMismatch(
                f"a frame of task {self._frame.task} holds {len(elements)} elements, and its "
                f"header says {self._frame.count}: the worker is of a version that this one does "
                "not know"
            )
        return elements


class Block:
    """A block of which the training loop has the first element.

    See `penstock.reader.core.hand.Handed`.

    The rest is a list's own iterator: to take one element, to count what is left and to take all
    that is left are each one step, whichever thread does it.
    """

    __slots__ = ("_count", "rest")

    def __init__(self, elements: list[Element]) -> None:
        if not elements:
            raise ValueError("a block has an element")
        self._count = len(elements)
        self.rest = iter(elements)
        next(self.rest)

    def returned(self) -> int:
        """See `Handed.returned`."""
        return self._count - operator.length_hint(self.rest)

    def withdraw(self) -> int:
        """See `Handed.withdraw`."""
        self._count -= len(list(self.rest))
        return self._count


class LeaseHolder(Protocol):
    """Until when elements may be handed out."""

    @property
    def permitted_until(self) -> float:
        """The moment, by the clock of leases."""
        ...


def permitted(rest: Iterator[Element], permission: LeaseHolder) -> Iterator[Element]:
    """Yield from *rest*, each element within the lease.

    A thread that asks while another is inside gets the ValueError of all generators, and no element
    is lost by it: a lock here would cost every loop a fifth of its speed.
    """
    now = clock.now
    while now() < permission.permitted_until:
        for element in rest:
            yield element
            break
        else:
            return
