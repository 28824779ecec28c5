"""When acks and credit go out, and how much credit."""

from penstock.protocol.control import ReaderView, TaskView
from penstock.protocol.data import FrameHeader
from penstock.protocol.ranges import RangeSet
from penstock.protocol.stride import STRIDED_NBYTES
from penstock.protocol.types import Codec, IterationId, ReaderId, ReaderStatus, TaskId, WorkerId
from penstock.reader.core.effects import OpenTaskStream, SendAck
from penstock.reader.core.flow_control import ByteLimit, FrameLimit
from penstock.reader.core.state_machine import ReaderCore


def test_the_bytes_are_divided_among_tasks_with_a_frame_for_each_at_least(driven_core):
    two, many = driven_core(), driven_core(ByteLimit(2 << 20))
    two.view((1, 1, "w"), (2, 1, "v"))
    many.view(*((task, 1, "w") for task in range(1, 6)))

    assert [request.credit for request in two.subscribes()] == [32 << 20] * 2
    assert [request.credit for request in many.subscribes()] == [1 << 20] * 5


def test_half_the_window_is_given_back_without_delay(driven_core):
    reader = driven_core(ByteLimit(4 << 20))
    reader.view((1, 1, "w"))
    reader.effects()
    reader.frame(0, 1, nbytes=2 << 20)
    reader.frame(1, 2, nbytes=2 << 20)
    reader.pull()
    assert [ack.credit for ack in reader.acks()] == [2 << 20]


def test_dropped_frames_give_their_credit_back(driven_core):
    reader = driven_core(ByteLimit(4 << 20))
    reader.view((1, 1, "w"))
    reader.effects()
    reader.frame(0, 1, nbytes=1 << 20)
    reader.pull()
    reader.frame(0, 1, nbytes=1 << 20)

    assert sum(ack.credit for ack in reader.acks()) == 2 << 20


def test_a_limit_in_frames_asks_for_one_frame_at_a_time(driven_core):
    reader = driven_core(FrameLimit(1))
    reader.view((1, 1, "w"), (2, 1, "v"))
    assert [request.credit for request in reader.subscribes()] == [1, 0]

    reader.frame(0, 1, nbytes=1000)
    assert reader.acks() == []
    reader.now = 1.0
    reader.pull()

    acks = [(o.task, o.ack.credit) for o in reader.effects() if isinstance(o, SendAck)]
    assert [(task, credit) for task, credit in acks if credit] == [(2, 1)]


def test_of_a_consumer_each_element_takes_more_of_the_credit_and_its_end_gives_it_back():
    core = ReaderCore(IterationId(1), "r", 30.0, ByteLimit(4 << 20), consumer=3, ordered=True)
    seen = {TaskId(1): TaskView(1, WorkerId("w"))}
    core.on_view(ReaderView(1, "r", ReaderId(7), ReaderStatus.LIVE, None, seen, False), 0.0)
    (opened,) = [one for one in core.take_effects() if isinstance(one, OpenTaskStream)]
    core.on_answered(TaskId(1), 1, 0.0)
    which = (TaskId(1), 1, 1, 5, 1, 0, RangeSet.of((5, 6)))
    core.on_frame(FrameHeader(*which, b"", Codec.NONE, 100), None, 100, 0.0)

    assert opened.request.consumer == 3 == core.heartbeat(0.0).consumer
    stream = core.tasks[TaskId(1)]
    assert stream.nbytes == 100 + STRIDED_NBYTES == opened.request.credit - stream.balance
    core.let_go()
    assert stream.nbytes == 0
