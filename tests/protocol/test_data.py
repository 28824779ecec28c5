"""What became of frames, as bytes."""

import pytest

from penstock.protocol.data import FrameSent, FrameTaken, FrameTimes, decode_events, encode_events

SENT = FrameSent(1, 1, 7, 3, 10, 5, 999, "lz4", 1.0, 2.0, 2.0, 2.5, 3.0, 4.0)
TIMES = FrameTimes(10, 15, 5.0, 6.0, 6.5, 7.0)


def test_events_come_back_from_bytes():
    events = [SENT, FrameTaken(1, 1, 3, TIMES)]

    assert decode_events(encode_events(events)) == events


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91\x80", encode_events([])[:0] + b"\x01"])
def test_bytes_that_are_no_events_are_refused(data):
    with pytest.raises(ValueError, match="are no trace"):
        decode_events(data)
