"""Where the bytes of a frame lie, how often they are copied, how long they live."""

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

from penstock.frames.buffers import BOUNDARY
from penstock.frames.frame import FrameBuilder, unpack, unpack_with_root
from tests.frames.packing import arrays_of, pack


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
    leaf = next(iter(arrays_of(elements[1])), elements[1])
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
