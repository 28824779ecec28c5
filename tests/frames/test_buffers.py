"""Numbers and text in payloads."""

import numpy as np
import pytest

from penstock.errors import ElementError
from penstock.frames import buffers


@pytest.mark.parametrize(
    "dtype",
    ["<i4", ">f8", "?", "S7", "<U3", "<M8[ms]", [("a", "<i2"), ("b", ">f4", (2, 3))]],
    ids=str,
)
def test_a_dtype_survives_as_text(dtype):
    assert buffers.dtype_from(buffers.dtype_text(np.dtype(dtype))) == np.dtype(dtype)


@pytest.mark.parametrize("text", ["O", "|O8", "[('a', 'O')]", "int", "[", "<i4,<i4", "os.system"])
def test_what_is_no_dtype_of_an_array_is_refused(text):
    with pytest.raises(ValueError, match="no dtype|Python objects"):
        buffers.dtype_from(text)


def test_a_dtype_of_objects_cannot_travel():
    with pytest.raises(ElementError, match="Python objects"):
        buffers.dtype_text(np.dtype([("a", "O")]))


@pytest.mark.parametrize(
    "texts", [["a", "", "ü\ud800"], [b"", b"\xff\x00"], ["a" * 9000, "b" * 9000], ["a", b"b"], []]
)
def test_texts_come_back_between_their_ends(texts):
    out = np.full(40_000, 9, np.uint8)

    end = buffers.put_text(out, 64, texts)
    blob, ends, stop = buffers.get_text(out, 64, len(texts))

    assert stop == end
    if len(set(map(type, texts))) == 1:
        assert buffers.cut(blob, ends, isinstance(texts[0], str)) == texts
    assert [b - a for a, b in zip(ends, ends[1:], strict=False)] == buffers.text_sizes(texts)


def test_a_view_over_the_end_of_a_payload_is_refused():
    data = np.zeros(64, np.uint8)

    assert len(buffers.view(data, 0, 8, np.dtype("<i8"))) == 8
    for at, items in ((0, 9), (60, 1), (0, -1)):
        with pytest.raises(ValueError, match="a payload of 64"):
            buffers.view(data, at, items, np.dtype("<i8"))


@pytest.mark.parametrize("ends", [[-1, 3], [5, 3], [1, 10**6]])
def test_texts_whose_ends_fall_or_lie_outside_are_refused(ends):
    data = np.zeros(256, np.uint8)
    buffers.put_numbers(data, 0, ends)

    with pytest.raises(ValueError, match="text ends at"):
        buffers.get_text(data, 0, 2)


def test_what_was_there_before_does_not_travel_in_the_gaps():
    data = np.full(128, 9, np.uint8)

    assert buffers.put_numbers(data, 0, [1]) == 64
    assert not data[8:64].any()
    assert data[64:].all()
