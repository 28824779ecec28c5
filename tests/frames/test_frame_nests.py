"""Elements of any nest come back from frames as they were."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.frames.frame import unpack
from tests.frames.nests import nest_kinds
from tests.frames.packing import arrays_of, check, pack, there_and_back


@pytest.mark.slow
@given(nest_kinds.flatmap(lambda kind: st.lists(kind, min_size=1, max_size=5)))
def test_elements_of_one_structure_come_back_as_they_were(block):
    check(block)


@pytest.mark.slow
@given(
    st.lists(nest_kinds.flatmap(lambda kind: st.lists(kind, min_size=1, max_size=3)), max_size=3),
    st.integers(1, 200),
    st.integers(1, 4),
)
def test_elements_of_any_structure_come_back_as_they_were_under_any_limit(blocks, nbytes, count):
    check([e for block in blocks for e in block], limit_bytes=nbytes, limit_count=count)


@given(nest_kinds.flatmap(lambda kind: st.lists(kind, min_size=1, max_size=4)))
def test_writable_elements_are_equal_and_share_nothing_with_the_payload(block):
    for layout, payload in pack(block):
        before = bytes(payload)

        for element in unpack(layout, payload, writable=True):
            for leaf in arrays_of(element):
                assert leaf.flags.writeable
                leaf.fill(leaf.flat[0]) if leaf.size else None

        assert payload == before


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
