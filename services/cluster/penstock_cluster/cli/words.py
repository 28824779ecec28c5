"""Counts, rates and versions as people read them."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from penstock.explanation.trouble import counted
from penstock.protocol.types import Versions


def more_of(count: int, noun: str) -> Iterator[Text]:
    """Yield a line that says how many there are beside those shown, if there are more."""
    if count > 0:
        yield Text(f"{counted(count, f'more {noun}')}: --all shows them", "dim")


def spoken(versions: Versions | None) -> str:
    """Return what a process runs, or nothing where that is not known."""
    return "" if versions is None else f"penstock {versions.penstock}, Python {versions.python}"


def rate(number: float) -> str:
    """Return a rate, with a digit behind the point where that says something.

    >>> rate(1234.5), rate(2.25)
    ('1,234', '2.2')
    """
    return f"{number:,.1f}" if 0 < number < 10 else f"{number:,.0f}"
