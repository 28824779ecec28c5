"""Messages over a stream."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from penstock_worker.runner.orders import Free, Load, Want
from penstock_worker.runner.post import Unpacker, pack

MESSAGES = [Load("a dataset", bytes(3000)), Want(1), Free(1, (0, 64)), Want(2)]
STREAM = b"".join(map(pack, MESSAGES))


def unpacker():
    return Unpacker(msgspec.msgpack.Decoder(Load | Free | Want))


def test_messages_that_come_together_are_told_apart():
    assert unpacker().feed(STREAM) == MESSAGES


@given(st.lists(st.integers(0, len(STREAM)), max_size=10))
def test_messages_arrive_however_the_stream_is_cut(cuts):
    edges = [0, *sorted(cuts), len(STREAM)]
    unpack = unpacker()

    got = [m for a, b in zip(edges, edges[1:], strict=False) for m in unpack.feed(STREAM[a:b])]

    assert got == MESSAGES
