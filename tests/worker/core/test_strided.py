"""One order that goes to several consumers: each gets what is its own, and nobody else's."""

from dataclasses import replace

import pytest

from penstock.protocol.control import Assignment, TaskAssignment
from penstock.protocol.data import Ack, Recall, Subscribe
from penstock.protocol.ranges import NO_RANGES, NOTHING_ACKED, AckedSet, RangeSet
from penstock.protocol.rounds import STRIDED_NBYTES, Stride
from penstock.protocol.types import (
    Checkpoint,
    Codec,
    DatasetId,
    Failure,
    IterationId,
    ReaderId,
    ReaderStatus,
    TaskId,
    WorkerId,
)
from penstock_worker.core.events import (
    DrainRequested,
    SendAllSent,
    SendEnd,
    SendFrame,
    SendRecall,
    SendToRunner,
    StreamAcked,
    StreamClosed,
    StreamOpened,
    StreamWritable,
    Tick,
)
from penstock_worker.core.sharing_readers import TAKEOVER
from penstock_worker.core.state_machine import WorkerCore
from penstock_worker.core.strided import AHEAD
from penstock_worker.runner.messages import (
    ArenaFull,
    CheckpointTaken,
    Flush,
    FrameReady,
    FreeFrames,
    RunEnded,
    RunFailed,
)

HERE, LATER = Stride(2, place=0), Stride(2)
TASK = TaskAssignment(
    TaskId(1), 0, 1, IterationId(1), DatasetId("d"), 0, Codec.NONE, ordered=True, stride=HERE
)
LARGE = 1 << 20


class Mesh:
    """A worker with one task, and what came of what it was told."""

    def __init__(self, task=TASK, readers=()):
        self.core, self.out, self.revision = WorkerCore(WorkerId("host:1"), 7, None, 10**9), [], 0
        self.assign(task, readers)

    def assign(self, task, readers=()):
        self.revision += 1
        return self.tell(Assignment(self.revision, 7, (task,), dict(readers), 1.0))

    def tell(self, *events, now=0.0):
        self.out = [effect for event in events for effect in self.core.handle(event, now)]
        return self.out

    def makes(self, start, stop, nbytes=100):
        return self.tell(
            *(
                FrameReady(1, n, 1, n * 64, nbytes, b"", Codec.NONE, nbytes)
                for n in range(start, stop)
            )
        )

    def opens(self, stream, consumer, reader=None, acked=NOTHING_ACKED, buffered=NO_RANGES, **more):
        reader, credit = reader or stream, more.pop("credit", 10**9)
        whose = (ReaderId(reader), TaskId(1), 1, stream, acked, buffered, credit)
        return self.tell(StreamOpened(stream, Subscribe(*whose, consumer=consumer, **more)))

    def goes_on(self, stream):
        """Let a stream be writable until nothing comes; return the numbers that came."""
        got = []
        while sent := self.sent(self.tell(StreamWritable(stream))):
            got += sent[stream]
        return got

    def sent(self, effects=None):
        found = {}
        for effect in self.out if effects is None else effects:
            if isinstance(effect, SendFrame):
                found.setdefault(effect.stream, []).extend(effect.header.ranges)
        return found

    def of(self, kind):
        return [effect for effect in self.out if isinstance(effect, kind)]

    @property
    def delivery(self):
        return self.core.attempts[TaskId(1)].delivery


def numbers(*each):
    return RangeSet.of(*((n, n + 1) for n in each))


def test_each_consumer_is_sent_every_nth_element():
    mesh = Mesh()
    mesh.makes(0, 9)

    assert mesh.opens(1, 0) and mesh.sent() == {1: [0, 2, 4, 6, 8]}
    assert mesh.opens(2, 1) and mesh.sent() == {2: [1, 3, 5, 7]}


def test_where_the_task_begins_in_the_order_says_whose_its_first_element_is():
    mesh = Mesh(replace(TASK, stride=Stride(3, place=7)))
    mesh.makes(0, 6)

    assert mesh.opens(1, 1) and mesh.sent() == {1: [0, 3]}


def test_until_the_place_is_known_nothing_is_sent_and_nobody_is_flushed_or_recalled():
    mesh = Mesh(replace(TASK, stride=LATER))
    mesh.opens(1, 0)
    mesh.makes(0, 4)
    mesh.tell(RunEnded(1, 4), *[Tick()] * 9, now=9.0)

    assert not mesh.of(SendFrame) and not mesh.of(SendAllSent) and not mesh.of(SendRecall)
    assert mesh.delivery.counts().ready == 4

    mesh.assign(replace(TASK, stride=HERE))

    assert mesh.sent() == {1: [0, 2]}


def test_a_consumer_that_is_started_anew_gets_what_the_other_one_had():
    mesh = Mesh()
    mesh.makes(0, 6)
    mesh.opens(1, 0)
    mesh.opens(2, 1)
    mesh.tell(StreamAcked(1, Ack(numbers(0), 0)))
    mesh.opens(3, 0, reader=9)

    mesh.assign(TASK, {1: ReaderStatus.EXPIRED, 2: ReaderStatus.LIVE, 9: ReaderStatus.LIVE})

    assert mesh.sent() == {3: [2, 4]}
    assert mesh.delivery.in_doubt == 2


def test_what_is_requeued_goes_to_nobody_else():
    mesh = Mesh()
    mesh.makes(0, 6)
    mesh.opens(1, 0)
    mesh.opens(2, 1)
    mesh.goes_on(2)

    mesh.opens(3, 0, reader=1)  # it has nothing of it any more

    assert mesh.sent() == {3: [0, 2, 4]}


def test_a_frame_is_freed_when_its_element_is_acked_and_the_task_is_done_when_all_are():
    mesh = Mesh()
    mesh.makes(0, 4)
    mesh.opens(1, 0)
    mesh.opens(2, 1)
    mesh.tell(RunEnded(1, 4), StreamAcked(1, Ack(numbers(0, 2), 0)))

    freed = [each.command for each in mesh.of(SendToRunner)]
    assert all(isinstance(one, FreeFrames) for one in freed)
    assert not mesh.delivery.done

    mesh.tell(StreamAcked(2, Ack(numbers(1, 3), 0)))

    assert mesh.delivery.done
    assert [each.stream for each in mesh.of(SendEnd)] == [1, 2]


def test_a_consumer_is_told_that_it_has_all_though_others_have_not():
    mesh = Mesh()
    mesh.makes(0, 3)
    mesh.opens(1, 0)
    mesh.tell(RunEnded(1, 3))

    assert [each.stream for each in mesh.of(SendAllSent)] == [1]
    assert not mesh.delivery.all_sent  # the dispatcher keeps few tasks ahead of the slowest

    mesh.opens(2, 1)

    assert [each.stream for each in mesh.of(SendAllSent)] == [2]
    assert mesh.delivery.all_sent


def test_who_takes_the_place_of_a_reader_that_leaves_waits_a_little_for_its_elements():
    mesh = Mesh()
    mesh.makes(0, 4)
    mesh.opens(1, 0)
    mesh.tell(RunEnded(1, 4), StreamClosed(1))
    mesh.opens(3, 0)

    assert not mesh.of(SendAllSent)

    mesh.assign(TASK, {ReaderId(1): ReaderStatus.LEFT})

    assert mesh.sent() == {3: [0, 2]}
    assert [each.stream for each in mesh.of(SendAllSent)] == [3]


def test_it_goes_on_without_the_elements_of_a_reader_that_may_have_died():
    mesh = Mesh()
    mesh.makes(0, 4)
    mesh.opens(1, 0)
    mesh.tell(RunEnded(1, 4), StreamClosed(1))
    mesh.opens(3, 0)

    mesh.tell(*[Tick()] * (TAKEOVER - 1), now=5.0)
    assert not mesh.of(SendAllSent)
    mesh.tell(Tick(), now=6.0)

    assert [each.stream for each in mesh.of(SendAllSent)] == [3]


def test_each_element_takes_more_of_the_credit_than_its_bytes():
    mesh = Mesh()
    mesh.makes(0, 20)

    mesh.opens(1, 0, credit=2 * STRIDED_NBYTES + 200)

    assert mesh.sent() == {1: [0, 2]}  # whose bytes fill it
    mesh.tell(StreamAcked(1, Ack(NO_RANGES, 1)), StreamWritable(1))
    assert mesh.sent() == {1: [4]}


def test_large_elements_are_sent_one_at_a_time_and_small_ones_together():
    mesh = Mesh()
    mesh.makes(0, 4, nbytes=LARGE)
    mesh.makes(4, 8)

    mesh.opens(1, 0)

    assert mesh.sent() == {1: [0]}
    assert mesh.goes_on(1) == [2, 4, 6]


def test_a_consumer_does_not_get_far_ahead_of_one_that_takes_nothing():
    mesh = Mesh()
    mesh.makes(0, 4 * AHEAD)
    mesh.opens(1, 0)
    ahead = len(mesh.sent()[1]) + len(mesh.goes_on(1))

    assert AHEAD <= ahead < AHEAD + 64
    assert mesh.delivery.counts().ready == 4 * AHEAD - ahead

    mesh.opens(2, 1)
    mesh.goes_on(2)

    assert mesh.goes_on(1)


def test_only_a_reader_that_is_the_same_consumer_is_asked_to_give_back():
    mesh = Mesh()
    mesh.makes(0, 2)
    mesh.opens(1, 0)
    mesh.opens(2, 1)
    mesh.tell(*[StreamWritable(1), StreamWritable(2), *[Tick()] * 9], now=5.0)

    assert not mesh.of(SendRecall)  # both starve, and have one element each

    mesh.opens(3, 0)
    mesh.tell(*[Tick()] * 9, now=9.0)

    assert {each.stream for each in mesh.of(SendRecall)} == {1}


def test_once_all_is_made_operators_of_every_loop_that_waits_are_flushed():
    mesh = Mesh()
    mesh.makes(0, 2)
    mesh.opens(1, 0)
    mesh.opens(2, 1)
    empty = Ack(NO_RANGES, 0)
    mesh.tell(
        *[StreamWritable(1), StreamWritable(2), RunEnded(1, 2)],
        *[StreamAcked(1, empty), StreamAcked(2, empty)],
    )

    assert {each.stream: each.recall for each in mesh.of(SendRecall)} == {
        1: Recall(TaskId(1), 1, True),
        2: Recall(TaskId(1), 1, True),
    }


def test_a_starving_consumer_has_the_runner_flush():
    mesh = Mesh()

    mesh.opens(1, 0)

    assert [each.command for each in mesh.of(SendToRunner)] == [Flush(1)]


def test_what_fails_comes_behind_what_was_made_before_it_for_each_consumer():
    mesh = Mesh()
    mesh.makes(0, 3, nbytes=LARGE)
    mesh.opens(1, 0)
    mesh.opens(2, 1)
    mesh.tell(RunFailed(1, 3, Failure("PenstockError", ("bad",))))

    assert [each.stream for each in mesh.of(SendEnd)] == [2]  # it has all of its own
    mesh.tell(StreamWritable(1))
    assert mesh.sent() == {1: [2]}
    assert [each.stream for each in mesh.of(SendEnd)] == [1]


def test_an_attempt_that_goes_on_knows_whose_the_unacked_elements_are():
    task = replace(
        TASK,
        attempt=1,
        checkpoint=Checkpoint(0),
        acked=AckedSet(1),
        unacked={ReaderId(1): numbers(2), ReaderId(2): numbers(1)},
    )
    mesh = Mesh(task)
    mesh.makes(0, 6)

    mesh.opens(1, 0, acked=AckedSet(1), buffered=numbers(2))
    assert mesh.sent() == {1: [4]}
    mesh.opens(2, 1, reader=2)  # it gives back what it had
    assert mesh.sent() == {2: [1, 3, 5]}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"consumer": None}, "has consumers, and reader 1 is none of them"),
        ({"consumer": 2}, "has 2 consumers, and reader 1 is consumer 2"),
        ({"consumer": 0, "trainer": "t"}, "is not cached: a reader of it has no trainer 't'"),
    ],
    ids=str,
)
def test_who_is_no_consumer_is_refused(asked, words):
    mesh = Mesh()
    mesh.opens(1, **asked)

    (end,) = mesh.of(SendEnd)
    assert words in str(end.end.failure.error())


def test_a_reader_stays_the_consumer_that_it_was():
    mesh = Mesh()
    mesh.opens(1, 0)
    mesh.opens(2, 1, reader=1)

    (end,) = mesh.of(SendEnd)
    assert "reader 1, which was 0, cannot be 1" in str(end.end.failure.error())


def test_a_worker_that_drains_does_not_wait_for_a_consumer_that_is_not_there():
    mesh = Mesh()
    mesh.makes(0, 4)
    mesh.opens(1, 0)
    mesh.tell(StreamAcked(1, Ack(numbers(0, 2), 0)))
    mesh.tell(DrainRequested(), CheckpointTaken(1, Checkpoint(4)))
    mesh.tell(Tick(), now=9.0)

    assert not mesh.core.attempts  # others make it again for the one that comes


def test_frames_that_all_consumers_have_make_room_for_loops_that_need_more():
    mesh = Mesh()
    mesh.makes(0, 8)
    mesh.opens(1, 0)
    mesh.opens(2, 1)
    waits = Ack(NO_RANGES, 0)
    mesh.tell(StreamAcked(1, waits), StreamAcked(2, waits), StreamWritable(1), StreamWritable(2))

    mesh.tell(ArenaFull(1))

    assert [each.command for each in mesh.of(SendToRunner)][0] == FreeFrames(1, (0,))
    assert mesh.delivery.nbytes == 700


def test_frames_from_the_first_on_that_some_consumer_has_not_are_kept():
    mesh = Mesh()
    mesh.makes(0, 8)
    mesh.opens(1, 0)
    mesh.tell(StreamAcked(1, Ack(NO_RANGES, 0)), StreamWritable(1))

    mesh.tell(ArenaFull(1))
    mesh.tell(ArenaFull(1))

    assert mesh.delivery.nbytes == 700
