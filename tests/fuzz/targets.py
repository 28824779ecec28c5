"""What is fuzzed: valid samples of each kind of input, and what reads them."""

import copy
import importlib.util
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np

from fuzz import outside
from fuzz.mutations import damaged, repacked, twisted
from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.frames.compression import compress
from penstock.frames.frame import FrameBuilder, unpack
from penstock.graph.run import LocalRun, SaveWanted
from penstock.graph.traversal import structure_of
from penstock.protocol.data import FrameHeader
from penstock.protocol.definition import Definition
from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import Codec, Failure
from penstock.reader.delivery import iterator_state
from penstock.reader.session.payload import FramePayload
from penstock.wire import dispatcher, worker
from penstock.wire.status import Code, Status
from penstock_dispatcher.core import job_state
from penstock_dispatcher.core.split_provider import SplitProvider
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.journal import snapshot
from penstock_dispatcher.journal.store import Store


@dataclass(frozen=True)
class Target:
    """*make* gives an input from chance alone, *read* reads it: with an error of ours, or none."""

    name: str
    share: int
    make: Callable[[random.Random], Any]
    read: Callable[[Any], None]


def _module(path):
    """Load a module of tests: what it makes is valid."""
    file = Path(__file__).parent.parent / path
    spec = importlib.util.spec_from_file_location(f"fuzz_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- frames and layouts ---


def _elements():
    row = {"image": np.zeros((3, 4), np.uint8), "label": np.int64(3), "name": "ü", "raw": b"\xff"}
    ragged = [
        (np.arange(i, dtype=np.float32), np.array([["a"] * i, ["b"] * i], object)) for i in range(4)
    ]
    pair = np.array([(1, 2.5)], [("a", "<i1"), ("b", "<f8")])
    return [
        [row] * 5,
        ragged,
        [pair[0], pair[0]],
        [((), {"a": np.float64(1)}, ("x",))] * 3,
        [np.arange(6.0).reshape(2, 3)] * 4,
        [np.zeros((i, 2)) for i in range(3)],
        [f"text number {i}" for i in range(20)],
        [()] * 7,
    ]


def _frames():
    for elements in _elements():
        builder = FrameBuilder()
        assert builder.add(elements) == len(elements)
        layout, columns = builder.take()
        payload = bytearray(layout.nbytes)
        layout.write(columns, memoryview(payload))
        yield layout.to_bytes(), bytes(payload), len(elements)


FRAMES = list(_frames())


def _message(layout, payload, count, codec, together=1):
    stored = compress(memoryview(payload), codec)
    how = Codec.NONE if stored is None else codec
    part = RangeSet(((5, 5 + count),))
    header = FrameHeader(1, 1, 1, 5, count, 2, part, layout, how, len(payload))
    body = memoryview(payload if stored is None else stored)
    return worker.encode_frames([(header, body)] * together)


BIG = bytes(range(256)) * 40
MESSAGES = [_message(*frame, Codec.NONE) for frame in FRAMES]
MESSAGES += [
    _message(layout, payload + BIG, count, codec)
    for layout, payload, count in FRAMES
    for codec in (Codec.LZ4, Codec.ZSTD)
]

MESSAGES += [_message(*frame, Codec.NONE, together=3) for frame in FRAMES]


def make_message(rng):
    return damaged(rng.choice(MESSAGES), rng, rng.choice(MESSAGES))


def read_message(data):
    for reply, payload in worker.decode_replies(data):
        if isinstance(reply, FrameHeader):
            load = FramePayload(reply, payload, writable=False)
            for start, stop in reply.ranges.spans:
                assert len(load.elements(start, stop)) == stop - start


def make_layout(rng):
    (layout, payload, _), (other, _, _) = rng.choice(FRAMES), rng.choice(FRAMES)
    how = rng.choice([damaged, repacked, repacked])
    if rng.random() < 0.2:
        payload = damaged(payload, rng, rng.choice(FRAMES)[1])
    return how(layout, rng, other), payload


def read_layout(given):
    for element in unpack(*given):
        assert not isinstance(element, StopIteration)


# --- messages ---

FORMS = [
    form
    for method in (
        dispatcher.REGISTER_DATASET,
        dispatcher.FIND_DATASET,
        dispatcher.GET_DEFINITION,
        dispatcher.OPEN_ITERATION,
        dispatcher.DRAIN,
        dispatcher.STATUS,
        dispatcher.WORKER_CONTROL,
        dispatcher.READER_CONTROL,
    )
    for form in (method.request, method.reply)
] + [worker.READ.request]


@cache
def kept_messages():
    kept = _module("wire/test_codec_yesterday.py").MESSAGES
    return [(form, form.encode(value)) for form, value in kept.values()]


def make_control(rng):
    kept = kept_messages()
    form, data = rng.choice(kept)
    return form if rng.random() < 0.9 else rng.choice(FORMS), damaged(
        data, rng, rng.choice(kept)[1]
    )


def read_control(given):
    form, data = given
    form.decode(data)


FAILURES = [
    msgspec.msgpack.encode(Failure(kind, fields))
    for kind, fields in [
        ("TransformError", ("map(f)", 7, "ValueError: no", None, "Traceback")),
        ("StateError", ("it does not fit",)),
        ("MissingFile", ("a", "b")),
        ("FromAnotherVersion", (1, None, "x")),
    ]
]


def make_failure(rng):
    how = rng.choice([damaged, repacked])
    return how(rng.choice(FAILURES), rng, rng.choice(FAILURES))


def read_failure(data):
    str(Status(Code.INTERNAL, "words", (("penstock-error-bin", data),)).error("a:1", "/path"))


# --- the journal ---


@cache
def journal():
    world, rows = _module("dispatcher/journal/random_facts.py").RandomFacts(5), []
    for _ in range(60):
        rows.append(snapshot.encode_facts(map(snapshot.encode_fact, world.step())))
    state = world.state
    lines = [
        (table, snapshot.encode_key(key), snapshot.encode_line(line))
        for table in snapshot.LINES
        for key, line in getattr(state, table).items()
    ]
    return [row for row in rows if len(row) > 1], snapshot.encode_live(state), lines


def make_row(rng):
    rows, live, lines = journal()
    how, what = rng.choice([damaged, repacked]), rng.randrange(3)
    if what == 0:
        row = rng.randrange(len(rows))
        return "facts", [*rows[:row], how(rows[row], rng, rng.choice(rows))]
    if what == 1:
        return "live", how(live, rng, rng.choice(rows))
    table, key, body = rng.choice(lines)
    return table, (how(key, rng, body), body) if rng.random() < 0.3 else (key, how(body, rng, key))


def read_row(given):
    """Read as the store does, behind its checksums."""
    table, what = given
    store = Store.__new__(Store)
    store.file = "journal.db"
    with store._damage_told():
        if table == "facts":
            state, changes = DispatcherState(), SimpleNamespace(note=lambda fact: None)
            for row in what:
                facts = snapshot.decode_facts(row)
                Store._replay(state, changes, state.length + len(facts), row)
        elif table == "live":
            snapshot.decode_live(what)
        else:
            snapshot.put_line(DispatcherState(), table, *what)


# --- states ---


def add(x, y=1):
    return x + y


def wide(x):
    return np.arange(int(x) % 3)


PIPELINES = [
    Dataset.range(100).shuffle(10).batch(4),
    Dataset.range(50).map(add).filter(lambda x: x % 2 == 0).take(20).skip(3).enumerate(),
    Dataset.range(20).repeat(3).window(4).flat_map(lambda w: w.batch(4)),
    Dataset.range(20).interleave(lambda x: Dataset.range(x), cycle_length=3),
    Dataset.zip((Dataset.range(9), Dataset.range(9).concatenate(Dataset.range(3)))).cache(),
    Dataset.range(60).map(wide).rebatch(4).prefetch(2),
    Dataset.range(60).map(wide).padded_batch(3).take_while(lambda x: True),
    Dataset.range(30).scan(np.int64(0), lambda s, x: (s + x, s)).unique(),
    Dataset.sample_from_datasets([Dataset.range(30), Dataset.range(30).map(add)], [0.5, 0.5]),
    Dataset.range(40).group_by_window(lambda x: x % 3, lambda k, w: w.batch(4), window_size=4),
    Dataset.random(seed=3).take(30).shard(3, 1),
    Dataset.counter(5).take(40).ignore_errors().assert_cardinality(40),
    Dataset.range(30).map(add, num_parallel_calls=2),
    Dataset.range(60).map(wide).pack(5, None, buffer=3),
    Dataset.range(60).map(wide).pack(5, None, "first_fit_decreasing", buffer=6),
    Dataset.range(40).balance(3, lambda x: x % 7, window=9),
    Dataset.mixture({"a": Dataset.range(9).map(add), "b": Dataset.range(30)}, {"a": 1, "b": 2}),
    Dataset.mixture(
        {"a": Dataset.range(60).filter(lambda x: x % 2 == 0), "b": Dataset.range(9)},
        {"a": 1, "b": 1},
        turns_per_task=16,
    ),
    Dataset.mixture(
        {"a": Dataset.range(60).shuffle(5), "b": Dataset.range(9)}, {"a": 1, "b": 1}, stop="drop"
    ),
    Dataset.mixture(
        {"a": Dataset.range(60), "b": Dataset.range(9)},
        {"a": 1, "b": 1},
        unit="tokens",
        length=lambda x: x % 4,
    ),
]


@cache
def states():
    return list(_states())


def _states():
    for number, pipeline in enumerate(PIPELINES):
        with pipeline.iterator() as it:
            yield number, it.state()
            for _ in range(7):
                next(it)
            yield number, json.loads(json.dumps(it.state()))


def make_state(rng):
    (number, state), (_, other) = rng.choice(states()), rng.choice(states())
    state = copy.deepcopy(state)
    if rng.random() < 0.8:
        state["at"] = twisted(state["at"], rng, other["at"])
    else:
        state = twisted(state, rng, other)
    return number, state


def read_state(given):
    number, state = given
    reading = LocalRun(PIPELINES[number]._node, structure_of(PIPELINES[number]._node), state)
    reading.start()
    try:
        for _ in range(3):
            if not reading.advance(4).size:
                break
            reading.state(SaveWanted())
    finally:
        reading.close()


JOB_STATE = {
    "v": 3, "kind": "job", "fingerprint": "f", "mode": "dynamic", "job": "j", "repetition": 3,
    "seed": 4, "iteration_seed": 5, "next_task": 2, "finished": False,
    "providers": [{"pass_number": 0, "offset": 700}],
    "tasks": [{
        "index": 0, "checkpoint": {"number": 256, "positions": [3], "state": {"a": [1]}},
        "logs": [{"start": 3, "splits": [[500, 600], [620, 700], [7, 7]]}], "ended": [1],
        "acked": {"floor": 300, "more": [[310, 320]]}, "place": 9,
    }],
    "account": {"produced": 400, "in_doubt": [[[1, 2], 3, 4.5]], "letters": ["x"]},
    "rounds": {"round": 17, "turn": 1, "consumers": 8, "log": [0]}, "shards": 2, "ordered": True,
    "stride": {"consumers": 2, "tasks": 3, "elements": 900},
}  # fmt: skip
OF_FILES = {
    **JOB_STATE, "providers": [{"offset": 1, "files": {
        "count": 2, "digest": "d", "ranges": [{"first": "a", "count": 2, "digest": "e"}],
    }}],
}  # fmt: skip
JOB_TEXTS = [json.dumps(state).encode() for state in (JOB_STATE, OF_FILES)]


def make_job_state(rng):
    if rng.random() < 0.4:
        return damaged(rng.choice(JOB_TEXTS), rng, JOB_TEXTS[0])
    try:
        return msgspec.json.encode(twisted(rng.choice([JOB_STATE, OF_FILES]), rng, JOB_STATE))
    except (RecursionError, UnicodeEncodeError):
        return JOB_TEXTS[0][:-1] + b"[" * 100_000


def read_job_state(data):
    state = job_state.decode(data)
    job_state.digest(data)
    job_state.sums(state.account)
    for task in state.tasks:
        job_state.checkpoint(task.checkpoint)
        job_state.acked(task.acked)
        for saved in task.logs:
            job_state.log(saved, 1, SplitProvider(700, 7, 1))


SAVED = {"v": 2, "pipeline": "0batch 1distribute", "passes": {"0": 2}, "jobs": {"0.0": [{"passes": [2], "state": JOB_STATE}]}}  # fmt: skip  # noqa: E501


def make_saved(rng):
    return twisted(copy.deepcopy(SAVED), rng, JOB_STATE)


def read_saved(state):
    for part in iterator_state.of(state, ["0.0"], ["0"]).parts:
        part.job.plain()
        part.job.data  # noqa: B018


DEFINITIONS = [encode(p._node).to_bytes() for p in PIPELINES[:4]]


def make_definition(rng):
    how = rng.choice([damaged, repacked])
    return how(rng.choice(DEFINITIONS), rng, rng.choice(DEFINITIONS))


def read_definition(data):
    made = Definition.from_bytes(data)
    str(made.fingerprint)


TARGETS = [
    Target("frames", 6, make_message, read_message),
    Target("layouts", 6, make_layout, read_layout),
    Target("messages", 5, make_control, read_control),
    Target("failures", 1, make_failure, read_failure),
    Target("journal rows", 3, make_row, read_row),
    Target("local states", 4, make_state, read_state),
    Target("job states", 2, make_job_state, read_job_state),
    Target("saved states", 1, make_saved, read_saved),
    Target("definitions", 2, make_definition, read_definition),
    Target("TFRecord files", 2, outside.make_records, outside.read_records),
    Target("CSV files", 1, outside.make_csv, outside.read_csv),
    Target("text files", 1, outside.make_csv, outside.read_lines),
    Target("cache files", 1, outside.make_cache, outside.read_cache),
    Target("tokens", 2, outside.make_token, outside.read_token),
    Target("launchers' variables", 3, outside.make_place, outside.read_place),
    Target("the socket within a host", 2, outside.make_said, outside.read_said),
    Target("TensorFlow's clients", 2, outside.make_tensorflow, outside.read_tensorflow),
    Target("HTTP requests", 1, outside.make_request, outside.read_request),
]
