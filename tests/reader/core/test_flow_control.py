"""When acks and credit go out, and how much credit."""

from itertools import pairwise

from penstock.protocol.control import ReaderView, TaskView
from penstock.protocol.data import AllSent, FrameHeader
from penstock.protocol.ranges import RangeSet
from penstock.protocol.rounds import STRIDED_NBYTES
from penstock.protocol.types import Codec, IterationId, ReaderId, ReaderStatus, TaskId, WorkerId
from penstock.reader.core.effects import OpenTaskStream, SendAck
from penstock.reader.core.limits import ByteLimit, FrameLimit
from penstock.reader.core.session_core import NoElement
from penstock.reader.core.state_machine import ReaderCore

WAIT = NoElement.WAIT


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


def _waits_for_each(reader, count, nbytes=100):
    """Have a loop wait for each of *count* elements that come every 2 ms; return when acks go."""
    gone = []
    for number in range(count):
        reader.frame(number, number + 1, nbytes=nbytes)
        reader.pull()
        assert reader.ask() is WAIT
        until = reader.now + 0.002
        while (due := reader.core.due(reader.now)) < until:
            reader.now = due
            reader.core.on_tick(due)
            gone += [reader.now for _ in reader.acks()]
        reader.now = until
    return gone


def test_a_loop_that_waits_for_each_element_of_a_long_stream_acknowledges_seldomer(driven_core):
    reader = driven_core()
    reader.view((1, 1, "w"))
    reader.effects()
    gone = _waits_for_each(reader, 200)
    pauses = [after - before for before, after in pairwise(gone)]

    assert 0.004 <= pauses[0] <= 0.008
    assert all(0.019 <= pause <= 0.024 for pause in pauses[8:])
    assert len(gone) < 30


def test_where_much_memory_is_free_again_it_acknowledges_as_often_as_before(driven_core):
    reader = driven_core()
    reader.view((1, 1, "w"))
    reader.effects()
    gone = _waits_for_each(reader, 200, nbytes=1 << 20)
    pauses = [after - before for before, after in pairwise(gone)]

    assert all(0.004 <= pause <= 0.008 for pause in pauses)


def test_the_last_acks_of_a_loop_that_waits_go_as_soon_as_it_is_known_that_no_more_comes(
    driven_core,
):
    reader = driven_core()
    reader.view((1, 1, "w"))
    reader.effects()
    _waits_for_each(reader, 100)
    reader.frame(100, 101)
    reader.pull()
    assert reader.ask() is WAIT
    reader.acks()

    stream = reader.core.tasks[TaskId(1)]
    reader.core.on_all_sent(AllSent(TaskId(1), stream.attempt, stream.subscription), reader.now)

    assert sum(len(ack.acked) for ack in reader.acks()) > 0
    assert not stream.unsent_acks


def test_what_comes_when_all_is_sent_is_acknowledged_as_soon_as_the_loop_asks_on(driven_core):
    reader = driven_core()
    reader.view((1, 1, "w"))
    reader.effects()
    stream = reader.core.tasks[TaskId(1)]
    reader.frame(0, 3)
    reader.core.on_all_sent(AllSent(TaskId(1), stream.attempt, stream.subscription), reader.now)
    assert reader.acks() == []

    reader.pull()
    assert reader.ask() is WAIT
    assert [ack.acked for ack in reader.acks()] == [RangeSet.of((0, 3))]
