"""Where groups of trainers agreed to stop, in a file of the work directory."""

from __future__ import annotations

from pathlib import Path

from penstock.preemption.agreement import Agreements, Fact
from penstock_dispatcher.fact_file import FactFile

NAME = "preemption.jsonl"

LOST = "after a restart trainers that were told to stop agree anew"


def agreements_at(work_dir: str | None) -> Agreements:
    """Return what groups in a folder agreed on, if anything; what is decided is written there."""
    file = FactFile[Fact](None if work_dir is None else Path(work_dir) / NAME, Fact, LOST)
    needed = Agreements(list(file.read()), lambda _: None).facts()
    file.rewrite(needed)
    return Agreements(needed, file.keep)
