"""Messages between a worker and a reader on one link: a unix socket, or a TCP connection.

The reader sends `Hello`, and the worker answers `Welcome` or `Denied`. Then the reader opens
streams with the same requests and replies as ``Read`` over gRPC.

Frames come in one of two ways. On a unix socket, the worker announces memory and sends its file.
Once the reader has mapped it, frames in it are `Lent`; until then they come as bytes in `Said`. On
a TCP connection, each `Sent` announces frames, and their payloads follow it on the connection.
"""

from __future__ import annotations

import msgspec

from penstock.protocol.data import Ack, FrameHeader, Subscribe
from penstock.protocol.types import Failure


class ReaderSays(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """From the reader to the worker."""


class Hello(ReaderSays, frozen=True):
    """A reader on the host *boot_id* knows *token*, which the worker gave to the dispatcher.

    *shown* is the credential that the reader would show in a gRPC call. On a unix socket the system
    tells the worker who the reader is, so it is empty there.
    """

    boot_id: str
    token: str
    shown: str = ""


class OpenStream(ReaderSays, frozen=True):
    """Open a stream with an unused number."""

    stream: int
    request: Subscribe


class AckStream(ReaderSays, frozen=True):
    """Ack on a stream."""

    stream: int
    ack: Ack


class EndStream(ReaderSays, frozen=True):
    """The reader ends a stream: it sends and wants nothing more on it."""

    stream: int


class Mapped(ReaderSays, frozen=True):
    """The reader has mapped *memory*, or could not because of *why*."""

    memory: int
    why: str = ""


class GiveBack(ReaderSays, frozen=True):
    """The reader no longer uses the frames of these *loans*."""

    loans: tuple[int, ...]


class WorkerSays(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """From the worker to the reader."""


class Welcome(WorkerSays, frozen=True):
    """The reader may open streams."""


class Denied(WorkerSays, frozen=True):
    """The worker refuses the reader because of *why*."""

    why: str


class Greeting(WorkerSays, frozen=True):
    """The worker has got the request that opens a stream."""

    stream: int


class Memory(WorkerSays, frozen=True):
    """A file of *nbytes* comes with this; its number is *memory*. *inode* identifies the file."""

    memory: int
    nbytes: int
    inode: int


class MemoryGone(WorkerSays, frozen=True):
    """The worker lends no more frames in *memory*."""

    memory: int


class Said(WorkerSays, frozen=True):
    """A stream's message in *body*, in the same form as over gRPC."""

    stream: int
    body: bytes


class LentFrame(msgspec.Struct, frozen=True, array_like=True):
    """A frame of *nbytes* at *offset* in *memory*, valid until the reader gives *loan* back.

    With *out*, the reader must copy the frame and give it back at once.
    """

    header: FrameHeader
    memory: int
    offset: int
    nbytes: int
    loan: int
    out: bool


class Lent(WorkerSays, frozen=True):
    """Frames of a stream that lie in shared memory."""

    stream: int
    frames: tuple[LentFrame, ...]


class SentFrame(msgspec.Struct, frozen=True, array_like=True):
    """A frame whose payload has *nbytes*."""

    header: FrameHeader
    nbytes: int


class Sent(WorkerSays, frozen=True):
    """Frames of a stream, whose payloads follow this message one after another.

    `penstock.transport.payload_places` says where each begins; zeros fill the gaps.
    """

    stream: int
    frames: tuple[SentFrame, ...]


class StreamOver(WorkerSays, frozen=True):
    """The worker ends a stream, because it is complete or failed."""

    stream: int
    failure: Failure | None = None


FromReader = Hello | OpenStream | AckStream | EndStream | Mapped | GiveBack
FromWorker = Welcome | Denied | Greeting | Memory | MemoryGone | Said | Lent | Sent | StreamOver
