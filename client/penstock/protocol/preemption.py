"""What a trainer and the dispatcher say about where all trainers of a group stop."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PreemptionReport:
    """What a trainer says: how many *steps* it has made, and how many it makes a second.

    *noticed* says that its machine is to be taken away, *saved* that it has saved what was agreed,
    and *leaving* that it ends. It makes no step beyond *allowed* before it hears again, unless
    it is *alone*: nobody answered for long, and it goes on without leave.
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
    """What a trainer is told: it may make steps up to *allowed*.

    Once there is a notice *agreed* is the step to stop at, or 0 while that is not known.
    *all_saved* says that nobody has to be waited for.
    """

    allowed: int
    noticed: bool = False
    agreed: int = 0
    all_saved: bool = False
