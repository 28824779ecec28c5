"""The interface by which calls report to their trace span, and its version without a span."""

from __future__ import annotations

from typing import Any, TypeAlias

Metadata: TypeAlias = tuple[tuple[str, str], ...]


class CallSpan:
    """A call without a span; subclasses have one."""

    metadata: Metadata = ()
    """Metadata of the call that make the other side's span a child of this one."""

    def replied(self, reply: Any) -> None:
        """Record the job, task and other names in *reply*."""
