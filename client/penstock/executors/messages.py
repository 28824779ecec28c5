"""Messages between a process and the child that calls functions for it.

Each message is answered by one. Elements do not travel here: a message says where in the shared
memory they lie.
"""

from __future__ import annotations

import socket
import struct
from typing import Generic, TypeAlias, TypeVar

import msgspec

from penstock.ipc.child import ProcessEnvironment
from penstock.protocol.types import Failure
from penstock.serialization.pickling import Pickled

_LENGTH = struct.Struct("<Q")
_ENCODER = msgspec.msgpack.Encoder()


class MemoryFrame(msgspec.Struct, array_like=True, frozen=True):
    """Elements in the shared memory: how they lie there, from which byte on, and how many bytes."""

    layout: bytes
    offset: int
    nbytes: int


class LoadFunction(msgspec.Struct, tag=True, frozen=True):
    """Have this function, and forget the one before."""

    pickled: Pickled
    contents: dict[str, memoryview]


class BeginCalls(msgspec.Struct, tag=True, frozen=True):
    """Be ready to call the function for operator *label*; *seed* is for its ``rng``."""

    label: str
    seed: int
    surroundings: ProcessEnvironment


class CallFunction(msgspec.Struct, tag=True, frozen=True):
    """Call the function on these elements, of which the first is element *number*."""

    number: int
    frames: list[MemoryFrame]


class FunctionReady(msgspec.Struct, tag=True, frozen=True):
    """The answer to `LoadFunction` and `BeginCalls`: why it cannot be done, if so."""

    failure: Failure | None = None


class CallDone(msgspec.Struct, tag=True, frozen=True):
    """The answer to `CallFunction`: what the function gave up to an error, and that.

    *memory* is how many bytes the process has now, without what it shares.
    """

    frames: list[MemoryFrame]
    failure: Failure | None
    memory: int


ExecutorCommand: TypeAlias = LoadFunction | BeginCalls | CallFunction
ExecutorReply: TypeAlias = FunctionReady | CallDone

M = TypeVar("M")


class FramedSocket(Generic[M]):
    """One end of the socket. *said* is the type of what comes from the other."""

    def __init__(self, sock: socket.socket, said: type[M]) -> None:
        self.sock = sock
        self._decoder: msgspec.msgpack.Decoder[M] = msgspec.msgpack.Decoder(said)

    def send(self, message: ExecutorCommand | ExecutorReply) -> None:
        """Send *message*.

        Raises:
            OSError: when the other side is gone.
        """
        buffer = bytearray(_LENGTH.size)
        _ENCODER.encode_into(message, buffer, _LENGTH.size)
        _LENGTH.pack_into(buffer, 0, len(buffer) - _LENGTH.size)
        self.sock.sendall(buffer)

    def receive(self) -> M | None:
        """Wait for the next message; None when the other side is gone."""
        head = self._read(_LENGTH.size)
        if head is None:
            return None
        body = self._read(_LENGTH.unpack(head)[0])
        return None if body is None else self._decoder.decode(body)

    def _read(self, nbytes: int) -> bytearray | None:
        data = bytearray(nbytes)
        view = memoryview(data)
        while view:
            try:
                got = self.sock.recv_into(view)
            except ConnectionError:
                return None
            if not got:
                return None
            view = view[got:]
        return data


ORDERS: type[ExecutorCommand] = ExecutorCommand  # type: ignore[assignment]  # a union is what the decoder wants
ANSWERS: type[ExecutorReply] = ExecutorReply  # type: ignore[assignment]  # as above
