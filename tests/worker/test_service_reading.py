"""What readers of a worker get, near and far, and what they must say."""

import asyncio
import json
import time

import pytest

from penstock.errors import Refused, Unavailable, WaitedTooLong
from penstock.protocol.data import Ack, StreamEnd, Subscribe
from penstock.protocol.ranges import NO_RANGES, NOTHING_ACKED, AckedSet, RangeSet
from penstock.protocol.rounds import Grouped, Remainder
from penstock.protocol.types import ReaderStatus
from penstock_worker import service
from penstock_worker.runner.messages import Flush


async def test_a_reader_gets_every_element_in_order_and_the_task_is_done(opened, dispatcher):
    one = await opened()

    assert await one.take_all() == list(range(10))
    assert one.end == StreamEnd(1, 1)
    assert one.error is None
    await dispatcher.until_done(1)


async def test_consumers_of_a_grouped_task_get_their_elements_in_order(reader, dispatcher, pool):
    pool.per = 1
    dispatcher.assign(1, grouped=Grouped(2, 0, Remainder.PAD))
    one, two = reader(reader=1, wants=(0, 0)), reader(reader=2, wants=(1, 2))
    await one.open()
    await two.open()

    assert await one.until_groups(5) == [(0, 0), (1, 2), (2, 4), (3, 6), (4, 8)]
    assert await two.until_groups(3) == [(2, 5), (3, 7), (4, 9)]
    one.say(RangeSet.of((0, 10)))
    await dispatcher.until_done(1)


async def test_a_consumer_that_there_cannot_be_is_refused(reader, dispatcher, wait):
    dispatcher.assign(1, grouped=Grouped(2, 0, Remainder.PAD))
    one, two = reader(wants=(-1, 0)), reader(wants=(2, 0))
    await one.open()
    await two.open()

    await wait(lambda: one.error and two.end)
    assert isinstance(one.error, Refused)
    assert isinstance(two.end.failure.error(), Refused)


async def test_a_reader_that_comes_before_the_assignment_waits_for_it(
    reader, dispatcher, worker, wait
):
    one = reader()
    await one.open()
    await wait(lambda: worker[0].stats().streams == 1)

    dispatcher.assign(1)

    assert await one.take_all() == list(range(10))


async def test_two_loops_in_turn_both_finish_when_one_frame_holds_everything(
    reader, dispatcher, pool, wait
):
    pool.per, pool.size = 10, 40_000
    dispatcher.assign(1)
    loops = [reader(reader=1), reader(reader=2)]
    for loop in loops:
        await loop.open()
    left = list(loops)
    while left:
        for loop in list(left):
            # The loops not asked now requeue what they have unacked when it is recalled.
            def advance(loop=loop):
                for other in loops:
                    if other is not loop and other.recalls and other.buffer:
                        other.recalls = 0
                        return other
                return loop.buffer or loop.end

            while (found := await wait(advance)) in loops:
                await found.open(keep=False)
            if loop.buffer:
                loop.take()
            else:
                left.remove(loop)

    acked = [element for loop in loops for _, element in loop.acked]
    assert sorted(acked) == list(range(10))
    await dispatcher.until_done(1)


async def test_what_arrived_is_kept_when_a_stream_breaks_and_the_rest_is_requeued(
    opened, pool, wait
):
    one = await opened(credit=17)
    await wait(lambda: len(one.frames) == 2)
    one.take(3)

    one.credit = 1 << 20
    await one.open()

    assert await one.take_all() == list(range(10))
    assert [frame.first for frame in one.frames] == [0, 4, 8]


async def test_a_stream_gets_one_frame_beyond_its_credit_and_no_more(opened, worker, wait):
    one = await opened(credit=1)
    await wait(lambda: one.frames)
    one.say(NO_RANGES, 15)  # 16 bytes are under way for a credit of 1
    await wait(lambda: worker[0].stats().frames_made == 3)

    assert len(one.frames) == 1
    one.say(NO_RANGES, 1)
    await wait(lambda: len(one.frames) == 2)


async def test_what_a_reader_that_left_had_unacked_goes_to_another(reader, dispatcher, wait):
    dispatcher.assign(1)
    one, two = reader(reader=1), reader(reader=2)
    await one.open()
    await wait(lambda: len(one.frames) == 3)
    one.take(2)
    await two.open()

    dispatcher.part(1, ReaderStatus.LEFT, AckedSet(2))

    assert await two.take_all() == list(range(2, 10))
    assert one.end == StreamEnd(1, 1)


async def test_elements_of_an_expired_reader_are_counted_as_in_doubt(
    reader, dispatcher, worker, wait
):
    dispatcher.assign(1)
    one, two = reader(reader=1), reader(reader=2)
    await one.open()
    await wait(lambda: len(one.frames) == 3)

    dispatcher.part(1, ReaderStatus.EXPIRED)
    await two.open()

    assert await two.take_all() == list(range(10))
    assert worker[0].stats().in_doubt == 10


async def test_every_payload_is_copied_once(opened, worker):
    one = await opened()
    await one.take_all()

    stats = json.loads(await worker[1].status())

    assert stats["copies"] == stats["frames_sent"] == stats["frames_made"] == 3
    assert stats["elements_made"] == stats["elements_sent"] == stats["elements_acked"] == 10
    assert stats["bytes_sent"] == 40
    assert stats["wakes"] <= 4
    assert {buffer["name"]: buffer["bound"] for buffer in stats["buffers"]} == {
        "frames of task 1": 64 << 20,
        "frames on their way into gRPC": 0,
        "frames that readers keep": 0,
        "frames of runners that died": 0,
        "definitions": 0,
    }


async def test_what_readers_have_unacked_counts_against_the_room_of_the_runner(
    opened, pool, worker, wait
):
    pool.elements, pool.budget = 100, 32
    one = await opened()
    await wait(lambda: len(one.frames) == 2)
    assert worker[0].stats().buffers[0].nbytes == 32

    one.take(1)
    await wait(lambda: worker[0].stats().elements_acked == 1)
    assert worker[0].stats().frames_made == 2
    one.take(3)
    await wait(lambda: len(one.frames) == 3)

    assert await one.take_all() == list(range(100))


async def test_the_runner_gets_one_flush_when_a_reader_waits(opened, pool, wait):
    pool.making = False
    one = await opened()
    runner = (await wait(lambda: pool.runners))[0]

    def flushes():
        return [command for command in runner.sent if isinstance(command, Flush)]

    await wait(flushes)
    one.say(NO_RANGES, 5)
    one.say(NO_RANGES, 5)
    runner._make()
    await wait(lambda: len(flushes()) == 2)

    assert flushes() == [Flush(1), Flush(1)]


async def test_a_reader_that_closes_without_a_message_is_dropped(opened, worker, wait):
    one = await opened()
    await wait(lambda: one.frames)

    one.half_close()

    await wait(lambda: worker[0].stats().streams == 0)
    assert one.error is None


async def test_the_first_message_of_a_reader_must_say_what_to_read(monkeypatch):
    async def wrong():
        yield Ack(RangeSet(), 1)

    async def silent():
        return
        yield

    async def stuck():
        await asyncio.sleep(60)
        yield

    monkeypatch.setattr(service, "OPEN_WITHIN", 0.01)
    for said, error, words in [
        (wrong(), Refused, "must be Subscribe, not Ack"),
        (silent(), Unavailable, "hung up"),
        (stuck(), WaitedTooLong, "said nothing for 0.01 s"),
    ]:
        with pytest.raises(error, match=words):
            await service._first(said)


async def test_a_bug_of_a_reader_is_named_and_hurts_no_other(
    reader, dispatcher, worker, wait, caplog
):
    dispatcher.assign(1)
    one, two = reader(reader=1), reader(reader=2)
    one.buffer = {5: 5}
    await one.open()
    await wait(lambda: one.end)

    assert "law 5: reader 1 buffers ((5, 6),) of task 1" in str(one.end.failure.error())
    assert "law 5" in caplog.text
    await two.open()
    assert await two.take_all() == list(range(10))


async def test_a_reader_of_what_never_comes_may_try_again(reader, dispatcher, worker, wait):
    worker[0]._clock = lambda: time.monotonic() * 20  # nobody wants to wait
    one = reader(task=7)
    await one.open()
    await wait(lambda: one.error)

    assert isinstance(one.error, Unavailable)
    assert "host:1 was not assigned attempt 1 of task 7 within 3 s" in str(one.error)
    assert worker[0].stats().streams == 0


async def test_a_second_opening_on_a_stream_is_refused(opened, reader, wait):
    one = await opened()
    await wait(lambda: one.frames)

    one._requests.put_nowait(Subscribe(one.reader, one.task, 1, 2, NOTHING_ACKED, NO_RANGES, 1))

    await wait(lambda: one.error)
    assert isinstance(one.error, Refused)
