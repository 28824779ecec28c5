"""Tables that fit the screen: columns are left out or wrapped; no name or address is cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

NARROWEST = 12
"""The least width of a wrapped column, in characters."""


class Give(Enum):
    """How a column changes if the screen is too narrow."""

    NOTHING = "nothing"
    LEAVE = "leave"
    """The column is left out; of several, the last one goes first."""
    WRAP = "wrap"
    """The column is wrapped between words."""


@dataclass(frozen=True, slots=True)
class GridColumn:
    """A column, and how it changes if the screen is too narrow."""

    name: str
    give: Give = Give.NOTHING
    justify: Literal["left", "right"] = "left"


class Grid:
    """A table of *rows* under *columns*."""

    def __init__(self, columns: Sequence[GridColumn], rows: Iterable[Sequence[str | Text]]) -> None:
        self._columns = columns
        self._rows = [[_text(cell) for cell in row] for row in rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """See `rich.console.ConsoleRenderable`."""
        room = options.max_width
        shown = list(range(len(self._columns)))
        while (excess := self._width(console, options, shown) - room) > 0:
            leaving = [i for i in shown if self._columns[i].give is Give.LEAVE]
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
            column = self._columns[i]
            width = None
            if excess and column.give is Give.WRAP:
                natural = max(len(column.name), *(row[i].cell_len for row in self._rows))
                width, excess = max(NARROWEST, natural - excess), 0
            table.add_column(column.name, justify=column.justify, width=width, overflow="fold")
        for row in self._rows:
            table.add_row(*(row[i] for i in shown))
        return table


def _text(cell: str | Text) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)  # names are no markup
