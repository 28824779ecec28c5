"""One loop that is interrupted again and again, and what became of its elements."""

from __future__ import annotations

import faulthandler
import secrets
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.interrupts.loops import After, Loop
from tests.interrupts.strikes import Source, Strikes

STUCK = 60.0
"""Seconds after which a loop counts as stuck: all stacks are printed, and the process ends."""

CHANGE_EVERY = 5
"""After so many interrupts another iterator continues."""


@dataclass(frozen=True)
class Outcome:
    """What was counted."""

    interrupts: int
    passes: int
    elements: int
    lost: int
    repeated: int
    errors: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Whether nothing went wrong."""
        return not (self.lost or self.repeated or self.errors)

    def __str__(self) -> str:
        return (
            f"{self.interrupts:5} interrupts, {self.passes:4} passes, {self.elements:9} elements, "
            f"{self.lost} lost, {self.repeated} repeated, {len(self.errors)} errors"
        )


def interrupted(loop: Loop, target: str, source: Source, interrupts: int, seed: int) -> Outcome:
    """Read passes of *loop* until so many *interrupts* have struck, and count."""
    passes = elements = lost = repeated = 0
    errors: list[str] = []
    jobs = secrets.token_hex(4)  # another run's jobs, at the same cluster, are others
    with Strikes(source, seed) as strikes:
        while strikes.count < interrupts and not errors:
            number = f"{jobs} {passes}"
            got: list[Any] = []
            try:
                _read(loop, target, number, strikes, got)
            except Exception as exc:  # noqa: BLE001  it is counted
                errors.append(f"{type(exc).__name__}: {exc}")
                break
            passes, elements = passes + 1, elements + len(got)
            found = Counter(map(int, got))
            for element in range(loop.elements):
                lost += max(0, loop.copies - found[element])
                repeated += max(0, found[element] - loop.copies)
    return Outcome(strikes.count, passes, elements, lost, repeated, tuple(errors))


def _read(loop: Loop, target: str, number: Any, strikes: Strikes, got: list[Any]) -> None:
    """Read one pass into *got*, whatever strikes."""
    dataset = loop.dataset(target, number)
    elements, had = iter(dataset), 0
    try:
        while True:
            faulthandler.dump_traceback_later(STUCK, exit=True)
            # In C: no step of Python's is between the iterator and the list.
            if not strikes.struck(lambda: got.extend(elements)):  # noqa: B023  called at once
                return
            if strikes.count % CHANGE_EVERY or len(got) == had:  # a new one needs time to begin
                continue
            had = len(got)
            match loop.after:
                case After.SAME:
                    continue
                case After.STATE:
                    state = elements.state()
                    elements.close()
                    elements = dataset.iterator(state)
                case After.CLOSED:
                    elements.close()
                    # Another dataset object: the same one would read the job's next pass.
                    elements = iter(loop.dataset(target, number))
    finally:
        faulthandler.cancel_dump_traceback_later()
        elements.close()
