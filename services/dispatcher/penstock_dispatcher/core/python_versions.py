"""Which workers can run functions, which travel between equal minor versions of Python only."""

from __future__ import annotations

from penstock.errors import VersionMismatch
from penstock.protocol.types import DatasetId
from penstock_dispatcher.core.context import DecisionContext


def check(desk: DecisionContext, dataset: DatasetId) -> None:
    """Refuse a dataset that no worker can run, if there are workers.

    Raises:
        VersionMismatch: naming both versions.
    """
    if said := mismatch(desk, dataset):
        raise VersionMismatch(said)


def mismatch(desk: DecisionContext, dataset: DatasetId) -> str:
    """Say why none of the workers can run *dataset*; nothing if one can, or none is there."""
    words = [desk.heard.workers[worker] for worker in desk.books.workers]
    made_by = desk.books.datasets[dataset].pythons
    if not words or any(word.loads(made_by) for word in words):
        return ""
    have = sorted({word.versions.minor for word in words if word.versions is not None})
    return (
        f"the pipeline was made by Python {', '.join(made_by)}; workers have {', '.join(have)}: "
        "functions travel between equal minor versions only. Start a worker with "
        f"{made_by[-1]}, or read with {have[-1]}"
    )
