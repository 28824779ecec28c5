"""Messages and payloads on one connection: any cut of the bytes gives the same ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import VersionMismatch
from penstock.ipc.framing import pack
from penstock.protocol.data import FrameHeader
from penstock.protocol.ranges import RangeSet
from penstock.transport import incoming
from penstock.transport.incoming import HEAD, Incoming
from penstock.transport.link_messages import Greeting, Said, Sent, SentFrame, Welcome
from penstock.transport.payload_places import ALIGNMENT, payload_places

HEADER = FrameHeader(1, 1, 1, 0, 1, 0, RangeSet(((0, 1),)), b"layout")


def root(nbytes):
    return np.full(nbytes, 0xEE, np.uint8)


def sent(stream, payloads):
    frames = tuple(SentFrame(HEADER, len(payload)) for payload in payloads)
    data = bytearray()
    for payload, (start, _) in zip(payloads, payload_places(map(len, payloads)), strict=True):
        data += bytes(start - len(data)) + payload
    return bytes(pack(Sent(stream, frames)) + data)


def received(cut, data, sizes):
    """What comes of *data* if each receive gets at most the next of *sizes*."""
    arrived, at, sizes = [], 0, iter(sizes)
    while at < len(data):
        room = cut.room
        count = min(next(sizes, len(data)), len(room), len(data) - at)
        room[:count] = data[at : at + count]
        at += count
        arrived += cut.took(count)
    return [(one.message, [bytes(payload) for payload in one.payloads]) for one in arrived]


bodies = st.integers(0, 3 * HEAD).map(lambda count: bytes(i % 251 for i in range(count)))
messages = st.one_of(
    st.just(Welcome()),
    st.integers(0, 9).map(Greeting),
    st.tuples(st.integers(0, 9), bodies).map(lambda both: Said(*both)),
    st.tuples(st.integers(0, 9), st.lists(bodies, max_size=4)),
    st.tuples(st.integers(0, 9), st.just([b"small"] * 400)),  # its message is longer than a head
)


@given(st.lists(messages, max_size=6), st.lists(st.integers(1, 2 * HEAD), max_size=60))
def test_any_cut_of_the_bytes_gives_the_same_messages(said, sizes):
    data, expected = b"", []
    for one in said:
        if isinstance(one, tuple):
            stream, payloads = one
            data += sent(stream, payloads)
            frames = tuple(SentFrame(HEADER, len(payload)) for payload in payloads)
            expected.append((Sent(stream, frames), payloads))
        else:
            data += bytes(pack(one))
            expected.append((one, []))

    assert received(Incoming(root), data, sizes) == expected


@given(st.lists(st.integers(0, 300), max_size=20))
def test_payloads_lie_one_behind_the_other_and_begin_where_arrays_may(sizes):
    stop = 0
    for nbytes, (start, end) in zip(sizes, payload_places(sizes), strict=True):
        assert start % ALIGNMENT == 0
        assert stop <= start < stop + ALIGNMENT
        assert end - start == nbytes
        stop = end


def test_payloads_are_received_where_they_stay_and_cannot_be_changed():
    made = []

    def take(nbytes):
        made.append(root(nbytes))
        return made[-1]

    cut = Incoming(take)
    data = sent(1, [b"a" * HEAD, b"b" * HEAD])
    payloads = []
    at = 0
    while at < len(data):
        room = cut.room
        count = min(len(room), len(data) - at)
        room[:count] = data[at : at + count]
        at += count
        for one in cut.took(count):
            payloads += one.payloads

    (place,) = made
    assert all(payload.readonly for payload in payloads)
    assert [np.shares_memory(np.frombuffer(one, np.uint8), place) for one in payloads] == [1, 1]
    assert place[-1] == ord("b")


def test_how_much_is_wanted_is_known_inside_of_payloads_alone():
    cut = Incoming(root)
    assert cut.wanted == 0
    data = sent(1, [bytes(HEAD)])
    head = len(data) - HEAD
    cut.room[: head + 10] = data[: head + 10]
    assert cut.took(head + 10) == []
    assert cut.wanted == HEAD - 10


@pytest.mark.parametrize(
    "data",
    [
        pytest.param((1 << 40).to_bytes(8, "little"), id="too long"),
        pytest.param((3).to_bytes(8, "little") + b"\xc1\xc1\xc1", id="no message"),
        pytest.param(bytes(pack(Sent(1, (SentFrame(HEADER, -1),)))), id="less than nothing"),
        pytest.param(bytes(pack(Sent(1, (SentFrame(HEADER, 1 << 40),)))), id="too much"),
    ],
)
def test_what_no_worker_sends_is_refused_at_once(data):
    with pytest.raises(VersionMismatch, match="cannot read"):
        received(Incoming(root), data, [])


def test_no_memory_is_taken_for_more_than_may_come(monkeypatch):
    monkeypatch.setattr(incoming, "LARGEST", 1000)
    with pytest.raises(VersionMismatch, match="payloads of 1001 bytes, where 1000 are the most"):
        received(Incoming(root), sent(1, [bytes(1001)]), [])
