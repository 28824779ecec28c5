"""Elements and specs as TensorFlow's messages: read back by their field numbers."""

import struct
from typing import Any, NamedTuple

import cramjam
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.analysis.array_spec import ArraySpec
from penstock.errors import DatasetError
from penstock.frames.tensors import (
    DTYPES,
    STRING,
    compressed_reply,
    element_reply,
    flat,
    structured,
)
from penstock.protocol.tensorflow import END_OF_SEQUENCE


class Pair(NamedTuple):
    first: Any
    second: Any


def fields(data):
    """Return the fields of a message: (number, value) in order."""
    found, at = [], 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            assert key & 7 == 2
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        found.append((key >> 3, value))
    assert at == len(data)
    return found


def varint(data, at):
    value = shift = 0
    while data[at] > 0x7F:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def sizes(shape):
    return [dict(fields(dim)).get(1, 0) for number, dim in fields(shape) if number == 2]


def arrays(reply):
    """Return the components of a reply as arrays, or lists of bytes."""
    (element,) = [value for number, value in fields(reply) if number == 5]
    return [array(component) for number, component in fields(element) if number == 1]


def array(tensor):
    known = fields(tensor)
    dtype, shape = dict(known)[1], sizes(dict(known).get(2, b""))
    if dtype == STRING:
        return [value for number, value in known if number == 8], shape
    (name,) = [name for name, number in DTYPES.items() if number == dtype]
    content = dict(known).get(4, b"")
    return np.frombuffer(content, np.dtype(name).newbyteorder("<")).reshape(shape)


DTYPES_OF_NUMPY = [name for name in DTYPES if name != "bfloat16"]


@given(
    st.sampled_from(DTYPES_OF_NUMPY),
    st.lists(st.integers(0, 4), max_size=3),
    st.booleans(),
)
def test_an_array_of_any_dtype_and_shape_comes_back(dtype, shape, turned):
    numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    given_array = numbers.T if turned else numbers

    (found,) = arrays(element_reply(given_array))

    assert found.dtype == np.dtype(dtype)
    assert found.shape == given_array.shape
    assert np.array_equal(found, given_array)


def test_a_scalar_has_no_axes():
    (found,) = arrays(element_reply(np.float32(1.5)))

    assert found.shape == ()
    assert found == 1.5


def test_large_numbers_travel_in_the_byte_order_of_the_wire():
    big = np.array([1], np.dtype(">i4"))

    (found,) = arrays(element_reply(big))

    assert found.tobytes() == struct.pack("<i", 1)


def test_text_is_one_value_an_item():
    texts = np.array([["a", "bc"], ["", "é"]], object)

    (single, many, raw) = arrays(element_reply(("x", texts, b"\xff")))

    assert single == ([b"x"], [])
    assert many == ([b"a", b"bc", b"", "é".encode()], [2, 2])
    assert raw == ([b"\xff"], [])


def test_components_come_in_tensorflows_order():
    element = {"b": (1, 2), "a": Pair(3, {"z": 4, "y": 5})}

    assert flat(element) == [3, 5, 4, 1, 2]


def test_a_dtype_that_it_does_not_have_is_named_with_a_way_out():
    with pytest.raises(DatasetError, match="TensorFlow has no dtype datetime64.*astype"):
        element_reply(np.zeros(2, "datetime64[s]"))


def test_the_end_has_no_element():
    assert fields(END_OF_SEQUENCE) == [(2, 1)]


def test_a_spec_says_shape_and_dtype_and_unknown_axes():
    (leaf,) = fields(structured(ArraySpec((None, 3), np.dtype("float32"))))

    number, spec = leaf
    assert number == 33
    assert sizes(dict(fields(spec))[2]) == [2**64 - 1, 3]
    assert dict(fields(spec))[3] == DTYPES["float32"]


def test_nests_of_specs_are_nests():
    one = ArraySpec((), np.dtype("int64"))

    kinds = [fields(structured(spec))[0][0] for spec in ((one,), {"a": one}, Pair(one, one))]
    text = dict(fields(fields(structured(ArraySpec((), str)))[0][1]))

    assert kinds == [52, 53, 54]
    assert text[3] == STRING


def test_what_is_no_spec_is_refused():
    with pytest.raises(DatasetError, match="cannot read what looks like"):
        structured(("text",))


def test_a_compressed_reply_says_how_many_bytes_each_array_and_each_text_has():
    element = (np.arange(6, dtype=np.int32).reshape(2, 3), np.array(["a", "bcd"]), "text", b"")

    (packed,) = [value for number, value in fields(compressed_reply(element)) if number == 3]
    found = fields(packed)
    (block,) = [value for number, value in found if number == 1]
    about = [fields(value) for number, value in found if number == 2]

    raw = bytes(cramjam.snappy.decompress_raw(block))
    assert raw == np.arange(6, dtype="<i4").tobytes() + b"abcdtext"
    assert [dict(one)[1] for one in about] == [DTYPES["int32"], STRING, STRING, STRING]
    assert [sizes(dict(one)[2]) for one in about] == [[2, 3], [2], [], []]
    assert [list(dict(one)[4]) for one in about] == [[24], [1, 3], [4], [0]]
