"""How messages name the process of a training loop."""

import pytest

from penstock.protocol.loop_time import ReaderProcess


@pytest.mark.parametrize(
    ("process", "text"),
    [
        (ReaderProcess("a", 7), "host a, pid 7"),
        (ReaderProcess("a", 7, 0), "host a, pid 7, rank 0"),
    ],
)
def test_a_process_is_named_by_its_host_its_number_and_its_rank_if_it_has_one(process, text):
    assert str(process) == text
