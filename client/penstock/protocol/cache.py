"""Messages of the cross-trainer cache: which shared elements each trainer has. Plain values.

Readers of a cached job name a *trainer*. A worker makes and encodes each element once, and keeps
frames in a *window* of bounded size. Every trainer gets each element of a task once; the trainer's
readers share its elements, first come, first served. If an element leaves the window before a
trainer has it, the trainer *skipped* it, and the worker counts that. A trainer that starts later
begins with the oldest element in the window; the worker counts those *before* it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from penstock.protocol.ranges import NOTHING_ACKED, AckedSet
from penstock.protocol.types import ReaderId

NOT_SAVED = "a trainer's place in a shared window cannot be saved: other trainers move the window"
"""Why a cached job has no saved state."""


class WhenFull(Enum):
    """The worker's policy if the window is full and the fastest trainer wants more."""

    SKIP = "skip"
    """The oldest elements leave the window; trainers that do not have them skip them."""
    WAIT = "wait"
    """The worker waits until all active trainers have had the oldest elements."""


@dataclass(frozen=True, slots=True)
class TrainerProgress:
    """One trainer's progress in a task.

    The trainer never gets *acked* elements again: its loops had them, it *skipped* them, or they
    had left the window *before* it started. *skipped* and *before* count elements among them.
    """

    acked: AckedSet = NOTHING_ACKED
    skipped: int = 0
    before: int = 0


@dataclass(frozen=True, slots=True)
class Cached:
    """How an attempt caches its elements: for which trainers, and how far each of them is.

    *job* names the window's job: all tasks of a job on one worker share the window's room.
    """

    job: str
    when_full: WhenFull = WhenFull.SKIP
    trainers: Mapping[str, TrainerProgress] = field(default_factory=dict)
    readers: Mapping[ReaderId, str] = field(default_factory=dict)
    """The trainer of each reader."""


@dataclass(frozen=True, slots=True)
class CacheView:
    """How many elements of the pass a trainer missed: *skipped* and *before*, over all tasks."""

    skipped: int = 0
    before: int = 0
