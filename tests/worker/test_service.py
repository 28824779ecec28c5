"""The worker between a dispatcher, runners and readers, near and far."""

import asyncio
import errno
import json
import random
import re
import time

import pytest

from penstock import Dataset
from penstock.definition import encode
from penstock.errors import (
    InternalError,
    Overloaded,
    Refused,
    Unavailable,
    UnknownDataset,
    WaitedTooLong,
)
from penstock.messages import Ack, Failure, Open, StreamEnd, Work
from penstock.numbers import NO_RUNS, NOTHING, Runs, Standing, Taken, TaskId
from penstock_worker import service
from penstock_worker.core import lives
from penstock_worker.core.mind import Core
from penstock_worker.delivery.runs import ActiveRuns
from penstock_worker.runner.orders import Failed, Want


async def test_a_reader_gets_every_element_in_order_and_the_task_is_done(reader, dispatcher):
    dispatcher.assign(1)
    one = reader()
    await one.open()

    assert await one.take_all() == list(range(10))
    assert one.end == StreamEnd(1, 1)
    assert one.error is None
    await dispatcher.until_done(1)


async def test_splits_are_drawn_as_the_runner_needs_them(reader, dispatcher):
    dispatcher.source = range(35)
    dispatcher.assign(1, streams=1)
    one = reader()
    await one.open()

    assert await one.take_all() == list(range(35))
    assert sorted({ask.position for ask in dispatcher.questions}) == [0, 1, 2, 3, 4]


async def test_a_reader_that_comes_before_the_order_waits_for_it(reader, dispatcher, worker, wait):
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
            # The loops not asked now give back what they hold when they are told to.
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

    taken = [element for loop in loops for _, element in loop.taken]
    assert sorted(taken) == list(range(10))
    await dispatcher.until_done(1)


async def test_what_arrived_is_kept_when_a_stream_breaks_and_the_rest_comes_again(
    reader, dispatcher, pool, wait
):
    dispatcher.assign(1)
    one = reader(credit=17)
    await one.open()
    await wait(lambda: len(one.frames) == 2)
    one.take(3)

    one.credit = 1 << 20
    await one.open()

    assert await one.take_all() == list(range(10))
    assert [frame.first for frame in one.frames] == [0, 4, 8]


async def test_a_stream_gets_one_frame_beyond_its_credit_and_no_more(
    reader, dispatcher, worker, wait
):
    dispatcher.assign(1)
    one = reader(credit=1)
    await one.open()
    await wait(lambda: one.frames)
    one.say(NO_RUNS, 15)  # 16 bytes are under way for a credit of 1
    await wait(lambda: worker[0].stats().frames_made == 3)

    assert len(one.frames) == 1
    one.say(NO_RUNS, 1)
    await wait(lambda: len(one.frames) == 2)


async def test_what_a_reader_that_left_held_goes_to_another(reader, dispatcher, wait):
    dispatcher.assign(1)
    one, two = reader(reader=1), reader(reader=2)
    await one.open()
    await wait(lambda: len(one.frames) == 3)
    one.take(2)
    await two.open()

    dispatcher.part(1, Standing.LEFT, Taken(2))

    assert await two.take_all() == list(range(2, 10))
    assert one.end == StreamEnd(1, 1)


async def test_elements_of_a_reader_that_was_given_up_are_counted_as_doubted(
    reader, dispatcher, worker, wait
):
    dispatcher.assign(1)
    one, two = reader(reader=1), reader(reader=2)
    await one.open()
    await wait(lambda: len(one.frames) == 3)

    dispatcher.part(1, Standing.GONE)
    await two.open()

    assert await two.take_all() == list(range(10))
    assert worker[0].stats().doubted == 10


async def test_a_failure_comes_behind_the_elements_and_names_the_worker(
    reader, dispatcher, pool, worker, wait
):
    pool.making = False
    dispatcher.assign(1)
    runner = (await wait(lambda: pool.runners))[0]
    runner._make()
    failure = Failure("TransformError", ("map(f)", 4, "ValueError('no')", None, "trace"))
    runner.report(Failed(runner.start.run, 4, failure))
    one = reader()
    await one.open()

    assert await one.take_all() == [0, 1, 2, 3]
    error = one.end.failure.error()
    assert (error.operator, error.number, error.worker) == ("map(f)", 4, "host:1")
    assert error.remote_traceback == "trace"
    await wait(lambda: dispatcher.progress(1).failure == one.end.failure)


async def test_another_runner_goes_on_where_one_has_died(reader, dispatcher, pool, worker, wait):
    pool.making = False
    dispatcher.assign(1)
    runner = (await wait(lambda: pool.runners))[0]
    runner._make()
    runner.die("SIGSEGV")
    assert worker[0].stats().buffers[-2].nbytes == 16
    pool.making = True
    one = reader()
    await one.open()

    assert await one.take_all() == list(range(10))
    assert [one.start.known for one in pool.runners] == [0, 4]
    await dispatcher.until_done(1)
    assert dispatcher.progress(1).work == Work(made=14, remade=4, sent=10)
    assert worker[0].stats().buffers[-2].nbytes == 0
    assert runner.arena == b""


async def test_a_runner_that_dies_again_and_again_is_a_failure_that_names_its_signal(
    reader, dispatcher, pool, worker, wait
):
    pool.making = False
    dispatcher.assign(1)
    for n in range(3):
        runner = (await wait(lambda n=n: pool.runners[n:]))[0]
        if n == 0:
            runner._make()
        runner.die("SIGSEGV")
    one = reader()
    await one.open()

    assert await one.take_all() == [0, 1, 2, 3]
    error = one.end.failure.error()
    assert (error.operator, error.number, error.worker) == ("runner", 4, "host:1")
    assert "the process died of SIGSEGV" in str(error)
    assert worker[0].stats().runners_lost == 3


async def test_elements_of_an_inexact_pipeline_that_are_made_again_are_counted(
    reader, dispatcher, pool, wait
):
    def noise(x):
        return x + random.random()

    dispatcher.definition = encode(Dataset.range(10).map(noise).node).to_bytes()
    pool.making = False
    dispatcher.assign(1)
    runner = (await wait(lambda: pool.runners))[0]
    runner._make()
    runner.die("SIGSEGV")
    pool.making = True
    one = reader()
    await one.open()
    await one.take_all()

    await dispatcher.until_done(1)
    assert dispatcher.progress(1).work.inexact == 4


async def test_a_dataset_that_nobody_registered_fails_the_task(reader, dispatcher):
    dispatcher.definition = None
    dispatcher.assign(1)
    one = reader()
    await one.open()

    assert await one.take_all() == []
    assert isinstance(one.end.failure.error(), UnknownDataset)


NO_ROOM = [
    (Overloaded("no process to be had"), "no process to be had"),
    (OSError(errno.EMFILE, "Too many open files"), r"EMFILE.*RLIMIT_NOFILE is \d+"),
    (OSError(errno.EIO, "odd"), "odd"),
    (MemoryError(), "ENOMEM.*RLIMIT_AS"),
]


@pytest.mark.parametrize(("why", "words"), NO_ROOM)
async def test_where_there_is_no_room_for_a_runner_the_attempt_goes_back_with_the_reason(
    reader, dispatcher, pool, wait, monkeypatch, why, words
):
    monkeypatch.setattr(lives, "TRIES", (0.0, 0.0))
    dispatcher.trusting = False
    pool.fails = why
    dispatcher.assign(1)
    one = reader()
    await one.open()

    await wait(lambda: dispatcher.beats and (TaskId(1), 1) in dispatcher.beats[-1].ended)
    assert re.search(words, dispatcher.progress(1).lacking)
    assert dispatcher.progress(1).failure is None


async def test_a_runner_that_can_be_had_again_goes_on(reader, dispatcher, pool, wait, monkeypatch):
    monkeypatch.setattr(lives, "TRIES", (0.0,) * 1000)
    pool.fails = OSError(errno.EMFILE, "Too many open files")
    dispatcher.assign(1)
    one = reader()
    await one.open()
    await wait(lambda: (p := dispatcher.progress(1)) and p.lacking)

    pool.fails = None

    assert len(await one.take_all()) == pool.elements
    assert dispatcher.progress(1).lacking == ""


async def test_a_bug_in_starting_a_runner_fails_the_task_and_says_so(
    reader, dispatcher, pool, caplog
):
    pool.fails = LookupError("surprise")
    dispatcher.assign(1)
    one = reader()
    await one.open()

    assert await one.take_all() == []
    assert "LookupError('surprise'); this is a bug" in str(one.end.failure.error())
    assert "could not be started" in caplog.text


async def test_a_definition_is_fetched_once_for_all_its_tasks(dispatcher, pool, worker, wait):
    dispatcher.assign(1)
    dispatcher.assign(2)
    dispatcher.assign(3, dataset="e")
    await wait(lambda: len(pool.runners) == 3)

    assert sorted(dispatcher.fetched) == ["d", "e"]


async def test_a_task_that_is_not_wanted_any_more_ends_streams_and_run(
    reader, dispatcher, pool, wait
):
    pool.making = False
    dispatcher.assign(1)
    one = reader()
    await one.open()
    await wait(lambda: pool.runners)

    dispatcher.withdraw(1)

    assert await one.take_all() == []
    assert one.end == StreamEnd(1, 1)
    await wait(lambda: pool.stopped == pool.runners)


async def test_a_run_that_is_stopped_while_it_starts_leaves_no_runner(
    dispatcher, pool, worker, wait
):
    gate = asyncio.Event()
    start = pool.start

    async def slow_start(*args):
        await gate.wait()
        return await start(*args)

    pool.start = slow_start
    dispatcher.assign(1)
    await wait(lambda: worker[0].stats().runs_started == 1 and dispatcher.fetched)
    dispatcher.withdraw(1)
    await wait(lambda: not worker[0].stats().tasks)

    gate.set()

    await wait(lambda: pool.runners and pool.stopped == pool.runners)


async def test_reading_goes_on_while_the_dispatcher_is_away(reader, dispatcher, pool, wait):
    dispatcher.assign(1)
    one = reader(credit=17)
    await one.open()
    await wait(lambda: one.frames)

    dispatcher.absent = True
    dispatcher.hang_up()
    await wait(lambda: dispatcher.lines >= 3)

    assert await one.take_all() == list(range(10))
    before = len(dispatcher.beats)
    dispatcher.absent = False
    await wait(lambda: len(dispatcher.beats) > before)
    assert dispatcher.beats[before].versions is not None
    assert dispatcher.beats[before].progress[1].done


async def test_the_log_says_once_that_the_dispatcher_is_away_and_once_that_it_is_back(
    dispatcher, worker, wait, caplog
):
    await worker[0].control.registered.wait()
    dispatcher.absent = True
    dispatcher.hang_up()
    await wait(lambda: dispatcher.lines >= 4)
    dispatcher.absent = False
    lines = dispatcher.lines
    await wait(lambda: dispatcher.lines > lines and not worker[0].control.trouble)

    said = [record.message for record in caplog.records if record.name == "penstock.worker"]
    assert len(said) == 2
    assert "127.0.0.1:1" in said[0]
    assert said[1] == "the dispatcher at 127.0.0.1:1 is back"


async def test_beats_come_without_being_asked_and_carry_stats(dispatcher, worker, wait):
    await wait(lambda: len(dispatcher.beats) >= 4)

    assert dispatcher.beats[0].versions is not None
    assert all(beat.versions is None for beat in dispatcher.beats[1:])
    stats = [json.loads(beat.stats) for beat in dispatcher.beats if beat.stats]
    assert len(stats) < len(dispatcher.beats)
    assert stats[0]["worker"] == "host:1"


async def test_every_payload_is_copied_once(reader, dispatcher, worker):
    dispatcher.assign(1)
    one = reader()
    await one.open()
    await one.take_all()

    stats = json.loads(await worker[1].status())

    assert stats["copies"] == stats["frames_sent"] == stats["frames_made"] == 3
    assert stats["elements_made"] == stats["elements_sent"] == stats["elements_taken"] == 10
    assert stats["bytes_sent"] == 40
    assert stats["wakes"] <= 4
    assert {buffer["name"]: buffer["bound"] for buffer in stats["buffers"]} == {
        "frames of task 1": 64 << 20,
        "frames on their way into gRPC": 0,
        "frames of runners that died": 0,
        "definitions": 0,
    }


async def test_what_readers_hold_counts_against_the_room_of_the_runner(
    reader, dispatcher, pool, worker, wait
):
    pool.elements, pool.budget = 100, 32
    dispatcher.assign(1)
    one = reader()
    await one.open()
    await wait(lambda: len(one.frames) == 2)
    assert worker[0].stats().buffers[0].nbytes == 32

    one.take(1)
    await wait(lambda: worker[0].stats().elements_taken == 1)
    assert worker[0].stats().frames_made == 2
    one.take(3)
    await wait(lambda: len(one.frames) == 3)

    assert await one.take_all() == list(range(100))


async def test_the_runner_is_told_once_that_a_reader_waits(reader, dispatcher, pool, wait):
    pool.making = False
    dispatcher.assign(1)
    one = reader()
    await one.open()
    runner = (await wait(lambda: pool.runners))[0]
    await wait(lambda: runner.sent)
    one.say(NO_RUNS, 5)
    one.say(NO_RUNS, 5)
    runner._make()
    await wait(lambda: len(runner.sent) == 2)

    assert runner.sent == [Want(1), Want(1)]


async def test_a_reader_that_hangs_up_without_a_word_is_let_go(reader, dispatcher, worker, wait):
    dispatcher.assign(1)
    one = reader()
    await one.open()
    await wait(lambda: one.frames)

    one.half_close()

    await wait(lambda: worker[0].stats().streams == 0)
    assert one.error is None


async def test_the_first_message_of_a_reader_must_say_what_to_read(monkeypatch):
    async def wrong():
        yield Ack(Runs(), 1)

    async def silent():
        return
        yield

    async def stuck():
        await asyncio.sleep(60)
        yield

    monkeypatch.setattr(service, "OPEN_WITHIN", 0.01)
    for said, error, words in [
        (wrong(), Refused, "must be Open, not Ack"),
        (silent(), Unavailable, "hung up"),
        (stuck(), WaitedTooLong, "said nothing for 0.01 s"),
    ]:
        with pytest.raises(error, match=words):
            await service._first(said)


async def test_a_bug_of_a_reader_is_named_and_hurts_nobody_else(
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


async def test_a_worker_that_is_refused_says_why(dispatcher, pool, worker, wait):
    await worker[0].control.registered.wait()
    dispatcher.refuse = Failure("Refused", ("a newer process answers at host:1",))
    dispatcher.tell()

    with pytest.raises(Refused, match="newer process"):
        await worker[0].held


async def test_a_reader_of_what_never_comes_may_try_again(reader, dispatcher, worker, wait):
    worker[0]._clock = lambda: time.monotonic() * 20  # nobody wants to wait
    one = reader(task=7)
    await one.open()
    await wait(lambda: one.error)

    assert isinstance(one.error, Unavailable)
    assert "host:1 was not told within 3 s to run attempt 1 of task 7" in str(one.error)
    assert worker[0].stats().streams == 0


async def test_a_second_opening_on_a_stream_is_refused(reader, dispatcher, wait):
    dispatcher.assign(1)
    one = reader()
    await one.open()
    await wait(lambda: one.frames)

    one._requests.put_nowait(Open(one.reader, one.task, 1, 2, NOTHING, NO_RUNS, 1))

    await wait(lambda: one.error)
    assert isinstance(one.error, Refused)


async def test_streams_break_off_when_the_worker_stops(reader, dispatcher, worker, pool, wait):
    pool.making = False
    dispatcher.assign(1)
    one = reader()
    await one.open()
    await wait(lambda: worker[0].stats().streams == 1)

    await worker[0].close()

    await wait(lambda: one.error)
    assert isinstance(one.error, Unavailable)
    assert "has stopped" in str(one.error)


def fails(*_):
    raise LookupError("surprise")


@pytest.mark.parametrize("where", ["apply", "tick", "start"])
async def test_a_worker_that_fails_stops_and_says_why(
    reader, dispatcher, worker, pool, monkeypatch, caplog, where
):
    dispatcher.assign(1)
    one = reader()
    await one.open()
    assert await one.take_all() == list(range(10))
    ticking = asyncio.create_task(worker[0].tick_forever())
    match where:
        case "apply":
            monkeypatch.setattr(Core, "_told", fails)
        case "tick":
            monkeypatch.setattr(Core, "_ticked", fails)
        case "start":
            monkeypatch.setattr(ActiveRuns, "_place", fails)
    dispatcher.assign(2)

    with pytest.raises(InternalError, match="LookupError.*surprise"):
        await asyncio.wait_for(ticking, 10)
    assert "LookupError: surprise" in caplog.text
    with pytest.raises(InternalError):
        worker[0].beat(first=False)
    other = reader(task=2)
    await other.open()
    assert await other.take_all() == []
    assert isinstance(other.error, Unavailable)


async def test_a_stream_whose_hearing_fails_ends_with_the_reason(
    reader, dispatcher, worker, monkeypatch
):
    dispatcher.assign(1)
    one = reader()
    monkeypatch.setattr(service, "Acked", fails)
    await one.open()

    await one.take_all()
    assert "LookupError" in str(one.error)
