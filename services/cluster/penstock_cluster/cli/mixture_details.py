"""The shares of a mixture's sources as tables: wanted, handed out, acknowledged."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from penstock.errors import VersionMismatch
from penstock.protocol.turn_shares import shares_between
from penstock.protocol.turns import Turns
from penstock_cluster.cli.grid import Grid
from penstock_dispatcher.core.stats import IterationStats, MixtureStats


def mixture_details(it: IterationStats) -> Iterator[RenderableType]:
    """Yield the shares of the sources of each mixture that the pass *it* reads."""
    for mixture in it.mixtures:
        yield Text(f"mixture: tasks have the turns before {mixture.turn:,}")
        columns = ("source", "wanted>", "handed out>", "acked in whole splits>", "elements->")
        yield Grid((*columns, "passes->", "begins again at turn->"), _rows(mixture))
        if len(mixture.spans) > 1:
            names = [source.name for source in mixture.sources]
            rows = (
                (
                    f"{span.begin:,}",
                    *(
                        f"{_percent(wanted)} / {_percent(_ratio(part, sum(span.handed)))}"
                        for wanted, part in zip(span.wanted, span.handed, strict=True)
                    ),
                )
                for span in mixture.spans
            )
            yield Text("wanted / handed out, from each change of the weights to the next")
            yield Grid(("from turn>", *(f"{name}>" for name in names)), rows)


def shares_of_turns(mixture: MixtureStats, begin: int, end: int) -> Iterator[RenderableType]:
    """Yield the shares of the sources in the turns from *begin* to before *end*.

    Raises:
        DatasetError: when there are no such turns, or their weights are not known any more.
        VersionMismatch: when the dispatcher does not tell the weights of turns.
    """
    plan = mixture.plan
    if plan is None:
        raise VersionMismatch(
            "the dispatcher is of an older version and does not tell the weights of single turns: "
            "upgrade it, or leave out --turns"
        )
    sizes = [source.size for source in mixture.sources]
    turns = Turns(plan.stages, sizes, plan.stop, plan.max_epochs, plan.seed)
    found = shares_between(turns, [source.name for source in mixture.sources], begin, end)
    yield Text(f"mixture: turns {found.begin:,} to {found.end:,}")
    columns = ("source", "wanted>", "real>", "elements->", "passes->", "begins again at turn->")
    rows = (
        (
            one.name,
            _percent(one.wanted),
            _percent(one.real),
            f"{one.elements:,}",
            f"{one.passes:,}",
            "never" if one.repeats_at is None else f"{one.repeats_at:,}",
        )
        for one in found.sources
    )
    yield Grid(columns, rows)


def _rows(mixture: MixtureStats) -> Iterator[tuple[str, ...]]:
    handed = sum(source.handed for source in mixture.sources)
    acked = sum(source.acked for source in mixture.sources)
    for source in mixture.sources:
        yield (
            source.name,
            _percent(source.wanted),
            f"{source.handed:,} ({_percent(_ratio(source.handed, handed))})",
            f"{source.acked:,} ({_percent(_ratio(source.acked, acked))})",
            "endless" if source.size is None else f"{source.size:,}",
            f"{source.passes:,}",
            "never" if source.repeats_at is None else f"{source.repeats_at:,}",
        )


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
