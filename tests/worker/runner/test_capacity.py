"""Where there is no room for a runner: that names the limit, leaves nothing, and passes."""

import gc
import os
import re
import resource
from contextlib import contextmanager, suppress

import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import Overloaded
from penstock_worker.runner.arena import SealedMemory
from tests.chaos import limits
from tests.process_tree import parent


def files():
    """Return what each descriptor of this process is open on."""
    gc.collect()  # what other tests dropped may hold some
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the listing's own
            found.add((name, os.readlink(f"/proc/self/fd/{name}")))
    return found


@contextmanager
def only(more):
    """Let this process open so many files more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    free = [os.open("/dev/null", os.O_RDONLY) for _ in range(highest + 1 - len(files()) + 1)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(free, default=highest) + 1 + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in free:
            os.close(fd)


@pytest.mark.slow
async def test_without_files_for_a_runner_nothing_is_kept_and_later_it_works(workplace):
    busy = await workplace.begin(Dataset.range(3), free=False)
    await busy.end()
    before = files()
    for more in range(4):
        with only(more), pytest.raises(Overloaded, match=r"EMFILE.*RLIMIT_NOFILE is \d+"):
            await workplace.begin(Dataset.range(3), run=2)

        assert files() <= before  # less where other tests' connections end meanwhile

    assert (await workplace.read(Dataset.range(3), run=3)).elements == [0, 1, 2]


@pytest.mark.slow
def test_memory_that_cannot_be_had_leaves_no_file():
    before = files()
    with pytest.raises(OSError, match="memory"):
        SealedMemory(1 << 55)

    assert files() <= before


@contextmanager
def only_memory(pid, more):
    """Let process *pid* have so many bytes of addresses more."""
    with open(f"/proc/{pid}/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.prlimit(pid, resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (used + more, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_AS, (soft, hard))


async def test_a_runner_that_has_no_room_for_its_arena_is_not_started_and_did_not_die(workplace):
    busy = await workplace.begin(Dataset.range(3), free=False)
    server = parent(busy.runner.pid)

    with only_memory(server, 64 << 20):
        with pytest.raises(Overloaded, match=r"ENOMEM.*RLIMIT_AS is \d+"):
            await workplace.begin(Dataset.range(3), run=2)

    await busy.end()
    assert (await workplace.read(Dataset.range(3), run=3)).elements == [0, 1, 2]


async def test_a_runner_without_room_for_its_thread_did_not_die_of_what_it_runs(workplace):
    busy = await workplace.begin(Dataset.range(3), free=False)
    server = parent(busy.runner.pid)
    restore = limits.limit_threads([server], 1)
    if restore is None:
        pytest.skip("there is no control group of processes here that may be made")

    refused = await (await workplace.begin(Dataset.range(3), run=2)).end()

    restore()
    assert refused.elements == []
    assert re.search(r"new thread.*EAGAIN", refused.reports[-1].lacking)
    await busy.end()
    assert (await workplace.read(Dataset.range(3), run=3)).elements == [0, 1, 2]
