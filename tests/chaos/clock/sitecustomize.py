"""Has the wall clock of a process be off by what stands in a file: so it can be set from outside.

A process begins with this if its folder is on PYTHONPATH. The clock of leases is left alone, as it
is when somebody sets the clock of a machine.
"""

import mmap
import os
import time

FILE = "PENSTOCK_CHAOS_CLOCK"
"""The variable with the name of the file: seconds, as a double."""


def set_clock(file):
    with open(file, "rb") as given:
        off = memoryview(mmap.mmap(given.fileno(), 8, prot=mmap.PROT_READ)).cast("d")
    seconds, nanoseconds = time.time, time.time_ns

    def now():
        return seconds() + off[0]

    def now_ns():
        return nanoseconds() + int(off[0] * 1e9)

    time.time, time.time_ns = now, now_ns


if FILE in os.environ:
    set_clock(os.environ[FILE])
