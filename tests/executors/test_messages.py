"""Messages between a process and the one that it works for."""

import socket
import threading

import pytest

from penstock.errors import Overloaded
from penstock.executors.messages import (
    ANSWERS,
    ORDERS,
    CallDone,
    CallFunction,
    FramedSocket,
    FunctionReady,
    MemoryFrame,
)
from penstock.protocol.types import Failure


@pytest.fixture
def ends():
    parent, child = socket.socketpair()
    with parent, child:
        yield FramedSocket(parent, ANSWERS), FramedSocket(child, ORDERS)


def test_commands_and_replies_arrive_as_they_were_sent(ends):
    parent, child = ends
    frames = [MemoryFrame(b"layout", 64, 128)]
    failure = Failure.of(Overloaded("no"))

    parent.send(CallFunction(7, frames))
    assert child.receive() == CallFunction(7, frames)

    for reply in (FunctionReady(), FunctionReady(failure), CallDone(frames, failure, 1 << 30)):
        child.send(reply)
        assert parent.receive() == reply


def test_a_message_larger_than_the_socket_holds_arrives_whole(ends):
    parent, child = ends
    large = CallFunction(0, [MemoryFrame(b"x" * (4 << 20), 0, 1)])
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
