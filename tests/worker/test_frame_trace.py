"""What became of frames is recorded while somebody asks."""

from penstock.protocol.data import (
    FrameHeader,
    FrameSent,
    FrameTaken,
    FrameTimes,
    Subscribe,
    decode_events,
)
from penstock.protocol.ranges import NO_RANGES, NOTHING_ACKED, RangeSet
from penstock.protocol.types import Codec, ReaderId, TaskId
from penstock_worker.core.events import StreamId
from penstock_worker.frame_trace import ASKED_FOR, KEPT, FrameTrace
from penstock_worker.runner.messages import FrameReady

STREAM = StreamId(1)
TIMES = FrameTimes(0, 5, 1.0, 2.0, 3.0, 4.0)


class Times:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def traced():
    clock = Times()
    trace = FrameTrace(clock, clock)
    trace.opened(STREAM, Subscribe(ReaderId(3), TaskId(1), 1, 1, NOTHING_ACKED, NO_RANGES, 10))
    return trace, clock


def frame(first=0):
    return FrameReady(7, first, 5, 0, 99, b"", Codec.LZ4, 200, 90.0, 91.0, 92.0, 93.0)


def header(first=0):
    numbers = RangeSet.of((first, first + 5))
    return FrameHeader(TaskId(1), 1, 1, first, 5, 0, numbers, b"", Codec.LZ4, 200)


def test_nothing_is_recorded_while_nobody_asks():
    trace, _ = traced()
    trace.arrived(frame())
    trace.taken(STREAM, [TIMES])

    assert not trace.on
    assert decode_events(trace.since(0).events) == []


def test_a_frame_is_recorded_when_it_is_sent_and_when_its_reader_has_had_it():
    trace, clock = traced()
    trace.since(0)
    trace.arrived(frame())
    clock.now = 101.0
    marked, same = trace.sent(STREAM, header(), frame())
    trace.taken(STREAM, [TIMES])

    reply = trace.since(0)

    assert marked.traced
    assert same == frame()
    made = (90.0, 91.0, 92.0, 93.0)
    assert decode_events(reply.events) == [
        FrameSent(1, 1, 7, 3, 0, 5, 99, "lz4", *made, 100.0, 101.0),
        FrameTaken(1, 1, 3, TIMES),
    ]
    assert (reply.next, reply.missed) == (2, 0)
    assert decode_events(trace.since(1).events) == [FrameTaken(1, 1, 3, TIMES)]
    assert decode_events(trace.since(2).events) == []


def test_who_asks_anew_gets_nothing_of_what_was_recorded_for_others():
    trace, _ = traced()
    trace.since(-1)
    trace.sent(STREAM, header(), frame())

    reply = trace.since(-1)

    assert decode_events(reply.events) == []
    assert (reply.next, reply.missed) == (1, 0)


def test_it_ends_by_itself_when_nobody_asks_any_more():
    trace, clock = traced()
    trace.since(0)
    trace.sent(STREAM, header(), frame())
    clock.now += ASKED_FOR

    assert not trace.on
    reply = trace.since(0)
    assert decode_events(reply.events) == []
    assert (reply.next, reply.missed) == (1, 0)


def test_what_is_kept_is_bounded_and_what_was_missed_is_counted():
    trace, _ = traced()
    trace.since(0)
    for number in range(KEPT + 3):
        trace.arrived(frame(5 * number))
        trace.sent(STREAM, header(5 * number), frame(5 * number))

    reply = trace.since(0)

    assert len(decode_events(reply.events)) == KEPT
    assert (reply.next, reply.missed) == (KEPT + 3, 3)


def test_a_stream_that_is_closed_is_not_followed():
    trace, _ = traced()
    trace.since(0)
    trace.closed(STREAM)

    marked, _ = trace.sent(STREAM, header(), frame())
    trace.taken(STREAM, [TIMES])

    assert not marked.traced
    assert decode_events(trace.since(0).events) == []
