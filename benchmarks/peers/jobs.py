"""The jobs that `bench_peers.py` gives to each: their names, sizes, and what functions cost."""

from __future__ import annotations

import time

ROWS = 1_000_000
RANGE = 400_000
CALLS, CALL = 4000, 0.00015
MIB, LARGE = 1 << 20, 4_816_896
"""The bytes of an element; the large one is a batch of 32 images of 224 x 224 x 3."""

SENT = {MIB: 400, LARGE: 100}
"""How many elements of so many bytes are sent."""

SLICES = "slices → batch(256)"
SHUFFLED = "slices → shuffle(10,000) → batch(256)"
BATCHED = "range → batch(256)"
SCALARS = "a worker: scalars, DYNAMIC"
SMALLER = "a worker: elements of 1 MiB"
LARGER = "a worker: elements of 4.8 MB"
CPU_BOUND = "two processes: 150 µs of Python an element → batch(32)"

ELEMENTS = {
    SLICES: ROWS,
    SHUFFLED: ROWS,
    BATCHED: ROWS,
    SCALARS: RANGE,
    SMALLER: SENT[MIB],
    LARGER: SENT[LARGE],
    CPU_BOUND: CALLS,
}


def burn(i: int) -> int:
    """Keep a core busy for `CALL` seconds, and return *i*."""
    until = time.thread_time() + CALL
    while time.thread_time() < until:
        pass
    return i
