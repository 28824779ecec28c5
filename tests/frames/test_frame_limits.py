"""What travels together in a frame, and when one is ready."""

import numpy as np
import pytest

from penstock.errors import ElementError, ElementTooLarge
from penstock.frames.buffers import BOUNDARY
from penstock.frames.frame import FrameBuilder, unpack
from tests.frames.packing import Point, pack


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
