"""A runner at work, as a thread of this process: what it makes, and when it sends it."""

import json
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DefinitionError, ElementError, ElementTooLarge, StateError
from penstock.protocol.measures import MADE, PADDING, POSITIONS
from penstock.protocol.splits import Split, SplitLog
from penstock.protocol.types import Checkpoint, Codec
from penstock_worker.runner import checkpointer, engine_loop, flush_thread, frame_writer
from penstock_worker.runner.frame_writer import WaitSum
from penstock_worker.runner.messages import (
    AddSplits,
    ArenaFull,
    CheckpointTaken,
    CodecChosen,
    Flush,
    FrameReady,
    FreeFrames,
    RoomLacking,
    RunEnded,
    RunFailed,
    RunStopped,
    SetLink,
    SetRoom,
    SetWindow,
    SplitsNeeded,
    StopRun,
    TimesMeasured,
)

WITHIN = 10.0


class Point(NamedTuple):
    x: int
    y: float


@pytest.fixture
def patient(monkeypatch):
    """Let elements wait for others as long as nobody wants them."""
    monkeypatch.setattr(flush_thread, "AGE", 1000.0)
    monkeypatch.setattr(engine_loop, "AGE", 1000.0)


@pytest.fixture
def stately(monkeypatch):
    """Report a state after every block."""
    monkeypatch.setattr(checkpointer, "EVERY", 0.0)
    monkeypatch.setattr(checkpointer, "SHARE", 0)


def ended(heard):
    return bool(heard.of(RunEnded))


def splits_of(total, size):
    edges = [*range(0, total, size), total]
    return [*(Split(a, b) for a, b in zip(edges, edges[1:], strict=False)), Split(0, 0)]


def same(got, expected):
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_equal(one, other)


@pytest.mark.quick(7)
@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize(
    "dataset",
    [
        Dataset.range(0),
        Dataset.range(20_000),
        Dataset.range(100).map(lambda x: {"x": x, "text": "é" * int(x), "point": Point(x, x / 2)}),
        Dataset.range(1000).map(lambda x: np.full(int(x) % 7, x)).map(lambda a: (a, a.sum())),
        Dataset.range(40).map(lambda x: np.full(300_000, x)),
        Dataset.range(20).map(lambda x: x if x % 2 else str(x)),
    ],
    ids=["nothing", "scalars", "nests", "ragged", "megabytes", "mixed"],
)
def test_a_runner_makes_what_a_local_run_makes(thread_runner, dataset, codec):
    heard = thread_runner().read(dataset, codec=codec)

    same(heard.elements, list(dataset))
    assert heard.reports[-1] == RunEnded(1, len(heard.elements))


def test_small_elements_travel_together(thread_runner):
    heard = thread_runner().read(Dataset.range(100_000))

    assert len(heard.made) < 100
    assert max(made.count for made in heard.made) == frame_writer.FRAME_COUNT


def test_an_element_that_travels_alone_takes_a_least_part_of_the_room(thread_runner):
    room = frame_writer.LEAST_ROOM
    runner = thread_runner(budget=10 * room)
    heard = runner.begin(Dataset.range(20), consumers=4)

    runner.hear(heard, lambda heard: heard.of(ArenaFull), free=False)

    assert len(heard.made) == 10


def test_an_element_that_travels_alone_does_not_wait_for_the_next(thread_runner, tmp_path):
    gate = tmp_path / "gate"

    def slow(x):
        while x == 2 and not gate.exists():
            time.sleep(0.001)
        return x

    runner = thread_runner()
    heard = runner.begin(Dataset.range(3).map(slow), consumers=4)
    runner.hear(heard, lambda heard: len(heard.made) == 2)
    gate.touch()

    runner.hear(heard, ended)
    assert [made.first for made in heard.made] == [0, 1, 2]


def test_the_first_element_does_not_wait_for_others(thread_runner, patient):
    heard = thread_runner().read(Dataset.range(1000))

    assert heard.made[0].count == 1


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_compressed_frames_take_only_the_room_that_they_need(thread_runner, codec):
    runner = thread_runner(budget=1 << 21)

    zeros = Dataset.range(20).map(lambda x: np.zeros(1 << 20, np.uint8))
    heard = runner.read(zeros, codec=codec, free=False)

    assert len(heard.elements) == 20
    assert all(made.codec is codec for made in heard.made)
    assert all(made.nbytes < made.raw_nbytes // 100 for made in heard.made)


def test_auto_says_what_it_means_and_why_when_that_changes(thread_runner):
    def array(i):
        bits = 2 if i < 8 else 256
        return np.random.default_rng(int(i)).integers(0, bits, 1 << 20, np.uint8)

    runner = thread_runner(budget=1 << 21)
    heard = runner.begin(Dataset.range(80).map(array), codec=Codec.AUTO)
    runner.send(SetLink(1, 1e5))
    runner.hear(heard, lambda heard: heard.made[-1:] and heard.made[-1].codec is Codec.ZSTD)
    runner.hear(heard, ended)

    said = [chosen.choice for chosen in heard.of(CodecChosen)]
    assert re.fullmatch(r"zstd \(ratio \d\.\d, link 0\.1 MB/s\)", said[-2])
    assert said[-1] == "none (ratio 1.0)"
    assert len(said) <= 3
    assert heard.made[-1].codec is Codec.NONE


def test_the_frames_of_a_cached_task_have_the_room_of_their_window(thread_runner):
    runner = thread_runner(budget=1 << 20, cache=1 << 24)
    arrays = Dataset.range(20).map(lambda x: np.full(1 << 19, x, np.uint8))
    heard = runner.begin(arrays, window=5 << 20, elsewhere=2 << 20)

    runner.hear(heard, lambda heard: heard.of(ArenaFull), free=False)
    assert len(heard.made) == 6
    runner.send(SetWindow(1, 5 << 20, 1 << 20))
    runner.hear(heard, lambda heard: len(heard.of(ArenaFull)) == 2, free=False)
    assert len(heard.made) == 8
    runner.send(SetWindow(1, 16 << 20, 0))
    runner.hear(heard, ended, free=False)

    same(heard.elements, list(arrays))


def test_frames_of_a_small_window_are_small_and_a_large_element_stands_alone(thread_runner):
    runner = thread_runner(budget=1 << 20, cache=1 << 24)
    arrays = Dataset.range(100).map(lambda x: np.full(20_000 if x == 90 else 100, x, np.uint8))
    heard = runner.begin(arrays, window=8000)

    runner.hear(heard, lambda heard: heard.of(ArenaFull), free=False)
    assert sum(made.nbytes for made in heard.made) <= 8000 and len(heard.made) >= 7
    for made in list(heard.made):
        runner.send(FreeFrames(1, (made.offset,)))
    runner.hear(heard, ended)

    same(heard.elements, list(arrays))


def test_after_a_cached_task_a_runner_has_its_usual_room_again(thread_runner):
    runner = thread_runner(budget=1 << 20, cache=1 << 24)
    arrays = Dataset.range(20).map(lambda x: np.full(1 << 18, x, np.uint8))
    runner.hear(runner.begin(arrays, window=16 << 20), ended, free=False)
    runner.stop()

    heard = runner.begin(arrays, run=2)
    runner.hear(heard, lambda heard: heard.of(ArenaFull), free=False)

    assert heard.made and sum(made.nbytes for made in heard.made) <= 1 << 20
    assert os.fstat(runner.sealed.fd).st_blocks * 512 <= 2 << 20


def test_a_full_arena_holds_the_runner_up_until_places_are_freed(thread_runner):
    runner = thread_runner(budget=2 << 20)
    arrays = Dataset.range(6).map(lambda x: np.full(1 << 20, x, np.uint8))
    heard = runner.begin(arrays)

    runner.hear(heard, lambda heard: len(heard.made) == 2, free=False)
    runner.send(FreeFrames(1, (heard.made[0].offset,)))
    runner.hear(heard, lambda heard: len(heard.made) == 3, free=False)
    unacked = {made.offset for made in heard.made[1:]}
    runner.send(FreeFrames(1, tuple(unacked)))
    runner.hear(heard, ended)

    assert len(unacked) == 2
    same(heard.elements, list(arrays))


def test_a_runner_has_less_room_while_others_need_it_and_more_when_they_are_gone(thread_runner):
    runner = thread_runner(budget=4 << 20)
    arrays = Dataset.range(12).map(lambda x: np.full(1 << 20, x, np.uint8))
    heard = runner.begin(arrays)
    runner.hear(heard, lambda heard: heard.of(ArenaFull), free=False)

    runner.send(SetRoom(1, 2 << 20))
    runner.hear(heard, lambda heard: len(heard.of(ArenaFull)) == 2, free=False)
    runner.send(FreeFrames(1, tuple(made.offset for made in heard.made)))
    runner.hear(heard, lambda heard: len(heard.of(ArenaFull)) == 3, free=False)
    assert len(heard.made) == 4 + 2
    assert os.fstat(runner.sealed.fd).st_blocks * 512 <= 3 << 20

    runner.send(SetRoom(1, 4 << 20))
    runner.hear(heard, lambda heard: len(heard.made) == 4 + 4, free=False)
    runner.send(FreeFrames(1, tuple(made.offset for made in heard.made[4:])))
    runner.hear(heard, ended)

    same(heard.elements, list(arrays))


def test_a_runner_that_is_told_of_less_room_before_it_begins_has_that(thread_runner):
    runner = thread_runner(budget=4 << 20)
    arrays = Dataset.range(12).map(lambda x: np.full(1 << 20, x, np.uint8))
    heard = runner.begin(arrays)
    runner.send(SetRoom(1, 1 << 20))
    runner.hear(heard, lambda heard: heard.of(ArenaFull), free=False)
    made = len(heard.made)
    for one in list(heard.made):
        runner.send(FreeFrames(1, (one.offset,)))
    runner.hear(heard, lambda heard: len(heard.made) > made and _waits(heard), free=False)

    assert len(heard.made) == made + 1


def _waits(heard):
    return isinstance(heard.reports[-1], ArenaFull)


def test_a_runner_that_waits_for_room_stops_when_told(thread_runner):
    runner = thread_runner(budget=2 << 20)
    heard = runner.begin(Dataset.range(6).map(lambda x: np.full(1 << 20, x, np.uint8)))
    runner.hear(heard, lambda heard: len(heard.made) == 2, free=False)

    assert runner.stop()[-1] == RunStopped(1)


def test_an_element_larger_than_the_buffer_stands_beside_it(thread_runner):
    runner = thread_runner(budget=1 << 20, largest=8 << 20)
    arrays = Dataset.range(4).map(lambda x: np.full(5 << 20, x, np.uint8))

    heard = runner.read(arrays)

    same(heard.elements, list(arrays))


def test_an_element_larger_than_all_is_named_with_the_setting(thread_runner):
    runner = thread_runner(budget=1 << 20, largest=2 << 20)

    heard = runner.read(Dataset.range(4).map(lambda x: np.zeros(int(x) << 20, np.uint8)))
    error = heard.reports[-1].failure.error()

    assert heard.reports[-1].number == 3
    assert isinstance(error, ElementTooLarge)
    assert "3145728 bytes" in str(error)
    assert "max_element_bytes" in str(error)
    assert len(heard.elements) == 3


# --- when a frame leaves ---


class Gate:
    """A pipe, and a dataset that gives an element for each byte in it, and fails at its end."""

    def __init__(self):
        out, self._into = os.pipe()
        self._out = out

        def through(x):
            assert os.read(out, 1)
            return x

        def live():
            number = 0
            while True:
                yield through(number)
                number += 1

        self.dataset = Dataset.range(1 << 40).map(through)
        self.live = Dataset.from_generator(live)

    def open(self, n=1):
        os.write(self._into, b"x" * n)

    def shut(self):
        if self._into >= 0:
            os.close(self._into)
            self._into = -1

    def close(self):
        self.shut()
        os.close(self._out)


@pytest.fixture
def gate(thread_runner):  # which ends after the gate is shut
    gate = Gate()
    yield gate
    gate.shut()


def test_elements_that_wait_leave_when_a_reader_wants_them(thread_runner, patient, gate):
    runner = thread_runner()
    heard = runner.begin(gate.dataset)
    gate.open(3)
    runner.hear(heard, lambda heard: len(heard.elements) == 1)
    runner.send(Flush(1))
    gate.open(1000)
    runner.hear(heard, lambda heard: len(heard.elements) > 1)

    assert heard.elements == list(range(len(heard.elements)))


def test_elements_do_not_wait_for_ever_while_the_engine_is_held_up(thread_runner, gate):
    runner = thread_runner()
    heard = runner.begin(gate.dataset)

    for n in range(1, 9):
        gate.open(n)
        runner.hear(heard, lambda heard, n=n: len(heard.elements) >= n)

    assert heard.elements == list(range(len(heard.elements)))


def test_a_call_that_does_not_return_is_reported_as_it_grows(thread_runner, gate, monkeypatch):
    monkeypatch.setattr(flush_thread, "REPORT_EACH", 0.05)
    monkeypatch.setattr(engine_loop, "TIMES_EACH", 0.05)
    runner = thread_runner()
    heard = runner.begin(gate.dataset)

    def call(heard):
        reports = heard.of(TimesMeasured)
        return reports[-1].operators[0].call if reports else 0.0

    runner.hear(heard, lambda heard: call(heard) > 0.4)

    first, last = (heard.of(TimesMeasured)[at].operators[0] for at in (0, -1))
    assert first.call < last.call <= last.worked
    assert (last.elements, last.label.partition("(")[0]) == (0, "map")


def test_what_operators_counted_is_reported_before_the_end(thread_runner):
    packs = Dataset.range(1, 5).map(np.ones).pack(8, field=None, pad=0)
    runner = thread_runner()
    heard = runner.begin(packs)

    runner.hear(heard, lambda heard: heard.of(RunEnded))

    measures = {each.name: each.sum for each in heard.of(TimesMeasured)[-1].measures}
    assert measures == {MADE: 10, POSITIONS: 16, PADDING: 6}


def test_a_runner_that_nobody_takes_from_says_so_while_it_lasts(thread_runner, monkeypatch):
    monkeypatch.setattr(flush_thread, "REPORT_EACH", 0.05)
    monkeypatch.setattr(engine_loop, "TIMES_EACH", 0.05)
    runner = thread_runner()
    heard = runner.begin(Dataset.range(1 << 40).map(lambda x: bytes(1 << 14)))

    runner.hear(
        heard, lambda heard: any(t.held_up > 0.3 for t in heard.of(TimesMeasured)), free=False
    )

    held_up = [report.held_up for report in heard.of(TimesMeasured)]
    assert held_up == sorted(held_up)
    runner.stop()


def test_a_source_that_pauses_keeps_nothing_back(thread_runner, gate):
    runner = thread_runner()
    heard = runner.begin(gate.live)

    for n in (1, 100, 3, 20):
        wanted = len(heard.elements) + n
        gate.open(n)
        runner.hear(heard, lambda heard, wanted=wanted: len(heard.elements) == wanted)

    assert heard.elements == list(range(124))


def test_slow_elements_leave_one_by_one(thread_runner):
    slow = Dataset.range(5).map(lambda x: (time.sleep(2 * flush_thread.AGE), x)[1])

    heard = thread_runner().read(slow)

    assert [made.count for made in heard.made] == [1] * 5


# --- failures ---


def test_an_error_comes_behind_the_elements_before_it(thread_runner):
    heard = thread_runner().read(Dataset.range(5000).map(lambda x: 1 / 0 if x == 3456 else x))
    failed = heard.reports[-1]

    assert heard.elements == list(range(3456))
    assert failed.number == 3456
    assert failed.failure.kind == "TransformError"
    operator, number, detail, worker, trace, given = failed.failure.fields
    assert (operator, number, worker, given) == ("map(<lambda>)", 3456, None, repr(np.int64(3456)))
    assert detail == "ZeroDivisionError: division by zero"
    assert Path(__file__).name in trace


def test_an_exit_in_a_function_is_an_error_like_any_other(thread_runner):
    runner = thread_runner()
    heard = runner.read(Dataset.range(5).map(lambda x: sys.exit("enough") if x == 2 else x))
    runner.stop()
    again = runner.read(Dataset.range(5), run=2)

    assert heard.elements == [0, 1]
    assert heard.reports[-1].number == 2
    assert heard.reports[-1].failure.fields[2] == "SystemExit: enough"
    assert again.elements == list(range(5))


@pytest.mark.parametrize("name", ["flush", "penstock-prefetch"])
def test_a_run_without_room_for_a_thread_says_so_behind_its_elements_and_ends_its_process(
    thread_runner, monkeypatch, name
):
    start = threading.Thread.start

    def no_room(thread):
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        start(thread)

    runner = thread_runner()
    monkeypatch.setattr(threading.Thread, "start", no_room)
    heard = runner.read(Dataset.range(5).prefetch(2))

    assert [type(report) for report in heard.reports] == [RoomLacking]
    assert re.search("new thread.*EAGAIN.*RLIMIT_NPROC is", heard.reports[-1].reason)
    runner._thread.join(WITHIN)
    assert not runner._thread.is_alive()


def test_a_function_that_can_start_no_thread_is_its_users_to_mend(thread_runner):
    def needs_thread(_):
        raise RuntimeError("can't start new thread")

    failed = thread_runner().read(Dataset.range(5).map(needs_thread)).reports[-1]

    assert failed.failure.kind == "TransformError"
    assert failed.failure.fields[2] == "RuntimeError: can't start new thread"


def test_a_dataset_inside_an_element_is_an_error_of_that_element(thread_runner):
    heard = thread_runner().read(Dataset.range(5).map(lambda x: Dataset.range(1) if x == 3 else x))
    failed = heard.reports[-1]

    assert heard.elements == [0, 1, 2]
    assert failed.number == 3
    assert isinstance(failed.failure.error(), ElementError)


def test_a_state_that_does_not_fit_is_an_error(thread_runner):
    state = Checkpoint(5, (), json.dumps({"no": "state"}))

    heard = thread_runner().read(Dataset.range(10).map(abs), state=state)

    assert heard.reports == [RunFailed(1, 5, heard.reports[-1].failure)]
    assert isinstance(heard.reports[-1].failure.error(), StateError)


def test_a_definition_that_cannot_be_loaded_fails_the_run(thread_runner):
    runner = thread_runner()
    heard = runner.read(Dataset.range(3), definition_bytes=b"no definition")
    runner.stop()
    again = runner.read(Dataset.range(3), run=2)

    assert [type(report) for report in heard.reports] == [RunFailed]
    assert isinstance(heard.reports[-1].failure.error(), DefinitionError)
    assert again.elements == [0, 1, 2]


# --- splits ---


def test_splits_are_drawn_one_ahead(thread_runner):
    splits = splits_of(1000, 100)

    heard = thread_runner().read(Dataset.range(1000), logs=(SplitLog(),), splits=[splits])

    assert heard.elements == list(range(1000))
    assert [need.position for need in heard.of(SplitsNeeded)] == list(range(11))
    by_order = [type(report) for report in heard.reports]
    assert by_order[:2] == [SplitsNeeded, SplitsNeeded]


def test_sources_draw_from_streams_of_their_own(thread_runner):
    both = Dataset.range(50).concatenate(Dataset.range(100, 130))
    streams = [splits_of(50, 20), splits_of(30, 20)]

    heard = thread_runner().read(both, logs=(SplitLog(),) * 2, splits=streams)

    assert heard.elements == [*range(50), *range(100, 130)]


def test_what_is_produced_is_sent_before_a_split_is_waited_for(thread_runner, patient):
    runner = thread_runner()
    heard = runner.begin(Dataset.range(1000), logs=(SplitLog(0, (Split(0, 10),)),))

    runner.hear(heard, lambda heard: len(heard.elements) == 10)
    needed = heard.of(SplitsNeeded)
    runner.send(AddSplits(1, 0, 1, (Split(10, 20), Split(0, 0))))
    runner.hear(heard, ended)

    assert needed == [SplitsNeeded(1, 0, 1)]
    assert heard.elements == list(range(20))
    assert heard.of(SplitsNeeded) == needed


def test_a_wait_for_a_split_ends_when_the_run_is_stopped(thread_runner):
    runner = thread_runner()
    heard = runner.begin(Dataset.range(1000), logs=(SplitLog(),))
    runner.hear(heard, lambda heard: heard.of(SplitsNeeded))

    assert runner.stop() == [RunStopped(1)]


def test_threads_of_the_engine_draw_splits_too(thread_runner):
    runner = thread_runner()
    ahead = Dataset.range(1000).prefetch(8)

    heard = runner.read(ahead, logs=(SplitLog(),), splits=[splits_of(1000, 10)])
    runner.stop()
    second = runner.begin(ahead, run=2, logs=(SplitLog(),))
    runner.hear(second, lambda heard: heard.of(SplitsNeeded))

    assert heard.elements == list(range(1000))
    assert runner.stop(2) == [RunStopped(2)]


def test_an_engine_that_ends_with_a_split_outstanding_ends(thread_runner):
    runner = thread_runner()
    few = Dataset.range(1000).filter(lambda x: x >= 0).prefetch(50).take(5)

    heard = runner.read(few, logs=(SplitLog(),), splits=[[Split(0, 20)]])

    assert heard.elements == list(range(5))
    assert isinstance(runner.stop()[-1], RunStopped)


# --- states ---


def test_any_state_gives_the_same_tail(thread_runner, stately):
    runner = thread_runner()
    dataset = Dataset.range(5000).map(lambda x: x * 3).batch(7)
    whole = runner.read(dataset)

    states = whole.states[:: max(1, len(whole.states) // 20)] + whole.states[-1:]
    assert len(states) > 5
    for run_number, state in enumerate(states, 2):
        runner.send(StopRun(run_number - 1))
        tail = runner.read(dataset, run=run_number, state=state)
        same(tail.elements, whole.elements[state.number :])


def test_any_state_under_splits_gives_the_same_tail(thread_runner, stately):
    runner = thread_runner()
    dataset = Dataset.range(600).map(lambda x: -x).batch(7)
    splits = splits_of(600, 50)
    whole = runner.read(dataset, logs=(SplitLog(),), splits=[splits])

    assert [state.positions for state in whole.states] == sorted(
        state.positions for state in whole.states
    )
    assert whole.states[-1].positions == (12,)
    for run_number, state in enumerate(whole.states, 2):
        (position,) = state.positions
        log = SplitLog(position, tuple(splits[position : position + 1]))
        tail = runner.read(dataset, run=run_number, state=state, logs=(log,), splits=[splits])
        same(tail.elements, whole.elements[state.number :])


def test_a_state_comes_behind_the_elements_before_it(thread_runner, stately):
    heard = thread_runner().read(Dataset.range(5000))

    behind = 0
    for report in heard.reports[:-1]:
        if isinstance(report, FrameReady):
            behind = report.first + report.count
        elif isinstance(report, CheckpointTaken):
            assert report.checkpoint.number == behind


# --- the life of a runner ---


def test_a_new_run_ends_the_one_before(thread_runner):
    runner = thread_runner()
    first = runner.begin(Dataset.range(1 << 40))
    runner.hear(first, lambda heard: heard.elements)

    second = runner.read(Dataset.range(5), run=2)

    assert second.elements == list(range(5))


def test_a_run_that_ended_can_be_stopped_and_the_next_begins_with_an_empty_arena(thread_runner):
    runner = thread_runner(budget=1 << 20)
    arrays = Dataset.range(1).map(lambda x: np.zeros(900_000, np.uint8))

    for number in range(1, 5):
        heard = runner.read(arrays, run=number, free=False)
        assert heard.made[0].offset == 0
        assert runner.stop(number) == [RunStopped(number)]


def test_a_run_leaves_no_thread_behind(thread_runner):
    runner = thread_runner()
    before = threading.active_count()

    runner.read(Dataset.range(100).prefetch(3).map(lambda x: x, num_parallel_calls=2))
    runner.stop()

    assert threading.active_count() == before


def test_a_wait_that_goes_on_counts_up_to_now():
    now = [100.0]
    waits = WaitSum(lambda: now[0])

    assert waits.seconds == 0.0
    waits.begin()
    now[0] += 3
    assert waits.seconds == 3.0
    waits.end()
    now[0] += 10
    assert waits.seconds == 3.0
    waits.begin()
    now[0] += 1
    assert waits.seconds == 4.0
