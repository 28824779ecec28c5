"""Messages over a stream."""

import socket
import threading

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import Overloaded
from penstock.executors.messages import (
    COMMANDS,
    REPLIES,
    CallDone,
    CallFunction,
    FunctionReady,
    MemoryFrame,
)
from penstock.ipc.framing import FramedSocket, Unpacker, pack
from penstock.protocol.types import Failure
from penstock_worker.runner.messages import Flush, FreeFrames, LoadDefinition

MESSAGES = [LoadDefinition("a dataset", bytes(3000)), Flush(1), FreeFrames(1, (0, 64)), Flush(2)]
STREAM = b"".join(map(pack, MESSAGES))


def unpacker():
    return Unpacker(msgspec.msgpack.Decoder(LoadDefinition | FreeFrames | Flush))


def test_messages_that_come_together_are_told_apart():
    assert unpacker().feed(STREAM) == MESSAGES


@given(st.lists(st.integers(0, len(STREAM)), max_size=10))
def test_messages_arrive_however_the_stream_is_cut(cuts):
    edges = [0, *sorted(cuts), len(STREAM)]
    unpack = unpacker()

    got = [m for a, b in zip(edges, edges[1:], strict=False) for m in unpack.feed(STREAM[a:b])]

    assert got == MESSAGES


@pytest.fixture
def ends():
    parent, child = socket.socketpair()
    with parent, child:
        yield FramedSocket(parent, REPLIES), FramedSocket(child, COMMANDS)


def test_commands_and_replies_arrive_as_they_were_sent(ends):
    parent, child = ends
    frames = [MemoryFrame(b"layout", 64, 128)]
    failure = Failure.of(Overloaded("no"))

    parent.send(CallFunction(7, frames, []))
    assert child.receive() == CallFunction(7, frames, [])

    for reply in (FunctionReady(), FunctionReady(failure), CallDone(frames, 0, failure, 1 << 30)):
        child.send(reply)
        assert parent.receive() == reply


def test_a_message_larger_than_the_socket_holds_arrives_whole(ends):
    parent, child = ends
    large = CallFunction(0, [MemoryFrame(b"x" * (4 << 20), 0, 1)], [])
    sender = threading.Thread(target=parent.send, args=(large,))
    sender.start()

    assert child.receive() == large
    sender.join()


def test_a_side_that_is_gone_is_no_message_even_amid_one(ends):
    parent, child = ends
    parent.sock.sendall((100).to_bytes(8, "little") + b"a few")
    parent.sock.close()

    assert child.receive() is None
    with pytest.raises(OSError, match="pipe|reset"):
        child.send(FunctionReady())
