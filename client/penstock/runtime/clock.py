"""The clock of leases, which also runs while the machine sleeps, and never jumps."""

from __future__ import annotations

import time
from functools import partial

now = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)
"""Return seconds since some moment in the past."""
