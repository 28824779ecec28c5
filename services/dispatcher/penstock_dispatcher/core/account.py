"""The account: what became of each element of a pass, and whether it balances."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.protocol.control import AttemptProgress
from penstock.protocol.ranges import AckedSet
from penstock.protocol.types import ReaderId, ReaderStatus
from penstock_dispatcher.core.facts import AccountTotals, InDoubt
from penstock_dispatcher.core.records import IterationRecord, TaskRecord, add, totals
from penstock_dispatcher.core.soft_state import SoftState


@dataclass(frozen=True, slots=True)
class Account:
    """What became of an iteration's elements, as far as it was told.

    A restored iteration goes on with the account of its saved state.
    """

    finished: bool
    elements: int
    """How many there are, as far as they were made."""
    made: int
    """How many were made, those included that were made again."""
    replayed: int
    """How many of these were made again, after a process died."""
    sent: int
    given_back: int
    """How many readers gave back unused, so that others could have them."""
    taken: int
    """How many of the elements a training loop has had."""
    handed: int
    """How many training loops were handed."""
    repeated: int
    """How many of these were handed out before; exact once no reader is `untold`."""
    doubted: int
    """How many were served again although a reader that was given up may have taken them."""
    untold: int
    """How many readers may have been handed more than they said."""
    skipped: int
    """How many the pipeline left out on purpose; those it left out again, when others were made
    again, count again."""
    inexact: int
    """How many were made again by a pipeline that may not make the same ones."""
    lost: int
    """How many may be lost: none, but for a pipeline that is inexact."""
    splits: int
    units: int
    doubts: tuple[InDoubt, ...]
    """Who is doubted, and for how many; one of an unknown number says since when."""

    @property
    def bounded(self) -> bool:
        """Whether all doubt is counted."""
        return all(doubt.elements is not None for doubt in self.doubts)

    def faults(self) -> tuple[str, ...]:
        """Say in words where the account of a finished iteration does not balance."""
        found = []
        if not self.finished:
            return ()
        if self.taken != self.elements and not self.inexact:
            found.append(f"{self.taken} of {self.elements} elements were acked")
        if self.handed < self.taken and not self.untold:
            found.append(f"{self.taken} elements are acked, but loops consumed {self.handed}")
        if self.repeated > self.doubted and self.bounded:
            found.append(
                f"{self.repeated} elements were redelivered, and {self.doubted} are in doubt"
            )
        return tuple(found)


def of(iteration: IterationRecord, heard: SoftState) -> Account:
    """Say what became of an iteration's elements."""
    sums = told(iteration, heard)
    work = sums.work
    return Account(
        iteration.finished,
        sums.elements,
        max(work.made, sums.elements),
        max(0, work.made - sums.elements),
        work.sent,
        work.given_back,
        sums.taken,
        sums.handed,
        max(0, sums.handed - sums.taken),
        sum(doubt.elements or 0 for doubt in sums.doubts),
        sums.untold,
        work.skipped,
        work.inexact,
        work.inexact,
        sums.splits,
        sums.units,
        sums.doubts,
    )


def head(task: TaskRecord, progress: AttemptProgress | None, taken: AckedSet) -> int:
    """Return the next number to be made of *task*: readers may tell of more than its worker did."""
    spans = taken.more.spans
    end = spans[-1][1] if spans else taken.floor
    return max(task.head, progress.made if progress is not None else 0, end)


def told(iteration: IterationRecord, heard: SoftState) -> AccountTotals:
    """Sum up the durable state, and what heartbeats reported since."""
    sums = totals(iteration)
    work, elements, taken = sums.work, sums.elements, sums.taken
    for name, task in iteration.tasks.items():
        progress, known = heard.progress.get(name), task.taken
        if progress is not None:
            work = add(work, progress.work)
        if name in heard.learnt:
            known = known | heard.learnt[name]
            taken += len(known.runs) - len(task.taken.runs)
        elements += head(task, progress, known) - task.head
    handed, untold = _handed(iteration, heard)
    return replace(
        sums,
        work=work,
        elements=elements,
        taken=taken,
        handed=sums.handed + handed,
        untold=sums.untold + untold,
    )


def _handed(iteration: IterationRecord, heard: SoftState) -> tuple[int, int]:
    """Return what training loops were handed, and how many may have been handed more."""
    handed: dict[str, int] = {}
    for name, reader in iteration.readers.items():
        word = heard.readers.get(name)
        beat = 0 if word is None else word.beat.handed
        handed[reader.token] = max(handed.get(reader.token, 0), reader.handed, beat)
    untold = sum(not _has_told(iteration, reader) for reader in iteration.tokens.values())
    return sum(handed.values()), untold


def _has_told(iteration: IterationRecord, reader: ReaderId) -> bool:
    known = iteration.readers[reader]
    return known.told or (known.standing is ReaderStatus.LIVE and not iteration.finished)
