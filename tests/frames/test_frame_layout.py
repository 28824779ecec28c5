"""Layouts of frames: equal ones, and those that no frame has."""

import subprocess
import sys
import tracemalloc
from collections import namedtuple

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ElementTooLarge, VersionMismatch
from penstock.frames.frame import FrameBuilder, unpack
from tests.frames.nests import nest_kinds
from tests.frames.packing import Point, check, pack, there_and_back


def test_equal_frames_have_equal_layouts_though_their_texts_differ_in_length():
    frames = [pack([("a" * k, np.arange(k + m)) for k in range(1, 4)]) for m in range(2)]

    assert frames[0][0][0] == frames[1][0][0]


def test_named_tuples_of_one_name_and_fields_get_one_type():
    one, other = (there_and_back([Point(np.int8(k), "x")])[0] for k in range(2))

    assert type(one) is type(other)
    assert (one.x, other.x, one._fields) == (0, 1, ("x", "y"))
    assert one == Point(np.int8(0), "x")


def test_named_tuples_with_renamed_fields_travel():
    odd = namedtuple("class_", ["a", "def", "a"], rename=True)  # noqa: PYI024

    check([odd(np.int8(1), "x", b"y")])


@given(
    nest_kinds.flatmap(lambda kind: st.lists(kind, min_size=1, max_size=3)),
    st.data(),
)
def test_damaged_frames_are_refused_or_read_but_never_crash(block, data):
    layout, payload = pack(block)[0]
    cut = data.draw(st.integers(0, len(payload)))
    at = data.draw(st.integers(0, len(layout) - 1))
    damaged = layout[:at] + bytes([data.draw(st.integers(0, 255))]) + layout[at + 1 :]

    for each in ((layout, payload[:cut]), (damaged, payload), (layout[:at], payload)):
        try:
            unpack(*each)
        except VersionMismatch as exc:
            assert "not laid out" in str(exc)


def test_frames_are_packed_without_grpc():
    program = (
        "import sys, penstock.frames.frame; "
        "assert not {'grpc', 'google.protobuf'} & set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def layout(count, nest, *kinds):
    return msgspec.msgpack.encode([count, nest, list(kinds)])


WRONG = {
    "a key of no bytes": layout(1, ["dict", [None], ["key"]], ["text", "str"]),
    "a key that is no text": layout(1, ["dict", [None], [b"\xff"]], ["text", "str"]),
    "two keys alike": layout(1, ["dict", [None, None], [b"a", b"a"]], *[["text", "str"]] * 2),
    "a field that is no text": layout(1, ["tuple", [None], "Point", [7]], ["text", "str"]),
    "more fields than parts": layout(1, ["tuple", [None], "P", ["x", "y"]], ["text", "str"]),
    "more leaves than kinds": layout(1, ["tuple", [None, None]], ["text", "str"]),
    "more kinds than leaves": layout(1, None, ["text", "str"], ["text", "str"]),
    "no kind at all": layout(3, None),
    "a shape of text": layout(1, None, ["fixed", "<i8", ["a"]]),
    "a negative shape": layout(1, None, ["fixed", "<i8", [-1]]),
    "a shape of truth": layout(1, None, ["fixed", "<i8", [True]]),
    "a shape without end": layout(1, None, ["fixed", "<i8", [1 << 62, 1 << 62]]),
    "a huge empty shape": layout(1, None, ["fixed", "<i8", [0, 1 << 63]]),
    "negative dimensions": layout(1, None, ["ragged", "<i8", -1]),
    "no dimensions": layout(1, None, ["text arrays", 0]),
    "many dimensions": layout(1, None, ["ragged", "<i8", 1 << 40]),
    "no elements": layout(0, None, ["text", "str"]),
    "fewer than none": layout(-1, None, ["text", "str"]),
    "elements without end": layout(10**12, ["tuple", []]),
    "empty arrays without end": layout(10**12, None, ["fixed", "<i8", [0]]),
    "empty elements by the million": layout(8192, ["tuple", [["tuple", []]] * 100]),
    "a dtype without end": layout(1, None, ["scalars", "|S99999999999"]),
    "texts of nothing": layout(1, None, ["fixed", "<U0", [10**12]]),
    "a dtype of objects": layout(1, None, ["scalars", "|O8"]),
    "arrays in a dtype": layout(1, None, ["scalars", "(1000,1000)i4"]),
    "fields that nest": layout(1, None, ["scalars", "[" * 50_000]),
    "a sum of fields": layout(1, None, ["scalars", "[" + "-" * 50_000]),
    "a sum without end": layout(1, None, ["scalars", "[" + "1+" * 30_000]),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_layout_that_no_frame_has_is_refused_and_takes_no_memory(wrong):
    tracemalloc.start()
    try:
        with pytest.raises(VersionMismatch, match="not laid out"):
            unpack(wrong, bytes(100))
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_a_layout_nested_without_end_is_refused():
    deep = b"\x93\x01" + b"\x92\xa5tuple\x91" * 100_000 + b"\xc0\x90"

    with pytest.raises(VersionMismatch, match="not laid out"):
        unpack(deep, b"")


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        (["ragged", "<i8", 1], [5, -5]),
        (["ragged", "<i8", 2], [1 << 40, 1 << 40, 1 << 62, 1 << 62]),
        (["ragged", "<i8", 1], [(1 << 63) - 1, 1]),
        (["text arrays", 1], [1 << 40, -(1 << 40)]),
        (["text", "bytes"], [1, -(1 << 63)]),
        (["text", "str"], [-1, 0]),
    ],
)
def test_lengths_that_a_payload_cannot_hold_are_refused(kind, numbers):
    payload = np.array(numbers, "<i8").tobytes() + bytes(1000)

    with pytest.raises(VersionMismatch, match="not laid out"):
        unpack(layout(2, None, kind), payload)


@pytest.mark.parametrize(
    "element", [(), ((),) * 20, {"a": np.zeros(0), "b": ()}], ids=["()", "20", "dict"]
)
def test_elements_without_bytes_travel_in_frames_of_a_bounded_size(element):
    block = [element] * 20_000
    frames = pack(block, limit_bytes=1 << 40, limit_count=1 << 40)

    sizes = [len(unpack(*frame)) for frame in frames]
    assert sum(sizes) == len(block)
    assert max(sizes) <= 8192


def test_a_structure_that_no_header_carries_is_refused():
    builder = FrameBuilder()
    builder.add([{f"a column with a long name, number {i}": np.int8(1) for i in range(40_000)}])

    with pytest.raises(ElementTooLarge, match="put like parts into arrays"):
        builder.take()[0].to_bytes()
