"""A trainer has the memory of a large element back when it has dropped it."""

import platform
import subprocess
import sys

import pytest

TRAINER = """
import sys
import numpy as np
from penstock import Dataset

def resident():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmRSS"))

def element(i):
    return np.full(300 << 20 if i == 3 else 1000, i, np.uint8)

dataset = Dataset.range(6).map(element)
dataset = dataset.distribute("distributed_epoch", sys.argv[1], data_transfer_protocol="grpc")
with iter(dataset) as elements:
    next(elements)
    before, most = resident(), 0
    for element in elements:
        most = max(most, element.nbytes >> 20, resident())
        del element
    print(before, most, resident())
"""


@pytest.mark.slow  # tests/runtime/test_malloc.py has when memory is given back
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc keeps other memory")
def test_a_trainer_keeps_no_memory_of_a_large_element_that_came_by_grpc(one_worker):
    command = [sys.executable, "-c", TRAINER, one_worker.target]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)

    before, most, after = map(int, done.stdout.split())
    assert most > 300
    assert after < before + 60, f"{before} MB, then {most} MB at most, then {after} MB"
