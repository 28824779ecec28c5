import asyncio
import dataclasses
from contextlib import aclosing

import pytest

from penstock import errors
from penstock.protocol.calls import (
    OpenIterationReply,
    RegisteredDataset,
    Registration,
)
from penstock.protocol.control import (
    Assignment,
    ReaderHeartbeat,
    ReaderView,
    SplitGrant,
    SplitRequest,
    WorkerHeartbeat,
    WorkerRefused,
)
from penstock.protocol.splits import Split
from penstock.protocol.types import PROTOCOL, Codec, Failure, Mode, ReaderStatus, Versions
from penstock.wire.connection import connect, listening
from penstock.wire.dispatcher import DispatcherClient, dispatcher_handlers
from tests.openings import opening

VERSIONS = Versions(PROTOCOL, "3.11", "0.1")
TREE = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.PenstockError)
]


def an_error(kind):
    fields = {
        errors.TransformError: ("map(f)", 7, "ValueError: \udc80 ü", "w:1", "Traceback\n" * 20_000),
    }
    return kind(*fields.get(kind, (f"{kind.__name__}: it is ü",)))


async def cancelled():
    """Wait for something that was cancelled."""
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


class FakeDispatcher:
    """Answers with what was asked; datasets named like an error raise it."""

    def __init__(self):
        self.datasets, self.ids = {}, {}
        self.ended = asyncio.Event()

    async def register_dataset(self, definition, versions, registration=None):
        assert versions == VERSIONS
        if registration is not None:
            self.ids[registration.dataset_id] = registration
        return self.datasets.setdefault(definition, f"d-{len(self.datasets)}")

    async def find_dataset(self, dataset_id):
        known = self.ids[dataset_id]
        return RegisteredDataset(dataset_id, "d-0", known.codec, known.element_spec, b"outline")

    async def get_definition(self, dataset, python=""):
        for definition, name in self.datasets.items():
            if name == dataset:
                return definition
        if dataset == "bug":
            raise KeyError("a bug")
        if dataset == "cancelled":
            await cancelled()
        if dataset == "group":
            raise ExceptionGroup("in a task", [errors.UnknownDataset("in a group")])
        raise an_error(getattr(errors, dataset))

    async def open_iteration(self, request):
        return OpenIterationReply(request.repetition, request.job_name or "private", 0.5, 30.0)

    async def drain(self, worker):
        if worker != "w:1":
            raise errors.Refused(f"there is no worker {worker}")

    async def drain_host(self, boot_id):
        return ("w:1", "w:2") if boot_id == "here" else ()

    async def set_weights(self, job_name, weights, at):
        if at is not None:
            raise errors.DatasetError(f"turn {at} of {job_name}")
        return int(10 * sum(weights.values()))

    async def status(self):
        return b'{"tasks": 3}'

    async def worker_control(self, signals):
        async for signal in signals:
            match signal:
                case WorkerHeartbeat(draining=True):
                    yield WorkerRefused(Failure.of(errors.VersionMismatch("too old")))
                    return
                case WorkerHeartbeat():
                    yield Assignment(signal.revision + 1, signal.incarnation, (), {}, 0.5)
                case SplitRequest():
                    split = (Split(0, 10),)
                    yield SplitGrant(signal.task, signal.attempt, 0, signal.position, split)

    async def reader_control(self, beats):
        try:
            async for beat in beats:
                if beat.session == "cancelled":
                    await cancelled()
                if beat.session == "fail":
                    raise errors.UnknownIteration(f"iteration {beat.iteration} is over")
                yield ReaderView(0, beat.session, 1, ReaderStatus.LIVE, beat.seq, {})
        finally:
            self.ended.set()


@pytest.fixture
async def far_dispatcher():
    """A client of a dispatcher behind a real port, and the dispatcher."""
    api = FakeDispatcher()
    handlers = dispatcher_handlers(api)
    async with (
        listening(handlers, host="127.0.0.1", port=0, drain=0) as port,
        connect(f"127.0.0.1:{port}") as channel,
    ):
        yield DispatcherClient(channel), api


@pytest.fixture
def dispatcher(far_dispatcher):
    return far_dispatcher[0]


async def one_by_one(*values):
    for value in values:
        yield value


def a_beat(beat, **changes):
    return dataclasses.replace(ReaderHeartbeat(9, "t", None, beat), **changes)


async def test_ids_cross_with_what_is_known_of_them(dispatcher):
    asked = Registration("corpus", Codec.LZ4, b"spec")

    dataset = await dispatcher.register_dataset(b"graph", VERSIONS, asked)

    found = await dispatcher.find_dataset("corpus")
    assert found == RegisteredDataset("corpus", dataset, Codec.LZ4, b"spec", b"outline")


async def test_an_iteration_is_opened(dispatcher):
    request = opening(VERSIONS, "d", Mode.OFF, None, 3, Codec.NONE)

    assert await dispatcher.open_iteration(request) == OpenIterationReply(3, "private", 0.5, 30.0)


async def test_status_is_the_services_own_bytes(dispatcher):
    assert await dispatcher.status() == b'{"tasks": 3}'


async def test_the_workers_of_a_host_are_told_to_leave(dispatcher):
    assert await dispatcher.drain_host("here") == ("w:1", "w:2")
    assert await dispatcher.drain_host("there") == ()


async def test_weights_are_set_by_the_names_of_sources_or_the_refusal_names_the_turn(dispatcher):
    assert await dispatcher.set_weights("train", {"web": 0.5, "code": 1.5}, None) == 20

    with pytest.raises(errors.DatasetError, match="turn 7 of train"):
        await dispatcher.set_weights("train", {}, 7)


async def test_a_worker_is_drained_or_the_refusal_names_it(dispatcher):
    await dispatcher.drain("w:1")

    with pytest.raises(errors.Refused, match="no worker w:2"):
        await dispatcher.drain("w:2")


async def test_a_big_definition_crosses(dispatcher):
    definition = bytes(20 << 20)

    dataset = await dispatcher.register_dataset(definition, VERSIONS)

    assert await dispatcher.get_definition(dataset) == definition


@pytest.mark.parametrize("kind", TREE)
async def test_every_error_crosses_with_its_class(dispatcher, kind):
    with pytest.raises(errors.PenstockError) as caught:
        await dispatcher.get_definition(kind.__name__)

    assert type(caught.value) is kind
    assert caught.value.retryable == kind.retryable


async def test_an_error_crosses_with_its_fields(far_dispatcher):
    client, _ = far_dispatcher

    with pytest.raises(errors.TransformError) as caught:
        await client.get_definition("TransformError")

    error = caught.value
    assert (error.operator, error.number, error.worker) == ("map(f)", 7, "w:1")
    assert error.detail == "ValueError: \\udc80 ü"
    assert "characters ..." in error.remote_traceback
    assert len(error.remote_traceback) < 70_000


async def test_a_bug_crosses_as_text_and_is_logged_where_it_happened(far_dispatcher, caplog):
    client, _ = far_dispatcher

    with pytest.raises(errors.PenstockError, match="GetDefinition failed with KeyError: 'a bug'"):
        await client.get_definition("bug")

    assert caplog.records[0].exc_info[0] is KeyError


async def test_the_only_error_of_a_group_crosses_alone(far_dispatcher):
    client, _ = far_dispatcher

    with pytest.raises(errors.UnknownDataset, match="in a group"):
        await client.get_definition("group")


async def test_work_that_the_service_cancelled_does_not_leave_its_caller_waiting(far_dispatcher):
    client, _ = far_dispatcher

    async with asyncio.timeout(5):
        with pytest.raises(errors.Unavailable, match="stopped working on .*GetDefinition"):
            await client.get_definition("cancelled")
        with pytest.raises(errors.Unavailable, match="stopped working on .*ReaderControl"):
            async for _ in client.reader_control(one_by_one(a_beat(0, session="cancelled"))):
                pass


async def test_a_worker_is_answered_signal_by_signal(dispatcher):
    signals = one_by_one(WorkerHeartbeat("w:1", 1, 7), SplitRequest("w:1", 1, 5, 2, 0, 3))

    orders = [order async for order in dispatcher.worker_control(signals)]

    assert orders == [
        Assignment(8, 1, (), {}, 0.5),
        SplitGrant(5, 2, 0, 3, (Split(0, 10),)),
    ]


async def test_behind_a_refusal_nothing_comes_though_the_worker_would_go_on(dispatcher):
    async def endless():
        yield WorkerHeartbeat("w:1", 1, 7, draining=True)
        await asyncio.Event().wait()

    async with asyncio.timeout(5):
        orders = [order async for order in dispatcher.worker_control(endless())]

    (refused,) = orders
    assert isinstance(refused.failure.error(), errors.VersionMismatch)


async def test_a_reader_is_answered_beat_by_beat(dispatcher):
    answers = asyncio.Queue()

    async def beats():
        yield a_beat(0)
        for _ in range(3):
            yield a_beat((await answers.get()).seq + 1)

    views = []
    async for view in dispatcher.reader_control(beats()):
        views.append(view.seq)
        answers.put_nowait(view)

    assert views == [0, 1, 2, 3]


async def test_an_error_in_a_stream_comes_behind_what_was_sent_before(dispatcher):
    beats = one_by_one(a_beat(0), a_beat(1), a_beat(2, session="fail"))
    views = []

    with pytest.raises(errors.UnknownIteration, match="iteration 9 is over"):
        async for view in dispatcher.reader_control(beats):
            views.append(view.seq)

    assert views == [0, 1]


async def test_an_error_is_told_though_the_client_is_writing(far_dispatcher):
    client, _ = far_dispatcher

    async def storm():
        for k in range(10):
            yield a_beat(k)
        while True:
            yield a_beat(10, session="fail")
            await asyncio.sleep(0)

    for _ in range(50):
        views = []
        with pytest.raises(errors.UnknownIteration, match="iteration 9 is over"):
            async for view in client.reader_control(storm()):
                views.append(view.seq)
        assert views == list(range(10))


async def test_what_the_callers_own_iterator_raises_reaches_the_caller(dispatcher):
    async def broken():
        yield a_beat(0)
        raise ZeroDivisionError("in the beats")

    with pytest.raises(ZeroDivisionError, match="in the beats"):
        async for _ in dispatcher.reader_control(broken()):
            pass


async def forever():
    k = 0
    while True:
        yield a_beat(k)
        k += 1
        await asyncio.sleep(0.001)


async def test_closing_a_stream_ends_the_far_generator(far_dispatcher):
    client, api = far_dispatcher

    async with aclosing(client.reader_control(forever())) as views:
        await anext(views)

    async with asyncio.timeout(2):
        await api.ended.wait()


async def test_cancelling_a_stream_ends_the_far_generator_and_both_iterators(far_dispatcher):
    client, api = far_dispatcher
    closed, reading = asyncio.Event(), asyncio.Event()

    async def silent():
        try:
            yield a_beat(0)
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def read():
        async for _ in client.reader_control(silent()):
            reading.set()

    task = asyncio.create_task(read())
    async with asyncio.timeout(5):
        await reading.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await closed.wait()
        await api.ended.wait()


async def test_a_timeout_around_a_stream_is_a_timeout(far_dispatcher):
    client, api = far_dispatcher

    async def silent():
        yield a_beat(0)
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            async for _ in client.reader_control(silent()):
                pass

    async with asyncio.timeout(2):
        await api.ended.wait()


async def test_streams_leave_no_tasks_behind(far_dispatcher):
    client, api = far_dispatcher

    for _ in range(20):
        async with aclosing(client.reader_control(forever())) as views:
            await anext(views)
        async with asyncio.timeout(2):
            await api.ended.wait()
        api.ended.clear()

    async with asyncio.timeout(2):
        for task in asyncio.all_tasks():
            if task.get_name() in {"requests", "inbox"} or "ReaderControl" in task.get_name():
                await asyncio.wait({task})


async def test_a_message_over_the_limit_is_refused_before_it_is_read_with_the_way_out():
    api = FakeDispatcher()
    handlers = dispatcher_handlers(api)
    async with (
        listening(handlers, host="127.0.0.1", port=0, drain=0, largest=1 << 20) as port,
        connect(f"127.0.0.1:{port}") as channel,
    ):
        client = DispatcherClient(channel)
        with pytest.raises(errors.DefinitionTooLarge, match="so large.*max_definition_bytes"):
            await client.register_dataset(bytes(2 << 20), VERSIONS)
        with pytest.raises(errors.VersionMismatch, match="DrainRequest arrived with .* at most"):
            await client.drain("w" * 100_000)


async def test_who_runs_definitions_looks_at_their_seals():
    seen = []
    handlers = dispatcher_handlers(FakeDispatcher(), lambda name, data: name.encode() + data)
    async with (
        listening(handlers, host="127.0.0.1", port=0, drain=0) as port,
        connect(f"127.0.0.1:{port}") as channel,
    ):
        client = DispatcherClient(channel, check=lambda *about: seen.append(about))
        name = await client.register_dataset(b"code", VERSIONS)
        definition = await client.get_definition(name)

    assert seen == [(name, definition, name.encode() + definition)]
