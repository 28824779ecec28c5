"""Messages over a stream socket: eight bytes of length, then msgpack."""

from __future__ import annotations

import array
import socket
import struct
from typing import Generic, TypeVar

import msgspec

M = TypeVar("M")

READ_NBYTES = 1 << 18
"""Bytes to read from a socket at once: enough for all that a busy peer sent since the last read."""

_LENGTH = struct.Struct("<Q")
_ENCODER = msgspec.msgpack.Encoder()


def pack(message: msgspec.Struct) -> bytearray:
    """Return *message* as bytes for the socket."""
    buffer = bytearray(_LENGTH.size)
    _ENCODER.encode_into(message, buffer, _LENGTH.size)
    _LENGTH.pack_into(buffer, 0, len(buffer) - _LENGTH.size)
    return buffer


def receive_files(sock: socket.socket, most: int) -> tuple[bytes, list[int]]:
    """Wait for a byte; return it and at most *most* files that came with it, empty at the end.

    Programs that this process starts do not inherit the files. `socket.recv_fds` cannot do that: in
    Python 3.11 it ignores its flags.
    """
    files = array.array("i")
    room = socket.CMSG_LEN(most * files.itemsize)
    data, ancillary, _, _ = sock.recvmsg(1, room, socket.MSG_CMSG_CLOEXEC)
    for level, kind, packed in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files.frombytes(packed[: len(packed) - len(packed) % files.itemsize])
    return data, files.tolist()


class Unpacker(Generic[M]):
    """Cuts received bytes into messages of at most *most* bytes, and decodes them with *decoder*.

    *most* is None (no limit) for processes that this process started.
    """

    def __init__(self, decoder: msgspec.msgpack.Decoder[M], most: int | None = None) -> None:
        self._decoder, self._most = decoder, most
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[M]:
        """Add *data*; return the messages that are now complete.

        Raises:
            ValueError: as soon as a message announces a length above *most*.
        """
        self._rest += data
        with memoryview(self._rest) as view:
            messages, stop = self._cut(view)
        del self._rest[:stop]
        return messages

    def _cut(self, view: memoryview) -> tuple[list[M], int]:
        messages: list[M] = []
        at = 0
        while (start := at + _LENGTH.size) <= len(view):
            (length,) = _LENGTH.unpack_from(view, at)
            if self._most is not None and length > self._most:
                raise ValueError(f"a message of {length} bytes, where {self._most} are the most")
            if start + length > len(view):
                break
            with view[start : start + length] as body:
                messages.append(self._decoder.decode(body))
            at = start + length
        return messages, at


class FramedSocket(Generic[M]):
    """One end of a socket, for a thread that can block; *said* is the type of received messages."""

    def __init__(self, sock: socket.socket, said: type[M]) -> None:
        self.sock = sock
        self._decoder: msgspec.msgpack.Decoder[M] = msgspec.msgpack.Decoder(said)

    def send(self, message: msgspec.Struct) -> None:
        """Send *message*.

        Raises:
            OSError: when the other side is gone.
        """
        self.sock.sendall(pack(message))

    def receive(self) -> M | None:
        """Wait for the next message and return it; None if the other side is gone."""
        head = self._read(_LENGTH.size)
        if head is None:
            return None
        body = self._read(_LENGTH.unpack(head)[0])
        return None if body is None else self._decoder.decode(body)

    def send_file(self, fd: int) -> None:
        """Send the open file *fd*; the other side calls `receive_file` for it.

        Raises:
            OSError: when the other side is gone.
        """
        socket.send_fds(self.sock, [b"f"], [fd])

    def receive_file(self) -> int:
        """Wait for a file from `send_file` and return its descriptor.

        Raises:
            ConnectionError: when the other side is gone.
        """
        # Nothing was read ahead: the next byte is the one that the file comes with.
        data, files = receive_files(self.sock, 1)
        if not data or not files:
            raise ConnectionError("no file came")
        return files[0]

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
