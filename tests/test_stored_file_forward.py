"""A file that only goes forward: later places are reached by reading, earlier ones refused."""

import io

import pytest

from penstock.stored_file import ForwardFile


class Counted(ForwardFile):
    """The bytes of *inner*, three at a time."""

    def fill(self, buffer):
        data = self._inner.read(min(3, len(buffer)))
        buffer[: len(data)] = data
        return len(data)


def test_a_later_place_is_reached_by_reading_up_to_it():
    with Counted(io.BytesIO(b"0123456789")) as file:
        assert file.seek(4) == file.tell() == 4
        assert file.read(2) == b"45"
        assert file.seek(2, io.SEEK_CUR) == 8
        assert file.readall() == b"89"


def test_a_place_after_the_end_is_the_end():
    with Counted(io.BytesIO(b"0123")) as file:
        assert file.seek(100) == 4


@pytest.mark.parametrize(
    ("offset", "whence"), [(0, io.SEEK_SET), (-1, io.SEEK_CUR), (0, io.SEEK_END)]
)
def test_an_earlier_place_and_the_end_are_refused(offset, whence):
    with Counted(io.BytesIO(b"0123")) as file:
        file.read(2)
        with pytest.raises(io.UnsupportedOperation, match="only goes forward"):
            file.seek(offset, whence)


def test_to_close_it_closes_what_it_reads():
    inner = io.BytesIO(b"")
    Counted(inner).close()

    assert inner.closed
