"""What has been decided of elements that were left out; see `facts`."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.protocol.control import SkippedError
from penstock.protocol.types import TaskId


@dataclass(frozen=True, slots=True)
class ErrorsSkipped:
    """A task has left out *count* elements in all; *first* are those of them that are kept now."""

    task: TaskId
    count: int
    first: tuple[SkippedError, ...] = ()
