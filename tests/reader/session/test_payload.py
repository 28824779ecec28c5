"""Elements of a frame, decoded when the first of them is wanted."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from penstock.errors import VersionMismatch
from penstock.frames.compression import compress
from penstock.frames.frame import FrameBuilder
from penstock.protocol.data import FrameHeader, FrameTimes
from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import Codec, TaskId
from penstock.reader.session.line import Line
from penstock.reader.session.network import SessionNetwork
from penstock.reader.session.payload import FramePayload, ReaderTrace


@pytest.fixture
def frame():
    def make(elements, first=0, codec=Codec.NONE):
        builder = FrameBuilder(1 << 40)
        assert builder.add(elements) == len(elements)
        layout, columns = builder.take()
        payload = bytearray(layout.nbytes)
        layout.write(columns, memoryview(payload))
        stored = compress(memoryview(payload), codec)
        how = Codec.NONE if stored is None else codec
        count = len(elements)
        part = RangeSet.of((first, first + count))
        header = FrameHeader(1, 1, 1, first, count, 0, part, layout.to_bytes(), how, layout.nbytes)
        return header, memoryview(bytes(payload) if stored is None else stored)

    return make


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4, Codec.ZSTD])
def test_a_load_gives_any_run_of_its_elements(frame, codec):
    elements = [np.full(500, i) for i in range(8)]
    header, payload = frame(elements, first=100, codec=codec)
    load = FramePayload(header, payload, writable=False)

    assert [x[0] for x in load.elements(103, 105)] == [3, 4]
    assert [x[0] for x in load.elements(100, 108)] == list(range(8))


def test_a_damaged_load_says_so_each_time(frame):
    header, payload = frame([np.zeros(10)] * 3)
    load = FramePayload(header, payload[:50], writable=False)

    for _ in range(2):
        with pytest.raises(VersionMismatch):
            load.elements(0, 3)


@pytest.mark.parametrize("more", [-1, 1, 1 << 40])
def test_a_frame_that_holds_other_numbers_than_its_header_says_is_refused(frame, more):
    header, payload = frame([np.zeros(10)] * 3)
    load = FramePayload(replace(header, count=3 + more), payload, writable=False)

    for _ in range(2):
        with pytest.raises(
            VersionMismatch, match=f"holds 3 elements, and its header says {3 + more}"
        ):
            load.elements(3, 3 + more)


TIMES = FrameTimes(10, 15, 5.0, 6.0, 6.5, 7.0)


def test_what_a_reader_noted_of_a_task_is_told_once():
    trace = ReaderTrace()
    trace.note(1, TIMES)
    trace.note(2, TIMES)

    assert (trace.of(1), trace.of(1), trace.of(2)) == ((TIMES,), (), (TIMES,))


def test_what_was_not_told_when_a_stream_ends_is_forgotten():
    network = SessionNetwork(SimpleNamespace(), Line("nowhere"), 1.0)
    network.trace.note(1, TIMES)
    network.trace.note(2, TIMES)
    network._close(TaskId(1))

    assert (network.trace.of(1), network.trace.of(2)) == ((), (TIMES,))


def test_a_frame_is_noted_when_its_last_element_was_handed_out():
    now = iter(range(100))
    trace = ReaderTrace(lambda: float(next(now)))
    load = frame_of([np.int64(n) for n in (1, 2, 3, 4)], trace)

    head = load.elements(10, 12)
    before = trace.of(7)
    rest = load.elements(12, 14)

    assert head + rest == [1, 2, 3, 4]
    assert before == ()
    # Received at 0; wanted at 1, when it was decoded, until 2; the rest wanted at 3, taken at 4.
    assert trace.of(7) == (FrameTimes(10, 14, 0.0, 1.0, 2.0, 4.0),)


def frame_of(elements, trace):
    builder = FrameBuilder(1 << 20, 100)
    builder.add(elements)
    layout, taken = builder.take()
    room = memoryview(bytearray(layout.nbytes))
    layout.write(taken, room)
    numbers = RangeSet.of((10, 10 + len(elements)))
    header = FrameHeader(TaskId(7), 1, 1, 10, len(elements), 0, numbers, layout.to_bytes())
    return FramePayload(header, room, writable=False, trace=trace)
