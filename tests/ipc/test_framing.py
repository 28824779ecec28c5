"""Messages over a stream."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from penstock.ipc.framing import Unpacker, pack
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
