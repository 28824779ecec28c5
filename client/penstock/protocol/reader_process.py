"""Where a training loop runs, as heartbeats and messages name it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReaderProcess:
    """Where a training loop runs. *rank* is that of its launcher (``RANK``), if one gave it any.

    *penstock* and *python* are its versions.
    """

    host: str
    pid: int
    rank: int | None = None
    penstock: str = ""
    python: str = ""

    def __str__(self) -> str:
        rank = "" if self.rank is None else f", rank {self.rank}"
        return f"host {self.host}, pid {self.pid}{rank}"
