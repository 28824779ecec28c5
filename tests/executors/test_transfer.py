"""Elements into shared memory, and out of it."""

import numpy as np
import pytest

from penstock.errors import ElementError
from penstock.executors.transfer import HEAD, get, put
from penstock.ipc.shared_memory import MemoryFile


@pytest.fixture
def memory():
    file = MemoryFile.make("test")
    yield file
    file.close()


def test_elements_of_different_structures_come_out_as_they_went_in(memory):
    one, half = np.int64(1), np.float32(3.5)
    elements = [one, one + 1, "a", {"x": b"\x00"}, {"x": b"1"}, (half, "b")]

    assert get(put(elements, memory), memory) == elements


def test_what_lies_before_the_head_is_left_alone(memory):
    memory.room(HEAD)[:] = b"h" * HEAD

    frames = put([np.arange(5)], memory, HEAD)

    assert min(frame.offset for frame in frames) >= HEAD
    assert bytes(memory.view(HEAD)) == b"h" * HEAD


def test_elements_have_memory_of_their_own(memory):
    (array,) = get(put([np.arange(4)], memory), memory)
    array[0] = 9

    put([np.full(4, 7)], memory)

    assert array.tolist() == [9, 1, 2, 3]


def test_an_object_that_cannot_cross_is_an_element_error(memory):
    with pytest.raises(ElementError):
        put([np.zeros(1, [("a", "O")])], memory)
