"""Memory that one writes and another reads."""

import os

import pytest

from penstock.ipc.shared_memory import LEAST, MemoryFile


@pytest.fixture
def memory():
    file = MemoryFile.make("test")
    yield file
    file.close()


def test_what_one_writes_the_other_reads(memory):
    other = MemoryFile(os.dup(memory.fd))

    memory.room(5)[:] = b"hello"
    assert bytes(other.view(5)) == b"hello"

    memory.room(3 * LEAST)[-3:] = b"end"  # the file grew since the other looked
    assert bytes(other.view(3 * LEAST)[-3:]) == b"end"
    other.close()


def test_a_view_lives_though_the_file_grows_and_is_closed(memory):
    memory.room(5)[:] = b"hello"
    view = memory.view(5)

    memory.room(4 * LEAST)
    memory.close()

    assert bytes(view) == b"hello"


def test_released_memory_goes_back_and_comes_again(memory):
    memory.room(2 * LEAST)[:] = b"x" * (2 * LEAST)
    memory.release()
    assert os.fstat(memory.fd).st_blocks == 0

    memory.room(5)[:] = b"again"
    assert bytes(memory.view(5)) == b"again"


def test_closing_twice_is_closing_once(memory):
    memory.close()
    memory.close()
    assert memory.fd == -1
