"""Each input as bytes, and back: what an engine changes that knows of bytes alone.

A first byte says which of a few kinds it is, where there are kinds; what has parts begins with the
length of the first. What cannot be taken apart is no input: None.
"""

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from fuzz import outside, targets

CORPUS = Path(__file__).parent / "corpus"
"""For each target, inputs that reach different code: the fewest that reach all that was reached."""


@dataclass(frozen=True)
class Form:
    """*seeds* makes valid inputs; *given* makes of bytes what the target reads."""

    seeds: Callable[[], Iterator[bytes]]
    given: Callable[[bytes], Any]


def kept(name):
    """Return the kept corpus of the target of this *name*."""
    file = corpus_file(name)
    return msgspec.msgpack.decode(file.read_bytes(), type=list[bytes]) if file.exists() else []


def keep(name, inputs):
    """Make *inputs* the kept corpus of the target of this *name*."""
    CORPUS.mkdir(exist_ok=True)
    corpus_file(name).write_bytes(msgspec.msgpack.encode(sorted(inputs, key=lambda i: (len(i), i))))


def corpus_file(name):
    return CORPUS / f"{name.lower().replace(' ', '-').replace(chr(39), '')}.msgpack"


def _kind(data, kinds):
    return (data[0] % kinds, data[1:]) if data else (0, data)


def _joined(first, rest):
    return struct.pack("<H", len(first)) + first + rest


def _parts(data):
    if len(data) < 2:
        return b"", b""
    length = struct.unpack_from("<H", data)[0]
    return data[2 : 2 + length], data[2 + length :]


def _plain(samples):
    return Form(lambda: iter(samples()), lambda data: data)


def _of_kinds(pairs, kinds):
    """Pairs of a kind's number and bytes; *kinds* are what stands for the numbers."""
    return Form(
        lambda: (bytes([number]) + data for number, data in pairs()),
        lambda data: (lambda number, rest: (kinds()[number], rest))(*_kind(data, len(kinds()))),
    )


def _json(text):
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


@cache
def _forms():
    return targets.FORMS + [form for form, _ in targets.kept_messages()]


def _messages():
    of_forms = len(targets.FORMS)
    return ((of_forms + i, data) for i, (_, data) in enumerate(targets.kept_messages()))


def _layouts():
    return (_joined(layout, payload) for layout, payload, _ in targets.FRAMES)


@cache
def _tables():
    return sorted({table for table, _, _ in targets.journal()[2]})


def _rows():
    rows, live, lines = targets.journal()
    tables = _tables()
    yield from (bytes([0]) + row for row in rows)
    yield bytes([1]) + live
    for table, key, body in lines[:: max(1, len(lines) // 200)]:
        yield bytes([2 + tables.index(table)]) + _joined(key, body)


def _row(data):
    (rows, _live, _lines), tables = targets.journal(), _tables()
    number, rest = _kind(data, 2 + len(tables))
    if number == 0:
        return "facts", [*rows, rest]
    return ("live", rest) if number == 1 else (tables[number - 2], _parts(rest))


def _states():
    return ((number, json.dumps(state).encode()) for number, state in targets.states())


def _state(data):
    number, rest = _kind(data, len(targets.PIPELINES))
    state = _json(rest)
    return (number, state) if isinstance(state, dict) else None


def _saved(data):
    state = _json(data)
    return state if isinstance(state, dict) else None


def _places():
    for place in outside.PLACES:
        yield b"\0".join(f"{name}={text}".encode() for name, text in place.items())


def _place(data):
    pairs = (one.partition("=") for one in data.decode("utf-8", "surrogateescape").split("\0"))
    return {name: text for name, equals, text in pairs if name and equals}


def _said():
    whole = [
        [bytes(one) for one in samples] for samples in (outside.FROM_READER, outside.FROM_WORKER)
    ]
    for number, samples in enumerate(whole):
        yield from ((number, one) for one in samples)
        yield number, b"".join(samples)


def _caches():
    return ((number, data) for number, (_, _, data) in enumerate(outside.CACHES))


FORMS = {
    "frames": _plain(lambda: targets.MESSAGES),
    "layouts": Form(_layouts, _parts),
    "messages": _of_kinds(_messages, _forms),
    "failures": _plain(lambda: targets.FAILURES),
    "journal rows": Form(_rows, _row),
    "local states": Form(lambda: (bytes([n]) + text for n, text in _states()), _state),
    "job states": _plain(lambda: targets.JOB_TEXTS),
    "saved states": Form(lambda: iter([json.dumps(targets.SAVED).encode()]), _saved),
    "definitions": _plain(lambda: targets.DEFINITIONS),
    "TFRecord files": _of_kinds(
        lambda: [*((0, one) for one in outside.RECORDS), *((1, one) for one in outside.PACKED)],
        lambda: [None, "ZLIB"],
    ),
    "CSV files": _plain(lambda: outside.TABLES),
    "text files": _plain(lambda: outside.TABLES),
    "cache files": _of_kinds(_caches, lambda: range(len(outside.CACHES))),
    "tokens": _plain(lambda: outside.TOKENS + outside.FORGED),
    "launchers' variables": Form(_places, _place),
    "the socket within a host": _of_kinds(_said, lambda: [outside.FromReader, outside.FromWorker]),
    "TensorFlow's clients": _of_kinds(
        lambda: enumerate(outside.TF_BYTES), lambda: range(len(outside.TF_FORMS))
    ),
    "HTTP requests": _plain(lambda: outside.REQUESTS),
}
"""By the name of the target."""
