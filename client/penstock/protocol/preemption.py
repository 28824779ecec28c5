"""Messages by which trainers and the dispatcher agree on the step at which a group stops."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PreemptionReport:
    """A trainer's report: how many *steps* it has made, and its *rate* in steps per second.

    *noticed* says that its machine will be taken away, *saved* that it has saved at the agreed
    step, and *leaving* that it ends. It makes no step beyond *allowed* until the next verdict,
    unless it is *alone*: the dispatcher has not answered for long, so the trainer continues
    without permission.
    """

    group: str
    trainer: str
    steps: int
    rate: float = 0.0
    noticed: bool = False
    saved: bool = False
    leaving: bool = False
    allowed: int = 0
    alone: bool = False


@dataclass(frozen=True, slots=True)
class PreemptionVerdict:
    """The dispatcher's answer to a trainer, which may make steps up to *allowed*.

    After a notice, *agreed* is the step to stop at, or 0 until that is decided. *all_saved* says
    that no trainer has to wait for another.
    """

    allowed: int
    noticed: bool = False
    agreed: int = 0
    all_saved: bool = False
