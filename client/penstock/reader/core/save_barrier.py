"""A save of the job, as one reader takes part in it: from its barrier to the result."""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import SaveFailed
from penstock.protocol.control import ReaderView, SaveBarrier, SaveResult, called
from penstock.protocol.types import Failure


class SaveState:
    """The cut that is in force, if one is, and the verdict on the last.

    A cut stays in force until its verdict comes, whoever gave up waiting for it: the others may
    have been told that the save succeeded.
    """

    def __init__(self) -> None:
        self.cut: SaveBarrier | None = None
        self.listeners = 0
        """How many threads wait for a verdict."""
        self._next: int | None = None
        self._verdict: SaveResult | None = None

    @property
    def possible(self) -> bool:
        """Whether the dispatcher said which number the next save has."""
        return self._next is not None

    def begin(self, label: str, timeout: float, *, without_missing: bool) -> None:
        """Come to a cut."""
        if self._next is not None:
            cut = SaveBarrier(self._next, label, timeout, without_missing)
            self.cut, self._verdict = cut, None

    def verdict(self, label: str) -> SaveResult | None:
        """Return, once, the verdict on save *label* if nothing was asked for since its cut.

        Raises:
            SaveFailed: when another save is under way.
        """
        if self.cut is not None and self.cut.label != label:
            raise SaveFailed(
                f"{called(label)} has to wait: the result of {called(self.cut.label)} is still "
                "to come; call that one again to get it"
            )
        verdict, self._verdict = self._verdict, None
        return verdict if verdict is not None and verdict.label == label else None

    def forget(self) -> None:
        """Know that the loop goes on: a verdict that nobody heard is of no use any more."""
        if not self.listeners:
            self._verdict = None

    def viewed(self, view: ReaderView) -> None:
        """Hear whether there is a verdict."""
        self._next = view.saves
        cut = self.cut
        if cut is None:
            return
        for verdict in view.verdicts:
            if verdict.number == cut.number:
                # What the dispatcher says may name another's label: the call here is ours.
                self._judged(replace(verdict, label=cut.label))
                return
        if view.saves > cut.number:
            self._fail(
                cut, f"its result is older than those that are kept, of {view.saves - 1} others"
            )

    def parted(self) -> None:
        """Know that this reader was given up."""
        self._next = None
        if self.cut is not None:
            self._fail(self.cut, "this reader was silent for longer than its lease, and expired")

    def _fail(self, cut: SaveBarrier, why: str) -> None:
        number, label = cut.number, cut.label
        failed = SaveFailed(f"{called(label)} is of no use here: {why}; save again")
        self._judged(SaveResult(number, label, failure=Failure.of(failed)))

    def _judged(self, verdict: SaveResult) -> None:
        self.cut, self._verdict = None, verdict
