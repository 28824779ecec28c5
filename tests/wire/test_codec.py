import dataclasses
import inspect
import tracemalloc
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ConfigError, PenstockError, VersionMismatch
from penstock.protocol import control
from penstock.protocol.calls import OpenIterationRequest
from penstock.protocol.control import (
    ReaderHeartbeat,
    TaskView,
    WorkerCommand,
    WorkerEvent,
)
from penstock.protocol.data import ReadReply
from penstock.protocol.ranges import RangeSet
from penstock.protocol.splits import Split, SplitLog
from penstock.protocol.types import PROTOCOL, Codec, DatasetId, Failure, Mode, Versions
from penstock.wire import dispatcher, worker
from penstock.wire._pb import common_pb2, dispatcher_pb2
from penstock.wire.codec import form
from penstock.wire.rpc import StreamRpc, UnaryRpc
from tests.openings import opening

NUMBERS = st.integers(-(2**63), 2**63 - 1)
SCALARS = {
    int: NUMBERS,
    str: st.text(max_size=9),
    bytes: st.binary(max_size=9),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
}
SPANS = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=4)
SPECIAL = {
    RangeSet: SPANS.map(lambda spans: RangeSet.of(*spans)),
    Split: st.builds(
        lambda start, size, names: Split(start, start + size, tuple(names)),
        st.integers(0, 2**62),
        st.integers(0, 2**62 - 1),
        st.lists(st.text(max_size=5), max_size=2),
    ),
    ("seed", int): st.integers(0, 2**64 - 1),
}


def values(hint, name=""):
    """Return a strategy for all that a field with type *hint* may hold."""
    while isinstance(hint, typing.NewType):
        hint = hint.__supertype__
    for special in ((name, hint), hint):
        if special in SPECIAL:
            return SPECIAL[special]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return st.one_of(*map(values, args))
    if hint is type(None):
        return st.none()
    if origin is tuple:
        if args[-1] is Ellipsis:
            return st.lists(values(args[0]), max_size=3).map(tuple)
        return st.tuples(*map(values, args))
    if origin is frozenset:
        return st.frozensets(values(args[0]), max_size=3)
    if origin is Mapping:
        return st.dictionaries(values(args[0]), values(args[1]), max_size=3)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        return st.builds(hint, **{field: values(hints[field], field) for field in hints})
    return SCALARS[hint]


def forms():
    """Return the form and type of all that crosses as protobuf."""
    methods = [*vars(dispatcher).values(), *vars(worker).values()]
    found = [m for m in methods if isinstance(m, (UnaryRpc, StreamRpc)) and m is not worker.HEALTH]
    codecs = {it.kind: it for method in found for it in (method.request, method.reply)}
    return [(kind, codec) for kind, codec in codecs.items() if kind != ReadReply]


@pytest.mark.quick(8)
@pytest.mark.parametrize(
    ("kind", "codec"), forms(), ids=lambda it: getattr(it, "__name__", "union")
)
def test_every_message_comes_back_as_it_was(kind, codec):
    @given(values(kind))
    def there_and_back(value):
        back = codec.decode(codec.encode(value))

        assert back == value
        assert type(back) is type(value)

    there_and_back()


def test_every_class_of_messages_crosses_one_way_or_another():
    crossing = set()

    def visit(hint):
        while isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        for part in typing.get_args(hint):
            visit(part)
        if isinstance(hint, type) and hint not in crossing:
            crossing.add(hint)
            if dataclasses.is_dataclass(hint):
                for part in typing.get_type_hints(hint).values():
                    visit(part)

    for kind, _ in forms():
        visit(kind)
    visit(ReadReply)

    ours = {kind for _, kind in inspect.getmembers(control, inspect.isclass)}
    assert {kind for kind in ours if kind.__module__ == control.__name__} <= crossing


def test_what_many_are_told_is_kept_unless_it_is_large():
    codec = form(TaskView)
    small = TaskView(1, "w:1")
    assert codec.encode(small) == codec.encode(TaskView(1, "w:1"))
    tracemalloc.start()
    try:
        for attempt in range(50):
            large = TaskView(attempt, None, Failure("TransformError", ("x" * 500_000,)))
            assert codec.decode(codec.encode(large)) == large
        assert tracemalloc.get_traced_memory()[0] < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "kind, fields",
    [
        ("Unheard\x1bOf", ("words", 1)),
        ("TransformError", ("too few",)),
        ("ElementError", (None,) * 9),
    ],
)
def test_an_error_that_only_another_version_knows_keeps_its_words_and_says_so(kind, fields):
    error = Failure(kind, fields).error()

    assert isinstance(error, PenstockError)
    assert str(fields[0]) in str(error)
    assert kind == "ElementError" or "of another version" in str(error)
    assert "\x1b" not in str(error)


@pytest.mark.parametrize(
    "spans", [[5, 3], [1, 1], [3, 5, 4, 6], [3, 5, 5, 6], [3, 4, 1, 2]], ids=str
)
def test_runs_that_are_none_are_refused_where_they_arrive(spans):
    beat = dispatcher_pb2.ReaderHeartbeat(session="t")
    beat.reports[1].buffered.spans.extend(spans)

    with pytest.raises(VersionMismatch, match="are no ranges"):
        form(ReaderHeartbeat).decode(beat.SerializeToString())


def request(**changes):
    base = opening(
        Versions(PROTOCOL, "3.11", "0.1"), DatasetId("d"), Mode.OFF, "job", 0, Codec.NONE
    )
    return dataclasses.replace(base, **changes)


@pytest.mark.parametrize("changes", [{"job_name": "\udc80"}, {"repetition": 2**63}], ids=repr)
def test_what_protobuf_cannot_say_is_refused_where_it_is_sent(changes):
    codec = form(OpenIterationRequest)

    with pytest.raises(ConfigError, match="OpenIterationRequest cannot be sent"):
        codec.encode(request(**changes))


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff",
        b"GET / HTTP/1.1\r\n",
        dispatcher_pb2.OpenIterationRequest(job_name="no parameters").SerializeToString(),
        dispatcher_pb2.OpenIterationRequest(
            parameters=dispatcher_pb2.JobParameters(mode=99, codec=1)
        ).SerializeToString(),
    ],
)
def test_bytes_that_are_no_message_are_refused_where_they_arrive(data):
    with pytest.raises(VersionMismatch, match="no OpenIterationRequest"):
        form(OpenIterationRequest).decode(data)


def test_a_value_that_no_message_may_have_is_refused():
    codec = form(SplitLog)
    backwards = common_pb2.SplitLog(splits=[common_pb2.Split(start=2, stop=1)])

    with pytest.raises(VersionMismatch, match="negative split"):
        codec.decode(backwards.SerializeToString())


def test_half_a_pair_is_refused():
    with pytest.raises(VersionMismatch, match="no RangeSet"):
        form(RangeSet).decode(common_pb2.RangeSet(spans=[1, 2, 3]).SerializeToString())


@pytest.mark.parametrize(
    ("kind", "name"), [(WorkerEvent, "WorkerEvent"), (WorkerCommand, "WorkerCommand")]
)
def test_an_alternative_that_is_not_known_is_refused(kind, name):
    with pytest.raises(VersionMismatch, match="does not know"):
        form(kind, name=name).decode(b"\x92\x03\x00")


def test_a_field_from_the_future_is_ignored():
    codec = form(ReaderHeartbeat)
    beat = codec.decode(b"")

    assert codec.decode(b"\x9a\x3f\x03abc") == beat


@dataclass(frozen=True)
class Narrow:
    start: int


def test_a_class_that_differs_from_its_message_is_refused_at_once():
    with pytest.raises(TypeError, match=r"Narrow .* differ in \['names', 'stop'\]"):
        form(Narrow, name="Split")
    with pytest.raises(TypeError, match="no .proto file has the message Narrow"):
        form(Narrow)
    with pytest.raises(TypeError, match="oneof"):
        form(WorkerEvent, name="WorkerCommand")
    with pytest.raises(TypeError, match="cannot be"):
        form(int, name="Split")
