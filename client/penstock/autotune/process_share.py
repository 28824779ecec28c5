"""In how many processes a run may have its functions called, and in how many it has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ProcessShare:
    """Calls may move to *most* processes, together; *used* are: a `Budget` counts them, locked."""

    most: int = 1
    used: int = 0
