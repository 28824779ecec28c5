"""A save of the job, as one reader takes part in it: from its barrier to the result."""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import SaveFailed
from penstock.protocol.control import ReaderView, SaveBarrier, SaveResult, describe_save
from penstock.protocol.types import Failure


class SaveState:
    """The barrier that is in force, if one is, and the result of the last save.

    A barrier stays in force until its result comes, even if no thread waits any more: the other
    readers may have been told that the save succeeded.
    """

    def __init__(self) -> None:
        self.barrier: SaveBarrier | None = None
        self.listeners = 0
        """How many threads wait for a save result."""
        self._next: int | None = None
        self._result: SaveResult | None = None

    @property
    def possible(self) -> bool:
        """Whether the dispatcher said which number the next save has."""
        return self._next is not None

    def begin(self, label: str, timeout: float, *, without_missing: bool) -> bool:
        """Stop at a barrier, if a save is possible and none is in force; return whether it did."""
        if self._next is None or self.barrier is not None:
            return False
        self.barrier = SaveBarrier(self._next, label, timeout, without_missing)
        self._result = None
        return True

    def result(self, label: str) -> SaveResult | None:
        """Return, once, the result of save *label* if nothing was asked for since its barrier.

        Raises:
            SaveFailed: when another save is under way.
        """
        if self.barrier is not None and self.barrier.label != label:
            raise SaveFailed(
                f"{describe_save(label)} has to wait: the result of "
                f"{describe_save(self.barrier.label)} is to come; call that one again to get it"
            )
        result, self._result = self._result, None
        return result if result is not None and result.label == label else None

    def forget(self) -> None:
        """Drop a result that no thread waits for: the loop goes on."""
        if not self.listeners:
            self._result = None

    def on_view(self, view: ReaderView) -> None:
        """Take the save result from *view*, if it is there."""
        self._next = view.next_save
        barrier = self.barrier
        if barrier is None:
            return
        for result in view.save_results:
            if result.number == barrier.number:
                # The dispatcher may name another reader's label: this call has its own.
                self._on_result(replace(result, label=barrier.label))
                return
        if view.next_save > barrier.number:
            self._fail(
                barrier,
                f"its result is older than those that are kept, of {view.next_save - 1} others",
            )

    def on_removed(self) -> None:
        """Fail the save: this reader expired."""
        self._next = None
        if self.barrier is not None:
            self._fail(
                self.barrier, "this reader was silent for longer than its lease, and expired"
            )

    def _fail(self, barrier: SaveBarrier, why: str) -> None:
        number, label = barrier.number, barrier.label
        failed = SaveFailed(f"{describe_save(label)} is of no use here: {why}; save again")
        self._on_result(SaveResult(number, label, failure=Failure.of(failed)))

    def _on_result(self, result: SaveResult) -> None:
        self.barrier, self._result = None, result
