import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
from penstock.runtime.malloc import tune
print(tune(), tune())
def fill():
    return [b"x" * (8 << 20) for _ in range(4)]
for _ in range(3):
    fill()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    fill()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def run(**env):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    tuned, faults = done.stdout.splitlines()
    return tuned, int(faults)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="there is nothing to tune")
def test_a_tuned_process_touches_the_pages_of_big_blocks_once():
    assert run() == ("True True", pytest.approx(0, abs=500))


def test_the_environment_turns_it_off():
    tuned, faults = run(PENSTOCK_MALLOC="default")

    assert tuned == "False False"
    assert faults > 1000 or platform.libc_ver()[0] != "glibc"


ARENAS = """
import ctypes, sys, threading
from penstock.runtime.malloc import tune
tune(one_arena=sys.argv[1] == "one")
libc = ctypes.PyDLL(None)
libc.fopen.restype = ctypes.c_void_p
together = threading.Barrier(4)
def fill():
    together.wait()
    kept = [b"x" * 100_000 for _ in range(10)]
    together.wait()
threads = [threading.Thread(target=fill) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
out = ctypes.c_void_p(libc.fopen(b"/dev/stdout", b"w"))
libc.malloc_info(0, out)
libc.fflush(out)
"""


def arenas_of_four_threads(how):
    command = [sys.executable, "-c", ARENAS, how]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.count("<heap nr=")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="there is nothing to tune")
def test_threads_share_one_arena_where_that_is_asked_for():
    assert arenas_of_four_threads("one") == 1
    assert arenas_of_four_threads("many") > 1
