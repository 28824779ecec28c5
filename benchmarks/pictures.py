"""Figures as bars: one SVG for each question, readable on light and on dark ground."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from measure import Figure

ROOM, VALUES, ROW, TOP = 300, 130, 26, 40
"""Pixels: of the longest bar, of what is written behind it, of a row, and above the first one."""

LETTER, BOLD_LETTER, LEAST = 7.6, 8.4, 180
"""Pixels of a letter of a name, and of a title, about; of the column of names, at the least."""

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600 }
  .value { fill: #57606a }
  .bar { fill: #8c959f }
  .ours { fill: #0969da }
  .spread { stroke: #1f2328; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .value { fill: #9198a1 } .bar { fill: #59636e }
    .ours { fill: #4493f8 } .spread { stroke: #e6edf3 }
  }
"""


@dataclass(frozen=True)
class Group:
    """Figures that are compared: of one unit, each with the name of its row."""

    title: str
    rows: tuple[Figure, ...]
    names: tuple[str, ...]

    @property
    def heading(self) -> str:
        """What stands above it."""
        return f"{self.title} ({self.rows[0].unit})"

    @property
    def beside(self) -> int:
        """How far right its bars begin."""
        return max(LEAST, round(LETTER * max(map(len, self.names))) + 12)

    @property
    def width(self) -> int:
        """Pixels from left to right."""
        return max(self.beside + ROOM + VALUES, round(BOLD_LETTER * len(self.heading)))

    @property
    def height(self) -> int:
        """Pixels from top to bottom."""
        return TOP + ROW * len(self.rows) + 10


def grouped(question: str, figures: Sequence[Figure]) -> list[Group]:
    """Return groups of figures that begin with the same "title: ", in one unit.

    Those that are alone with theirs come together, unit by unit, as the answer to *question*.
    """
    by_title: dict[tuple[str, str], list[Figure]] = {}
    for one in figures:
        by_title.setdefault((one.name.partition(": ")[0], one.unit), []).append(one)
    found: list[Group] = []
    alone: dict[str, list[Figure]] = {}
    for (title, unit), rows in by_title.items():
        if len(rows) == 1:
            alone.setdefault(unit, []).extend(rows)
        else:
            names = (one.name.removeprefix(f"{title}: ") for one in rows)
            found.append(Group(title, tuple(rows), tuple(names)))
    for rows in alone.values():
        title = "all" if found or len(alone) > 1 else question
        found.append(Group(title, tuple(rows), tuple(one.name for one in rows)))
    return found


def picture(title: str, groups: Sequence[Group]) -> str:
    """Return an SVG of *groups*, one below the other."""
    width, height = max(one.width for one in groups), sum(one.height for one in groups)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
    ]
    top = 0
    for group in groups:
        lines += [f'<g transform="translate(0 {top})">', *_bars(group), "</g>"]
        top += group.height
    return "\n".join((*lines, "</svg>", ""))


def _bars(group: Group) -> Iterator[str]:
    """Yield a heading and a bar for each row, the longest one for the largest figure."""
    largest = max(one.high for one in group.rows) or 1.0
    beside = group.beside
    yield f'<text class="title" x="0" y="20">{escape(group.heading)}</text>'
    for number, (one, name) in enumerate(zip(group.rows, group.names, strict=True)):
        y = TOP + ROW * number
        long, low, high = (ROOM * value / largest for value in (one.median, one.low, one.high))
        ours = " ours" if name.startswith("Penstock") else ""
        yield f'<text x="0" y="{y + 14}">{escape(name)}</text>'
        yield (
            f'<rect class="bar{ours}" x="{beside}" y="{y + 2}" width="{max(long, 1):.1f}" '
            f'height="16" rx="2"/>'
        )
        yield (
            f'<line class="spread" x1="{beside + low:.1f}" x2="{beside + high:.1f}" '
            f'y1="{y + 10}" y2="{y + 10}"/>'
        )
        x = beside + high + 8
        yield f'<text class="value" x="{x:.1f}" y="{y + 14}">{_said(one)}</text>'


def _said(one: Figure) -> str:
    value = f"{one.median:,.0f}" if one.median >= 100 else f"{one.median:.3g}"
    if one.ratio is None:
        return value
    return f"{value}  ({one.ratio:,.1f} ×)" if one.ratio >= 0.1 else f"{value}  ({one.ratio:.2g} ×)"
