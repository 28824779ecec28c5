"""How large a buffer should be: twice as large once it was found empty after it had been full.

As in tf.data: that it is empty before it was ever full only says that its input is slow.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST = 2
"""Elements at the start: one to take, one to make."""

LONGEST = 1 << 16


@dataclass(slots=True)
class BufferTuner:
    """Decides when the consumer finds the buffer empty, and when the size of elements is known."""

    size: int = FIRST
    _was_full: bool = False

    def full(self) -> None:
        """Record that there are *size* elements, and no consumer waits."""
        self._was_full = True

    def empty(self, *, room: float, nbytes: float) -> bool:
        """Record that the consumer found no element; return whether *size* grew.

        Elements have about *nbytes* bytes, and there is *room* for that many bytes more.
        """
        grows = self._was_full and self.size < LONGEST and self.size * nbytes <= room
        self._was_full = False
        if grows:
            self.size *= 2
        return grows

    def fit(self, *, excess: float) -> bool:
        """Halve *size* when it stands for *excess* bytes too many; return whether it did."""
        if excess > 0 and self.size > 1:
            self.size //= 2
            self._was_full = False
            return True
        return False
