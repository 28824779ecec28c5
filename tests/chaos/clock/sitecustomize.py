"""What is done to a process from inside, by files: a process begins with this by its PYTHONPATH.

Its wall clock is off by what stands in a file, so it can be set from outside. The clock of leases
is left alone, as it is when somebody sets the clock of a machine.

Its forks are killed at a write to a saved dataset, when an order for that is there.
"""

import mmap
import os
import signal
import time

FILE = "PENSTOCK_CHAOS_CLOCK"
"""The variable with the name of the file: seconds, as a double."""

DYING = "PENSTOCK_CHAOS_DYING"
"""The variable with the name of a file ``<number> <when> <whose>``: the next process that writes is
killed at its so many-th call from then on, ``before`` or ``after`` it. One of a ``worker`` writes
chunks; a ``reader`` of receipts commits them."""

CHANGES = ("write", "create", "copy", "delete")


def die_at_writes(order):
    left = []

    def watching(name, method):
        def call(*arguments):
            if not left and os.path.exists(order):
                left.extend(claimed(order, "worker" if name == "write" else "reader"))
            due = False
            if left:
                left[0] -= 1
                due = left[0] == 0
            if due and left[1] == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = method(*arguments)
            if due:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    def arm():
        from penstock.saved import folder

        for kind in (folder._LocalFolder, folder._StoreFolder):
            for name in CHANGES:
                setattr(kind, name, watching(name, getattr(kind, name)))

    os.register_at_fork(after_in_child=arm)


def claimed(order, whose):
    """Return the order, if it is for such a process and no other one was faster."""
    try:
        with open(order) as file:
            number, when, who = file.read().split()
        if who != whose:
            return ()
        os.unlink(order)
    except (OSError, ValueError):
        return ()
    return int(number), when


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
if DYING in os.environ:
    die_at_writes(os.environ[DYING])
