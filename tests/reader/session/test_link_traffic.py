"""What came from each worker, and how fast of late."""

import pytest

from penstock.protocol.data import FrameHeader
from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import Codec, TaskId, WorkerId
from penstock.reader.core.task_stream import Held
from penstock.reader.session.link_traffic import SAMPLES, SPAN, LinkMeter

ONE, OTHER = WorkerId("w:1"), WorkerId("w:2")


class Clock:
    now = 50.0

    def __call__(self):
        return self.now


def frame(nbytes, raw_nbytes=0):
    numbers = RangeSet.of((0, 1))
    header = FrameHeader(TaskId(1), 1, 1, 0, 1, 0, numbers, b"", Codec.LZ4, raw_nbytes)
    return header, memoryview(bytes(nbytes))


def test_bytes_are_counted_by_worker_the_most_first():
    meter = LinkMeter(Clock())
    meter.note(ONE, [frame(10)])
    meter.note(OTHER, [frame(100, 300), frame(50)])

    (first, second) = meter.traffic({ONE: "shm", OTHER: "grpc"}, {OTHER: Held(120, 1000)})

    assert (first.worker, first.transport) == ("w:2", "grpc")
    assert (first.frames, first.nbytes, first.raw_nbytes) == (2, 150, 350)
    assert (first.compression, first.held, first.room) == ("lz4", 120, 1000)
    assert (second.worker, second.nbytes, second.raw_nbytes) == ("w:1", 10, 10)
    assert (second.held, second.room) == (0, 0)


def test_a_worker_that_is_read_no_more_is_left_out():
    meter = LinkMeter(Clock())
    meter.note(ONE, [frame(10)])

    assert meter.traffic({}, {}) == ()


def test_the_rate_is_that_of_the_last_seconds():
    clock = Clock()
    meter = LinkMeter(clock)
    meter.note(ONE, [frame(1_000_000)])
    for _ in range(2 * SAMPLES):
        clock.now += SPAN
        meter.note(ONE, [frame(500)])
    clock.now += SPAN

    (link,) = meter.traffic({ONE: "grpc"}, {})

    assert (link.frames, link.nbytes) == (1 + 2 * SAMPLES, 1_000_000 + 1000 * SAMPLES)
    assert link.rate == pytest.approx(500 / SPAN)


def test_the_rate_is_none_once_nothing_has_come_for_ten_seconds():
    clock = Clock()
    meter = LinkMeter(clock)
    for _ in range(2 * SAMPLES):
        clock.now += SPAN
        meter.note(ONE, [frame(500)])

    rates = []
    for _ in range(12):
        clock.now += SPAN
        (link,) = meter.traffic({ONE: "grpc"}, {})
        rates.append(link.rate)

    assert rates == sorted(rates, reverse=True)
    assert rates[4] < 0.7 * rates[0]
    assert rates[-1] == 0.0
