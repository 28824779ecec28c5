"""Tables that fit the screen, and counts and rates as text.

Columns are left out or wrapped; no name or address is cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from penstock.explanation.trouble import counted
from penstock.protocol.types import Versions

NARROWEST = 12
"""The least width of a wrapped column, in characters."""


class Grid:
    """A table of *rows* under *columns*, with marks behind a column's name.

    ``>`` aligns the column to the right. If the screen is too narrow, ``~`` wraps the column
    between words, and ``-`` leaves it out; of several, the last one goes first.
    """

    def __init__(self, columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
        self._names = [column.rstrip("~->") for column in columns]
        self._marks = [
            column[len(name) :] for column, name in zip(columns, self._names, strict=True)
        ]
        self._rows = [[_text(cell) for cell in row] for row in rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """See `rich.console.ConsoleRenderable`."""
        room = options.max_width
        shown = list(range(len(self._names)))
        while (excess := self._width(console, options, shown) - room) > 0:
            leaving = [i for i in shown if "-" in self._marks[i]]
            if not leaving:
                break
            shown.remove(leaving[-1])
        yield self._table(shown, max(0, excess))

    def _width(self, console: Console, options: ConsoleOptions, shown: list[int]) -> int:
        wide = options.update(width=100_000)
        return Measurement.get(console, wide, self._table(shown)).maximum

    def _table(self, shown: list[int], excess: int = 0) -> Table:
        table = Table()
        for i in shown:
            name, width = self._names[i], None
            if excess and "~" in self._marks[i]:
                natural = max(len(name), *(row[i].cell_len for row in self._rows))
                width, excess = max(NARROWEST, natural - excess), 0
            right: JustifyMethod = "right" if ">" in self._marks[i] else "left"
            table.add_column(name, justify=right, width=width, overflow="fold")
        for row in self._rows:
            table.add_row(*(row[i] for i in shown))
        return table


def _text(cell: str | Text) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)  # names are no markup


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
