"""A trainer has the memory of a large element back when it has dropped it."""

import platform
import subprocess
import sys

import pytest

TRAINER = """
import os, sys, time
import numpy as np
from penstock import Dataset

target, transport, codec, gate = sys.argv[1:]

def element(i):
    while i > 1 and not os.path.exists(gate):
        time.sleep(0.01)
    row = np.arange(1000, dtype=np.uint8)
    return np.tile(row, (300 << 10) + 1) if i == 1 else row

def resident():
    return elements.stats(jobs=False).resident >> 20

dataset = Dataset.range(3).map(element).distribute(
    "parallel_epochs", target, data_transfer_protocol=transport, compression=codec or None
)
with iter(dataset) as elements:
    next(elements)
    before = resident()
    large = next(elements)
    most = resident()
    del large
    deadline = time.monotonic() + 60
    while (after := resident()) > before + 40 and time.monotonic() < deadline:
        time.sleep(0.01)
    open(gate, "w").close()
    assert len(list(elements)) == 1
print(before, most, after)
"""


@pytest.mark.slow  # tests/runtime/test_malloc_freed_memory.py has when memory is given back
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc keeps other memory")
@pytest.mark.parametrize("codec", ["", "ZSTD"])
@pytest.mark.parametrize("transport", ["grpc", "shm", "tcp"])
def test_a_trainer_keeps_no_memory_of_a_large_element_while_it_waits_for_the_next_one(
    one_worker, tmp_path, transport, codec
):
    ways = [one_worker.target, transport, codec, str(tmp_path / "gate")]
    command = [sys.executable, "-c", TRAINER, *ways]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)

    before, most, after = map(int, done.stdout.split())
    assert most > 300
    assert after <= before + 40, f"{before} MB, then {most} MB at most, then {after} MB"
