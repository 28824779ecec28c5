"""Names a range of bytes in one version of a remote file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartKey:
    """The bytes from *start* to before *stop* of the file *url*, in a *version*."""

    url: str
    version: str
    """As it was listed: the size, a dot, and the entity tag. Empty if the store tells none."""
    start: int
    stop: int

    @property
    def is_lasting(self) -> bool:
        """Whether other bytes would have another version: the size alone does not show that."""
        return bool(self.version.partition(".")[2])
