import gc
import subprocess
import sys
import tracemalloc
import weakref
from collections import namedtuple
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from penstock.errors import ElementError, ElementTooLarge, VersionMismatch
from penstock.wire.frame import FrameBuilder, unpack, unpack_with_root
from penstock.wire.parts import BOUNDARY


class Point(NamedTuple):
    x: object
    y: object


def pack(block, **limits):
    """Return *block* as frames: (layout, payload) pairs."""
    builder, frames = FrameBuilder(**limits), []
    while block:
        block = block[builder.add(block) :]
        if builder.ready() or not block:
            layout, elements = builder.take()
            payload = bytearray(layout.nbytes + 7)
            layout.write(elements, memoryview(payload)[: layout.nbytes])
            assert payload[layout.nbytes :] == bytes(7)
            frames.append((layout.to_bytes(), bytes(payload[: layout.nbytes])))
    return frames


def there_and_back(block, **limits):
    return [element for frame in pack(block, **limits) for element in unpack(*frame)]


def same(one, other):
    """Say whether two elements are equal in every respect but the address of a named tuple."""
    if isinstance(one, tuple):
        fields = [getattr(value, "_fields", None) for value in (one, other)]
        names = [type(value).__name__ for value in (one, other)]
        alike = fields[0] == fields[1] and names[0] == names[1] and len(one) == len(other)
        return alike and all(map(same, one, other))
    if isinstance(one, dict):
        return (
            type(other) is dict
            and list(one) == list(other)
            and all(map(same, one.values(), other.values()))
        )
    if type(one) is not type(other):
        return False
    if isinstance(one, (np.ndarray, np.generic)):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        if one.dtype == object:
            return one.tolist() == other.tolist()
        # Bit by bit, but for the gaps between fields and in long doubles.
        if one.dtype.kind == "V" or one.dtype.char in "gG":
            return str(one) == str(other)
        return one.tobytes() == other.tobytes()
    return one == other


def check(block, **limits):
    back = there_and_back(block, **limits)
    assert len(back) == len(block)
    for one, other in zip(block, back, strict=True):
        assert same(one, other), (one, other)


# --- any nest ---

plain_dtypes = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(),
    hnp.complex_number_dtypes(),
    hnp.datetime64_dtypes(),
    hnp.timedelta64_dtypes(),
)
dtypes = plain_dtypes | hnp.array_dtypes(plain_dtypes, max_size=3)
any_text = st.text(st.characters(), max_size=9)  # surrogates, too
shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)


def text_arrays(kind):
    return st.builds(
        lambda shape, texts: np.array([*texts, None], object)[:-1][: np.prod(shape)].reshape(
            shape if np.prod(shape) <= len(texts) else (len(texts),)
        ),
        shapes,
        st.lists(kind, min_size=1, max_size=9),
    )


leaf_kinds = st.one_of(
    dtypes.map(lambda d: hnp.arrays(d, 1).map(lambda array: array[0])),
    dtypes.flatmap(lambda d: shapes.map(lambda shape: hnp.arrays(d, shape))),
    st.tuples(dtypes, st.integers(1, 3)).map(
        lambda pair: hnp.arrays(
            pair[0], hnp.array_shapes(min_dims=pair[1], max_dims=pair[1], min_side=0, max_side=4)
        )
    ),
    st.just(any_text),
    st.just(st.binary(max_size=9)),
    st.just(text_arrays(any_text)),
    st.just(text_arrays(st.binary(max_size=9))),
)
nest_kinds = st.recursive(
    leaf_kinds,
    lambda kinds: st.one_of(
        st.lists(kinds, max_size=3).map(lambda parts: st.tuples(*parts)),
        st.tuples(kinds, kinds).map(lambda parts: st.builds(Point, *parts)),
        st.dictionaries(st.text(st.characters(), max_size=3), kinds, max_size=6).map(
            st.fixed_dictionaries
        ),
    ),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(nest_kinds.flatmap(lambda kind: st.lists(kind, min_size=1, max_size=5)))
def test_elements_of_one_structure_come_back_as_they_were(block):
    check(block)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(nest_kinds.flatmap(lambda kind: st.lists(kind, min_size=1, max_size=3)), max_size=3),
    st.integers(1, 200),
    st.integers(1, 4),
)
def test_elements_of_any_structure_come_back_as_they_were_under_any_limit(blocks, nbytes, count):
    check([e for block in blocks for e in block], limit_bytes=nbytes, limit_count=count)


@settings(max_examples=100, deadline=None)
@given(nest_kinds.flatmap(lambda kind: st.lists(kind, min_size=1, max_size=4)))
def test_writable_elements_are_equal_and_share_nothing_with_the_payload(block):
    for layout, payload in pack(block):
        before = bytes(payload)

        for element in unpack(layout, payload, writable=True):
            for leaf in _arrays(element):
                assert leaf.flags.writeable
                leaf.fill(leaf.flat[0]) if leaf.size else None

        assert payload == before


def _arrays(element):
    if isinstance(element, (tuple, dict)):
        parts = element.values() if isinstance(element, dict) else element
        return [array for part in parts for array in _arrays(part)]
    return [element] if isinstance(element, np.ndarray) else []


@pytest.mark.parametrize(
    "dtype",
    [">i4", ">f8", "<f2", "?", "c8", "M8[ns]", "m8[D]", "V5", "g", "G", ">M8[s]"],
)
def test_a_dtype_travels_as_it_is(dtype):
    if dtype in "gG":  # not every bit of these counts
        array = (np.arange(12, dtype=dtype) / 7).reshape(3, 4)
    else:
        array = np.arange(12 * np.dtype(dtype).itemsize, dtype="u1").view(dtype).reshape(3, 4)

    check([array, array[:, ::2], array[::-1], array[:, 0:0]])
    check(list(array.reshape(-1)))


def test_structured_dtypes_keep_their_gaps_titles_and_nested_fields():
    dtype = np.dtype(
        [("a", "i1"), ("é", ">f8", (2,)), ("b", [("x", "S3"), ("y", "M8[s]")])], align=True
    )
    array = np.zeros(3, dtype)
    array["a"] = [1, 2, 3]
    array["b"]["x"] = [b"abc", b"d", b""]

    back = there_and_back([array, array[:2], array[::2]])

    assert [b.dtype for b in back] == [dtype] * 3
    check([array, array[:2], array[::2]])
    check([array[0], array[1]])


def test_lone_surrogates_and_every_byte_survive():
    check(["\ud83d\ude00", "\udc80", "\x00", "", "😀"])
    check([bytes(range(256)), b"", b"\x00"])
    check([{"\udcff": np.int8(1), "": np.int8(2)}])


def test_big_texts_are_written_one_by_one():
    check([b"x" * 5000, b"", "é".encode() * 4000])
    check(["x" * 5000, "", "é" * 4000])


def test_an_empty_array_of_text_shares_a_frame_with_others():
    block = [
        np.array(["a"], object),
        np.array([], object),
        np.array([b"b", b"c"], object),
    ]

    assert len(pack(block)) == 1
    check(block)


def test_arrays_that_are_not_contiguous_come_back_in_c_order():
    array = np.arange(24).reshape(2, 3, 4)
    block = [array.transpose(), array[::-1].transpose(), np.asfortranarray(array).transpose()]

    back = there_and_back(block)

    check(block)
    assert all(b.flags.c_contiguous for b in back)


# --- what travels together ---


def test_elements_of_another_structure_wait_for_the_next_frame():
    builder = FrameBuilder()
    block = [np.int64(0), np.int64(1), np.int32(2), np.int64(3)]

    assert builder.add(block) == 2
    assert builder.ready()
    assert builder.add(block[2:]) == 0
    layout, _ = builder.take()
    assert layout.count == 2
    assert builder.add(block[2:]) == 1


@pytest.mark.parametrize(
    "other",
    [
        (np.int64(0),),
        (np.int64(0), np.float32(0)),
        [np.int64(0), np.float64(0)],
        Point(np.int64(0), np.float64(0)),
        {"a": np.int64(0), "b": np.float64(0)},
        (np.int64(0), (np.float64(0),)),
        (np.zeros(1, np.int64), np.float64(0)),
        (np.int64(0), "0"),
        (np.int64(0), np.datetime64("2020-01-01")),
    ],
    ids=repr,
)
def test_two_structures_never_share_a_frame(other):
    builder = FrameBuilder()

    assert builder.add([(np.int64(0), np.float64(0)), other]) == 1


def test_the_order_of_keys_is_part_of_the_structure():
    builder = FrameBuilder()

    assert (
        builder.add([{"a": np.int8(0), "b": np.int8(0)}, {"b": np.int8(0), "a": np.int8(0)}]) == 1
    )


def test_datetimes_of_different_units_never_share_a_frame():
    assert FrameBuilder().add([np.datetime64(1, "s"), np.datetime64(1, "ms")]) == 1


def test_a_frame_is_ready_when_one_more_would_not_fit():
    builder = FrameBuilder(limit_bytes=100)
    array = np.zeros(30, np.uint8)

    assert builder.add([array, array]) == 2
    assert not builder.ready()
    assert builder.add([array]) == 1
    assert builder.ready()
    assert len(builder) == 3


def test_a_frame_is_ready_when_it_has_its_count():
    builder = FrameBuilder(limit_count=3)

    assert builder.add(list(np.arange(10))) == 3
    assert builder.ready()


def test_an_element_over_the_limit_travels_alone():
    frames = pack([np.zeros(10), np.zeros(1000), np.zeros(10)], limit_bytes=200)

    assert [len(unpack(*frame)) for frame in frames] == [1, 1, 1]


def test_an_element_that_no_message_can_carry_is_refused_behind_those_before_it():
    builder = FrameBuilder(limit_bytes=200, most_bytes=1000)
    block = [np.zeros(10), np.zeros(1000)]

    assert builder.add(block) == 1
    builder.take()
    with pytest.raises(ElementTooLarge, match="takes 8000 bytes.* 1000"):
        builder.add(block[1:])


def test_a_frame_of_texts_keeps_its_limit():
    texts = ["x" * (k % 50) for k in range(1000)]

    frames = pack(texts, limit_bytes=4096)

    assert all(len(payload) <= 4096 + 2 * BOUNDARY for _, payload in frames)
    assert len(frames) < 15


def test_elements_without_leaves_fill_frames_by_count():
    assert [len(unpack(*frame)) for frame in pack([()] * 10, limit_count=4)] == [4, 4, 2]


@pytest.mark.parametrize("wrong", [3, None, np.zeros(1, [("a", "O")])], ids=repr)
def test_what_cannot_travel_is_refused(wrong):
    builder = FrameBuilder()

    with pytest.raises(ElementError, match="travel"):
        builder.add([wrong])


def test_an_empty_builder_has_no_frame():
    with pytest.raises(ElementError, match="no elements"):
        FrameBuilder().take()


# --- memory ---


def test_every_leaf_starts_on_a_boundary():
    block = [
        (np.int8(k), np.full(3, k, np.int16), "abc", np.full(k, k, np.float64)) for k in range(3)
    ]
    ((layout, payload),) = pack(block)

    elements, root = unpack_with_root(layout, payload)

    start = root.__array_interface__["data"][0]
    assert (elements[0][1].__array_interface__["data"][0] - start) % BOUNDARY == 0
    assert (elements[1][3].__array_interface__["data"][0] - start) % BOUNDARY == 0


def test_arrays_are_read_only_views_of_the_payload():
    ((layout, payload),) = pack([np.arange(4), np.arange(4)])

    elements, root = unpack_with_root(layout, payload)

    assert all(np.shares_memory(element, root) for element in elements)
    assert all(element.base is root for element in elements)
    assert not any(element.flags.writeable for element in elements)


@pytest.mark.parametrize(
    "block",
    [
        [np.arange(4), np.arange(4)],
        [np.arange(4), np.arange(5)],
        [{"a": (np.zeros((2, 2)), np.int8(1))}] * 2,
        list(np.zeros(2, [("a", "i4"), ("b", "f8")])),
        [np.zeros(3, [("a", "i4")])] * 2,
    ],
    ids=["fixed", "ragged", "nest", "structured scalars", "structured arrays"],
)
def test_the_root_lives_exactly_as_long_as_any_view(block):
    ((layout, payload),) = pack(block)
    elements, root = unpack_with_root(layout, payload)
    gone = []
    watch = weakref.ref(root, gone.append)
    leaf = next(iter(_arrays(elements[1])), elements[1])
    view = leaf[1:].reshape(-1) if isinstance(leaf, np.ndarray) and leaf.ndim == 1 else leaf

    del elements, root, leaf
    gc.collect()
    assert watch() is not None
    del view
    assert gone


def test_memory_that_is_fresh_already_is_not_copied():
    ((layout, payload),) = pack([np.arange(4)])
    fresh = bytearray(payload)

    (element,) = unpack(layout, memoryview(fresh), writable=True)
    element[0] = 77

    assert unpack(layout, fresh)[0][0] == 77


@pytest.mark.parametrize(
    "block",
    [
        [np.zeros((100, 100, 60))],
        [np.zeros((100, 100, 10))] * 6,
        [np.zeros((100, 100, k)) for k in range(14, 18)],
        [np.zeros((100, 200, 60))[:, ::2]],
        [b"x" * 1_200_000] * 4,
    ],
    ids=["one", "stacked", "ragged", "strided", "bytes"],
)
def test_big_leaves_are_copied_once_straight_into_place(block):
    builder = FrameBuilder(limit_bytes=1 << 23)
    builder.add(block)
    layout, elements = builder.take()
    place = memoryview(bytearray(layout.nbytes))
    tracemalloc.start()

    layout.write(elements, place)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert layout.nbytes >= 4_800_000 > 48 * peak


def test_gaps_between_leaves_are_zeroed():
    builder = FrameBuilder()
    builder.add([(np.int8(1), "x", np.zeros(0), np.array(["y"], object))] * 3)
    layout, elements = builder.take()
    payloads = [bytearray(b"\xff" * layout.nbytes), bytearray(layout.nbytes)]

    for payload in payloads:
        layout.write(elements, memoryview(payload))

    assert payloads[0] == payloads[1]


# --- the layout ---


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


@settings(max_examples=200, deadline=None)
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
        "import sys, penstock.wire.frame; assert not {'grpc', 'google.protobuf'} & set(sys.modules)"
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


@pytest.mark.parametrize("element", [(), ((),) * 20, {"a": np.zeros(0), "b": ()}], ids=str)
def test_elements_without_bytes_travel_in_frames_of_a_bounded_size(element):
    block = [element] * 20_000
    frames = pack(block, limit_bytes=1 << 40, limit_count=1 << 40)

    sizes = [len(unpack(*frame)) for frame in frames]
    assert sum(sizes) == len(block)
    assert max(sizes) <= 8192


def test_a_structure_that_no_header_carries_is_refused():
    builder = FrameBuilder()
    builder.add([{f"a column with a long name, number {i}": np.int8(1) for i in range(40_000)}])

    with pytest.raises(ElementTooLarge, match="put what is alike into arrays"):
        builder.take()[0].to_bytes()
