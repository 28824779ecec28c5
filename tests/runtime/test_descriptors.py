"""A process that may open too few files is told so before gRPC would end it."""

import os
import resource
import subprocess
import sys
from contextlib import contextmanager

import pytest

from penstock.errors import Unavailable
from penstock.runtime.descriptors import NEEDED, check_room

READER = """
import os, resource, sys
from penstock import Dataset
from penstock.errors import Unavailable

dataset = Dataset.range(3).distribute("distributed_epoch", "grpc://127.0.0.1:1", timeout=0.2)
free = int(sys.argv[1])
highest = max(int(name) for name in os.listdir("/proc/self/fd"))
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (highest + free, hard))
try:
    list(dataset)
except Unavailable as exc:
    print(exc)
"""


@contextmanager
def room_for(more):
    """Let this process open so many more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = [os.open(os.devnull, os.O_RDONLY)]
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    while held[-1] < highest:  # those below are free, and would be used first
        held.append(os.dup(held[0]))
    resource.setrlimit(resource.RLIMIT_NOFILE, (held[-1] + 1 + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in held:
            os.close(descriptor)


def test_where_there_is_room_nothing_is_left_open():
    before = set(os.listdir("/proc/self/fd"))

    check_room()

    assert set(os.listdir("/proc/self/fd")) <= before  # less where what others dropped is closed


@pytest.mark.parametrize("free", [0, 1, NEEDED - 1])
def test_the_error_names_what_is_needed_what_is_free_the_limit_and_the_remedy(free):
    with room_for(free), pytest.raises(Unavailable) as told:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        check_room()

    assert f"needs {NEEDED} file descriptors, and {free} are free" in str(told.value)
    assert f"may have {limit} files open (RLIMIT_NOFILE)" in str(told.value)
    assert "ulimit -n" in str(told.value)


def test_as_many_as_are_needed_are_enough():
    with room_for(3):
        check_room(3)
        with pytest.raises(Unavailable, match="needs 4 file descriptors, and 3 are free"):
            check_room(4)


@pytest.mark.quick(1)
@pytest.mark.parametrize("free", [1, 8, 13])  # without a check gRPC aborts, or a signal ends it
def test_a_reader_that_begins_without_descriptors_gets_an_error_and_goes_on(free):
    command = [sys.executable, "-c", READER, str(free)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert ended.returncode == 0, ended.stderr
    assert "RLIMIT_NOFILE" in ended.stdout
