"""How often each method of a service was called, and how calls failed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class CallCounts:
    """Calls since the service began, streams among them; those of health checks are not counted."""

    opened: Counter[str] = field(default_factory=Counter)
    """By path."""
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By path, and by what refused or ended them: the name of the error, or gRPC's status."""
