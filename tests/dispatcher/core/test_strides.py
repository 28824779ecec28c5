"""One order that goes to several consumers: places of tasks, who may read, what a state says."""

import json
from dataclasses import replace

import msgspec
import pytest

from penstock.errors import StateError
from penstock.protocol.calls import OpenIterationReply
from penstock.protocol.control import AttemptProgress, ReaderHeartbeat, TaskReport, WorkerHeartbeat
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.rounds import Stride
from penstock.protocol.types import Codec, Failure, Mode
from penstock_dispatcher.core import job_state
from penstock_dispatcher.core.events import (
    CloseReaderStream,
    OpenIteration,
    ReplyToCall,
    SendCommand,
)
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.strides import MOST_CONSUMERS
from penstock_dispatcher.core.views import waits
from tests.dispatcher.core.driver import VERSIONS
from tests.dispatcher.core.one_order import World
from tests.openings import changed, opening


class Shared(World):
    """An ordered job of two consumers."""

    def __init__(self, units=40, workers=2, *, grid=10, stride=2, **asked):
        self.consumer = 0
        super().__init__(units, workers, grid=grid, stride=stride, **asked)

    def tell(self, event):
        if isinstance(event, ReaderHeartbeat) and event.consumer is None:
            event = replace(event, consumer=self.consumer)
        return super().tell(event)

    def ends(self, name, total, **more):
        """Let a task be made with *total* elements, none of which is read."""
        task = self.tasks[name]
        progress = AttemptProgress(task.attempt, total, AckedSet(0), ended=True, **more)
        revision = self.core.state.revision
        return self.tell(WorkerHeartbeat(task.worker, 1, revision, {name: progress}))

    @property
    def places(self):
        return [task.place for task in self.tasks.values()]


def assigned(effects):
    """Return what workers are told of places, by task."""
    commands = [effect.command for effect in effects if isinstance(effect, SendCommand)]
    return {task.task: task.stride for command in commands for task in command.tasks}


def test_a_task_has_its_place_when_all_before_it_were_made():
    world = Shared()
    first, second, third, fourth = world.tasks
    assert world.places == [0, None, None, None]

    world.ends(second, 7)
    assert world.places == [0, None, None, None]
    told = assigned(world.ends(first, 10))

    assert world.places == [0, 10, 17, None]
    assert told[second] == Stride(2, 10)
    world.ends(third, 0)
    world.ends(fourth, 3)
    assert world.iteration.counted == (4, 20)


def test_places_outlive_attempts_and_the_dispatcher():
    world = Shared()
    first, second, *_ = world.tasks
    world.ends(first, 10)
    state = DispatcherState()
    for fact in world.facts:
        data = msgspec.msgpack.encode(fact)
        state.apply(msgspec.msgpack.decode(data, type=type(fact)))

    assert state.iterations == world.core.state.iterations
    assert state.iterations[world.answer.iteration].tasks[second].place == 10


def test_a_task_that_is_done_was_counted_before():
    world = Shared(units=20, grid=10)
    first, second = world.tasks

    world.finishes(first)

    assert first not in world.tasks
    assert world.tasks[second].place == 10


def test_a_task_without_elements_is_over_when_all_before_it_are_counted():
    world = Shared()
    first, second, third, fourth = world.tasks

    world.ends(third, 0, done=True, all_sent=True)
    world.ends(second, 0, done=True, all_sent=True)
    assert list(world.tasks) == [first, second, third, fourth]

    world.ends(first, 10)

    assert list(world.tasks) == [first, fourth]
    assert world.tasks[fourth].place == 10


def test_what_a_task_made_before_it_failed_counts():
    world = Shared()
    first, second, *_ = world.tasks
    task, failed = world.tasks[first], Failure("TransformError", ("map", 4, "bad", None))
    progress = AttemptProgress(task.attempt, 4, AckedSet(0), failure=failed)
    world.tell(WorkerHeartbeat(task.worker, 1, world.core.state.revision, {first: progress}))

    assert world.tasks[first].failure == failed
    assert world.tasks[second].place == 4


def test_an_order_that_is_not_divided_counts_nothing():
    world = World(40, grid=10)
    world.makes(min(world.tasks))

    assert world.iteration.counted == (0, 0)
    assert world.iteration.stride is None


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"stride": 0}, f"num_consumers must be 1 to {MOST_CONSUMERS}, not 0"),
        ({"stride": MOST_CONSUMERS + 1}, "num_consumers must be 1 to"),
        ({"stride": 2, "ordered": False}, "stride needs ordered, alone"),
        ({"stride": 2, "num_consumers": 2}, "stride needs ordered, alone"),
        ({"stride": 2, "job_name": None}, "num_consumers=2 needs a job_name"),
        ({"stride": 2, "on_error": "skip"}, "on_error='skip' and num_consumers do not go together"),
        ({"stride": 2, "target_workers": "LOCAL"}, "LOCAL' and num_consumers do not go together"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(asked, words):
    world = World(10)
    request = opening(VERSIONS, "d", Mode.DYNAMIC, "k", 1, Codec.NONE, ordered=True)
    effects = world.tell(OpenIteration(2, changed(request, **asked), 5))
    (answer,) = [e.answer for e in effects if isinstance(e, ReplyToCall)]

    assert words in str(answer.error())


def test_another_number_of_consumers_is_another_job():
    world = Shared()
    request = opening(VERSIONS, "d", Mode.DYNAMIC, "j", 1, Codec.NONE, ordered=True, stride=3)
    effects = world.tell(OpenIteration(2, request, 5))
    (answer,) = [e.answer for e in effects if isinstance(e, ReplyToCall)]

    assert "its num_consumers (with ordered=True) is 2, not 3" in str(answer.error())


@pytest.mark.parametrize(
    ("stride", "consumer", "words"),
    [
        (None, 1, "is shared first come, first served, and this reader is consumer 1"),
        (2, None, "does not say which of them it is: give consumer_index and num_consumers"),
        (2, 2, "consumer_index must be below num_consumers, 2, not 2"),
    ],
)
def test_a_reader_that_is_none_of_the_consumers_is_sent_away(stride, consumer, words):
    world = World(10, stride=stride) if stride is None else Shared(10)
    world.consumer = consumer
    beat = ReaderHeartbeat(world.answer.iteration, "other", None, 1, consumer=consumer)
    effects = World.tell(world, beat)

    (closed,) = [effect for effect in effects if isinstance(effect, CloseReaderStream)]
    assert words in str(closed.failure.error())


def test_it_is_said_which_consumers_are_not_there():
    world = Shared(stride=7)
    said = "; ".join(waits(world.core.ctx, world.now).values())
    assert "consumers 1, 2, 3, 4 and 2 more of 7, of which no reader is there" in said

    world = Shared()
    assert "consumer 1 of 2, of which no reader" in "".join(waits(world.core.ctx, 100).values())
    world.consumer = 1
    world.reads("other")
    assert "consumer" not in "".join(waits(world.core.ctx, 100).values())


# --- saved and gone on from ---


def saved(world):
    """Return the state of a job whose first task was read in part, and is counted."""
    first, second, *_ = world.tasks
    world.ends(first, 10)
    acked = AckedSet(3, RangeSet.of((4, 5)))
    world.core.ctx.soft_state.report_acks(first, acked)
    job, iteration = world.core.state.jobs["j"], world.iteration
    known = {name: world.core.ctx.acked(name, task) for name, task in world.tasks.items()}
    return job_state.encode(job_state.of(job, iteration, known, iteration.before))


def restored(state, **asked):
    world = World(40, grid=10)
    asked = {"ordered": True, "stride": 2, **asked}
    request = opening(VERSIONS, "d", Mode.DYNAMIC, "again", 1, Codec.NONE, restore=state, **asked)
    effects = world.tell(OpenIteration(2, request, 5))
    (answer,) = [e.answer for e in effects if isinstance(e, ReplyToCall)]
    if isinstance(answer, OpenIterationReply):
        world.answer = answer
    return answer, world


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_places_are_kept_when_it_goes_on_with_another_number_of_consumers(stride):
    answer, world = restored(saved(Shared()), stride=stride)

    assert isinstance(answer, OpenIterationReply)
    assert world.iteration.stride == stride
    assert world.iteration.counted == (1, 10)
    assert [task.place for task in world.tasks.values()][:3] == [0, 10, None]
    first = next(iter(world.tasks.values()))
    assert first.acked == AckedSet(3, RangeSet.of((4, 5)))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"stride": None}, "in one order with num_consumers, not without"),
        ({"stride": None, "ordered": False}, "ordered=True"),
        ({"stride": None, "ordered": False, "num_consumers": 2}, "without, not in rounds"),
    ],
    ids=str,
)
def test_a_state_is_restored_as_it_was_read(asked, words):
    answer, _ = restored(saved(Shared()), **asked)

    assert isinstance(answer.error(), StateError)
    assert words in str(answer.error())


def change(state, path, value):
    data = json.loads(state)
    at = data
    for key in path[:-1]:
        at = at[key]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["stride", "tasks"], 9, "9 tasks are counted, and others are not there"),
        (["stride", "consumers"], 0, "consumers"),
        (["tasks", 1, "place"], None, "their places must be known"),
        (["tasks", 1, "place"], 11, "their places must be known"),
        (["tasks", 2, "place"], 3, "behind one that is not counted is not known"),
        (["stride", "tasks"], 0, "behind one that is not counted is not known"),
    ],
    ids=str,
)
def test_a_state_that_contradicts_itself_is_refused(path, value, words):
    answer, _ = restored(change(saved(Shared()), path, value))

    assert isinstance(answer.error(), StateError)
    assert words in str(answer.error())


def test_reports_of_consumers_are_joined():
    world = Shared(units=10, grid=10, workers=1)
    (first,) = world.tasks
    world.ends(first, 10, all_sent=True)
    evens = AckedSet(0, RangeSet.of(*((n, n + 1) for n in range(0, 10, 2))))
    odds = AckedSet(0, RangeSet.of(*((n, n + 1) for n in range(1, 10, 2))))
    for index, (session, acked) in enumerate((("r", evens), ("s", odds))):
        reader = world.iteration.sessions.get(session)
        report = {first: TaskReport(1, acked)}
        beat = ReaderHeartbeat(world.answer.iteration, session, reader, 9, report, consumer=index)
        world.tell(beat)

    assert world.iteration.finished
