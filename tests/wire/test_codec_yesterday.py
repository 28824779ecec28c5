"""What was written yesterday must be read today: bytes of each message, kept in `yesterday.json`.

A new message gets a value here and, with the help of the failing test, a line there. A line that
is there is never changed within a version of the protocol: fields are only ever added.
"""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from penstock.frames.frame import FrameBuilder, unpack
from penstock.protocol import calls
from penstock.protocol.calls import (
    OpenIterationReply,
    RegisteredDataset,
    Registration,
)
from penstock.protocol.control import (
    Assignment,
    AttemptProgress,
    ElementCounts,
    ReaderHeartbeat,
    ReaderView,
    SaveBarrier,
    SaveResult,
    SplitGrant,
    SplitRequest,
    TaskAssignment,
    TaskReport,
    TaskView,
    WorkerHeartbeat,
    WorkerRefused,
)
from penstock.protocol.data import Ack, FrameHeader, Recall, StreamEnd, Subscribe
from penstock.protocol.loop_time import ReaderProcess
from penstock.protocol.nearness import WorkerProfile
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.splits import Split, SplitLog
from penstock.protocol.types import (
    Checkpoint,
    Codec,
    Failure,
    Mode,
    ReaderStatus,
    Versions,
)
from penstock.wire import dispatcher, worker
from tests.openings import opening

KEPT = json.loads((Path(__file__).parent / "yesterday.json").read_text())

VERSIONS = Versions(2, "3.11", "0.1.0")
FAILURE = Failure("TransformError", ("map(f)", 7, "ValueError: no", None, "Traceback"))
PROFILE = WorkerProfile("h", ("grpc", "local"), ("COLOCATED",))
RUNS = RangeSet(((3, 5), (8, 9)))
TAKEN = AckedSet(2, RUNS)
STATE = Checkpoint(40, (4, 0), '{"a": 1}')
SPLITS = (Split(0, 10), Split(10, 12, ("a.txt", "ü.txt")), Split(12, 12))

SIGNAL, ORDER = dispatcher.WORKER_CONTROL.request, dispatcher.WORKER_CONTROL.reply
BEAT, VIEW = dispatcher.READER_CONTROL.request, dispatcher.READER_CONTROL.reply
ASK = worker.READ.request

MESSAGES = {
    "register dataset": (
        dispatcher.REGISTER_DATASET.request,
        calls.RegisterDatasetRequest(b"graph", VERSIONS),
    ),
    "dataset registered": (
        dispatcher.REGISTER_DATASET.reply,
        calls.RegisterDatasetReply("d-1"),
    ),
    "register dataset with an id": (
        dispatcher.REGISTER_DATASET.request,
        calls.RegisterDatasetRequest(
            b"graph", VERSIONS, Registration("corpus", Codec.LZ4, b"spec")
        ),
    ),
    "find dataset": (dispatcher.FIND_DATASET.request, calls.FindDatasetRequest("corpus")),
    "dataset found": (
        dispatcher.FIND_DATASET.reply,
        RegisteredDataset("corpus", "d-1", Codec.LZ4, b"spec", b"outline"),
    ),
    "open request by an id": (
        dispatcher.OPEN_ITERATION.request,
        opening(
            VERSIONS, "d-1", Mode.OFF, None, 1, Codec.LZ4, dataset_id="corpus"
        ),
    ),
    "get definition": (
        dispatcher.GET_DEFINITION.request,
        calls.GetDefinitionRequest("d-1"),
    ),
    "definition": (dispatcher.GET_DEFINITION.reply, calls.GetDefinitionReply(b"graph")),
    "drain": (dispatcher.DRAIN.request, calls.DrainRequest("w:1")),
    "drained": (dispatcher.DRAIN.reply, calls.DrainReply()),
    "status": (dispatcher.STATUS.request, calls.StatusRequest()),
    "stats": (dispatcher.STATUS.reply, calls.StatusReply(b"{}")),
    "open request": (
        dispatcher.OPEN_ITERATION.request,
        opening(VERSIONS, "d-1", Mode.DYNAMIC, "job", 3, Codec.AUTO, num_consumers=0,
        trainer="", target_workers="ANY", ordered=True, remainder="pad"),
    ),
    "open request of a private job": (
        dispatcher.OPEN_ITERATION.request,
        opening(VERSIONS, "d-1", Mode.OFF, None, 0, Codec.NONE),
    ),
    "open request of a saved job": (
        dispatcher.OPEN_ITERATION.request,
        opening(VERSIONS, "d-1", Mode.OFF, "job", 2, Codec.NONE, restore=b"{}"),
    ),
    "opened": (dispatcher.OPEN_ITERATION.reply, OpenIterationReply(9, "job", 1.0, 30.0)),
    "worker beat": (
        SIGNAL,
        WorkerHeartbeat(
            "w:1",
            2,
            33,
            {5: AttemptProgress(1, 50, TAKEN, STATE, True, FAILURE), 6: AttemptProgress(2, 0,
            AckedSet())}, frozenset({(4, 1), (5, 2)}),
            True,
            VERSIONS,
            b"{}",
        ),
    ),
    "worker beat with work": (
        SIGNAL,
        WorkerHeartbeat(
            "w:1", 2, 33,
            {5: AttemptProgress(1, 50, TAKEN, counts=ElementCounts(60, 10, 50, 4, 3, 2))},
        ),
    ),
    "worker beat with doubts": (
        SIGNAL,
        WorkerHeartbeat("w:1", 2, 33, {5: AttemptProgress(1, 50, TAKEN, in_doubt=6)}),
    ),
    "worker beat with a profile": (
        SIGNAL,
        WorkerHeartbeat("w:1", 2, 33, profile=PROFILE),
    ),
    "reader beat of a process with a worker": (
        BEAT,
        ReaderHeartbeat(
            9, "t", 0, 4, in_process={"w:1": 2}, transports={"local": 1}
        ),
    ),
    "reader beat that knows tasks": (
        BEAT,
        ReaderHeartbeat(9, "t", 1, 4, {5: TaskReport(1, TAKEN, RUNS)}, tasks_as_of=33, unacked=3),
    ),
    "view of changes": (
        VIEW,
        ReaderView(
            35, "t", 1, ReaderStatus.LIVE, 4, {5: TaskView(2, "w:1")},
            changes_since=33, over=(6, 7), life=1_800_000_000_000_000, deferred=True,
        ),
    ),
    "view of a worker with a profile": (
        VIEW,
        ReaderView(
            33, "t", 1, ReaderStatus.LIVE, 4, {5: TaskView(1, "w:1", profile=PROFILE)}
        ),
    ),
    "split request": (SIGNAL, SplitRequest("w:1", 2, 5, 1, 0, 17)),
    "assignment": (
        ORDER,
        Assignment(
            33,
            2,
            (
                TaskAssignment(
                    5, 1, 2, 9, "d-1", 2**64 - 1, Codec.LZ4, STATE,
                    (SplitLog(4, SPLITS), SplitLog()), TAKEN, {1: RUNS, 2: RangeSet()},
                ),
            ),
            {1: ReaderStatus.LIVE, 2: ReaderStatus.LEFT, 3: ReaderStatus.EXPIRED},
            0.5,
        ),
    ),
    "assignment to drain": (ORDER, Assignment(33, 2, (), {}, 0.5, drain=True)),
    "split grant": (ORDER, SplitGrant(5, 1, 0, 17, SPLITS)),
    "worker refused": (ORDER, WorkerRefused(FAILURE)),
    "reader beat": (BEAT, ReaderHeartbeat(9, "t", 0, 4, {5: TaskReport(1, TAKEN, RUNS)},
    leaving=True)), "reader beat at a cut": (BEAT, ReaderHeartbeat(9, "t", 0, 4, {}, SaveBarrier(2,
    "c", 60.0), consumed=7)), "first reader beat": (BEAT, ReaderHeartbeat(9, "t", None, 0)),
    "reader beat of a process": (
        BEAT,
        ReaderHeartbeat(9, "t", None, 0, process=ReaderProcess("a", 7, 0)),
    ),
    "view": (
        VIEW,
        ReaderView(
            33, "t", 1, ReaderStatus.LIVE, 4,
            {5: TaskView(1, "w:1"), 6: TaskView(2, None, FAILURE)},
            True, waiting_for="a worker",
        ),
    ),
    "view with verdicts": (
        VIEW,
        ReaderView(
            33, "t", 1, ReaderStatus.LIVE, 4, {},
            save_results=(SaveResult(2, "c", b"{}"), SaveResult(3, "", b"", FAILURE)), next_save=4,
        ),
    ),
    "open": (ASK, Subscribe(1, 5, 1, 2, TAKEN, RUNS, 1 << 40)),
    "ack": (ASK, Ack(RUNS, 4096)),
}  # fmt: skip

REPLIES = {
    "frame": (FrameHeader(5, 1, 2, 3, 6, 2, RUNS, b"layout", Codec.LZ4, 100), b"payload"),
    "recall": (Recall(5, 1), b""),
    "end": (StreamEnd(5, 1), b""),
    "failed end": (StreamEnd(5, 1, FAILURE), b""),
}


class Pair(NamedTuple):
    left: object
    right: object


ELEMENTS = {
    "scalars": [np.int64(1), np.int64(2)],
    "arrays": [np.arange(6, dtype=">i2").reshape(2, 3)] * 2,
    "ragged arrays": [np.ones((2, k), np.float32) for k in range(3)],
    "text": ["a", "", "ü\udc80"],
    "bytes": [b"\x00\xff", b""],
    "arrays of text": [
        np.array([["a", "b"]], object),
        np.array([[b"c"]], object),
        np.empty((0, 2), object),
    ],
    "structures": list(np.array([(1, 2.5)], [("a", "i1"), ("b", "<f8")])),
    "nests": [{"b": (np.int8(1), Pair("x", b"y")), "a": (), "\udc80": {}}],
}


def kept(name, data):
    assert name in KEPT, f'add to yesterday.json:  "{name}": "{data.hex()}"'
    return bytes.fromhex(KEPT[name])


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_of_yesterday_is_understood(name):
    form, value = MESSAGES[name]

    assert form.decode(kept(name, form.encode(value))) == value


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_of_yesterday_is_understood(name):
    header, payload = REPLIES[name]

    reply = worker.decode_reply(kept(name, worker.encode_reply(header, payload)))

    assert reply == (header, payload)


@pytest.mark.parametrize("name", ELEMENTS)
def test_elements_of_yesterday_are_understood(name):
    builder = FrameBuilder()
    builder.add(ELEMENTS[name])
    layout, elements = builder.take()
    payload = bytearray(layout.nbytes)
    layout.write(elements, memoryview(payload))
    old = kept(f"layout of {name}", layout.to_bytes()), kept(f"payload of {name}", payload)

    back = unpack(*old)

    assert len(back) == len(ELEMENTS[name])
    assert all(map(equal, back, ELEMENTS[name]))


def equal(one, other):
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.tolist() == other.tolist()
    return one == other


def test_what_is_kept_is_all_looked_at():
    names = {*MESSAGES, *REPLIES}
    names |= {f"{part} of {name}" for part in ("layout", "payload") for name in ELEMENTS}

    assert set(KEPT) == names
