"""How far a save of a dataset has come."""

from __future__ import annotations

from enum import StrEnum


class SaveStage(StrEnum):
    """How far a save has come."""

    OPEN = "open"
    """More elements may follow."""
    COMPLETE = "complete"
    FAILED = "failed"
    """It stopped at an error; the same call continues it."""
    CANCELLED = "cancelled"
    REMOVED = "removed"
    """`penstock saves gc` removed its elements; the pipeline that reads it makes them again."""
