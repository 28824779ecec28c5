"""A call as its span sees it, whether there is a span or none."""

from __future__ import annotations

from typing import Any, TypeAlias

Metadata: TypeAlias = tuple[tuple[str, str], ...]


class CallSpan:
    """A call as its span sees it; this one has none."""

    metadata: Metadata = ()
    """What goes with the call, so that the other side's span is a child of this one."""

    def replied(self, reply: Any) -> None:
        """Record what *reply* names."""
