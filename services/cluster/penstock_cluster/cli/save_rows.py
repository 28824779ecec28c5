"""A line for each save that the workers of a cluster host."""

from __future__ import annotations

from collections.abc import Sequence

from penstock_cluster.cli.grid import Grid
from penstock_dispatcher.core.stats import SaveStats


def saves_table(saves: Sequence[SaveStats]) -> Grid:
    """Return a table with a line for each of *saves*."""
    columns = (
        "save",
        "path~",
        "stage",
        "elements->",
        "of->",
        "MB->",
        "elements/s->",
        "worker~",
        "error~",
    )
    return Grid(columns, [_row(one) for one in saves])


def _row(one: SaveStats) -> list[str]:
    return [
        one.save_id,
        one.path,
        one.stage,
        f"{one.elements:,}",
        "" if one.total is None else f"{one.total:,}",
        f"{one.nbytes / 1e6:,.1f}",
        f"{one.rate:,.0f}" if one.stage == "open" else "",
        one.worker,
        one.error,
    ]
