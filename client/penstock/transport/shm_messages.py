"""What a worker and a reader on its host say to each other over a unix socket.

The reader says `Hello`, and the worker `Welcome` or `Denied`. Then the reader opens streams, each
as a call of ``Read`` over gRPC would be; requests and replies are the same. Memory is announced
with its file; frames in it are `Lent` once the reader has mapped it, and sent as bytes till then.
"""

from __future__ import annotations

import msgspec

from penstock.protocol.data import Ack, FrameHeader, Subscribe
from penstock.protocol.types import Failure


class ReaderSays(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """From the reader to the worker."""


class Hello(ReaderSays, frozen=True):
    """A reader on the host *boot_id* knows *token*, which the worker gave to the dispatcher."""

    boot_id: str
    token: str


class OpenStream(ReaderSays, frozen=True):
    """Open a stream, with a number that no other has."""

    stream: int
    request: Subscribe


class AckStream(ReaderSays, frozen=True):
    """Ack on a stream."""

    stream: int
    ack: Ack


class EndStream(ReaderSays, frozen=True):
    """Nothing more comes on a stream, and nothing more is wanted."""

    stream: int


class Mapped(ReaderSays, frozen=True):
    """The reader has mapped *memory*; with *why* it could not."""

    memory: int
    why: str = ""


class GiveBack(ReaderSays, frozen=True):
    """The reader looks at what was lent by these *loans* no more."""

    loans: tuple[int, ...]


class WorkerSays(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """From the worker to the reader."""


class Welcome(WorkerSays, frozen=True):
    """The reader may open streams."""


class Denied(WorkerSays, frozen=True):
    """The reader may not, and *why*."""

    why: str


class Greeting(WorkerSays, frozen=True):
    """The worker has got the request that opens a stream."""

    stream: int


class Memory(WorkerSays, frozen=True):
    """A file comes with this, of *nbytes*: *memory* from now on. *inode* says which file it is."""

    memory: int
    nbytes: int
    inode: int


class MemoryGone(WorkerSays, frozen=True):
    """Nothing more will be lent of *memory*."""

    memory: int


class Said(WorkerSays, frozen=True):
    """A message of a stream in *body*, as it goes over gRPC."""

    stream: int
    body: bytes


class LentFrame(msgspec.Struct, frozen=True, array_like=True):
    """A frame of *nbytes* at *offset* of *memory*, until *loan* is given back.

    With *out* it is to be copied out, and given back at once.
    """

    header: FrameHeader
    memory: int
    offset: int
    nbytes: int
    loan: int
    out: bool


class Lent(WorkerSays, frozen=True):
    """Frames of a stream, which lie in memory."""

    stream: int
    frames: tuple[LentFrame, ...]


class StreamOver(WorkerSays, frozen=True):
    """Nothing more comes on a stream: it is over, or failed."""

    stream: int
    failure: Failure | None = None


FromReader = Hello | OpenStream | AckStream | EndStream | Mapped | GiveBack
FromWorker = Welcome | Denied | Greeting | Memory | MemoryGone | Said | Lent | StreamOver
