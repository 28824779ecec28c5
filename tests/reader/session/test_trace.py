"""What a session notes of frames that a worker asks about."""

from types import SimpleNamespace

import numpy as np

from penstock.frames.frame import FrameBuilder
from penstock.protocol.data import FrameHeader
from penstock.protocol.ranges import RangeSet
from penstock.protocol.trace import FrameTimes
from penstock.protocol.types import TaskId
from penstock.reader.session.line import Line
from penstock.reader.session.network import SessionNetwork
from penstock.reader.session.payload import FramePayload
from penstock.reader.session.trace import ReaderTrace

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
