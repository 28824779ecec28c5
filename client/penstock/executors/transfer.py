"""Elements into shared memory, and out of it."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.element import Element
from penstock.executors.messages import MemoryFrame
from penstock.frames.buffers import aligned
from penstock.frames.frame import FrameBuilder, unpack
from penstock.ipc.shared_memory import MemoryFile

HEAD = 64
"""Bytes at the start of what a process writes: which element of a call it is at."""

_ANY = 1 << 62
"""More bytes than there are: what lies in memory fits into it."""


def put(elements: Sequence[Element], shared: MemoryFile, head: int = 0) -> list[MemoryFrame]:
    """Write *elements* into *shared*, behind its first *head* bytes; return where they are.

    Raises:
        ElementError: when one of them holds something that cannot cross to another process.
    """
    builder = FrameBuilder(_ANY, len(elements), most_bytes=_ANY)
    made, at, rest = [], head, elements
    while rest:
        rest = rest[builder.add(rest) :]
        layout, content = builder.take()
        offset = aligned(at)
        at = offset + layout.nbytes
        made.append((layout, content, offset))
    room = shared.room(at)
    for layout, content, offset in made:
        layout.write(content, room[offset : offset + layout.nbytes])
    return [MemoryFrame(layout.to_bytes(), offset, layout.nbytes) for layout, _, offset in made]


def get(frames: Sequence[MemoryFrame], shared: MemoryFile) -> list[Element]:
    """Return the elements of *frames*, with memory of their own."""
    out: list[Element] = []
    for frame in frames:
        stop = frame.offset + frame.nbytes
        out += unpack(frame.layout, shared.view(stop)[frame.offset :], writable=True)
    return out
