"""Figures as bars: one SVG for each question, readable on light and on dark ground."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from measure import Figure

ROOM, VALUES, ROW, TOP = 300, 130, 26, 40
"""Pixels: of the longest bar, of what is written behind it, of a row, and above the first one."""

LETTER, LEAST = 6.6, 180
"""Pixels of a letter of a name, about; and of the column of names, at the least."""

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


def drawn(question: str, figures: Sequence[Figure]) -> Iterator[tuple[str, str]]:
    """Yield titles and pictures: of figures that begin with the same "title: ", in one unit.

    Those that are alone with theirs are drawn together, unit by unit, as the answer to *question*.
    """
    groups: dict[tuple[str, str], list[Figure]] = {}
    for one in figures:
        groups.setdefault((one.name.partition(": ")[0], one.unit), []).append(one)
    alone: dict[str, list[Figure]] = {}
    for (title, unit), rows in groups.items():
        if len(rows) == 1:
            alone.setdefault(unit, []).extend(rows)
        else:
            names = [one.name.removeprefix(f"{title}: ") for one in rows]
            yield title, bars(title, rows, names)
    for unit, rows in alone.items():
        if len(rows) > 1:
            title = question if len(alone) == 1 else f"{question} In {unit}"
            yield title, bars(question, rows, [one.name for one in rows])


def bars(title: str, rows: Sequence[Figure], names: Sequence[str]) -> str:
    """Return a picture of *rows*, the longest bar for the largest figure."""
    largest = max(one.high for one in rows) or 1.0
    beside = max(LEAST, round(LETTER * max(map(len, names))) + 12)
    title = f"{title} ({rows[0].unit})"
    width = max(beside + ROOM + VALUES, round(LETTER * 1.15 * len(title)))
    height = TOP + ROW * len(rows) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="0" y="20">{escape(title)}</text>',
    ]
    for number, (one, name) in enumerate(zip(rows, names, strict=True)):
        y = TOP + ROW * number
        long, low, high = (ROOM * value / largest for value in (one.median, one.low, one.high))
        ours = " ours" if name.startswith("Penstock") else ""
        lines += [
            f'<text x="0" y="{y + 14}">{escape(name)}</text>',
            f'<rect class="bar{ours}" x="{beside}" y="{y + 2}" width="{max(long, 1):.1f}" '
            f'height="16" rx="2"/>',
            f'<line class="spread" x1="{beside + low:.1f}" x2="{beside + high:.1f}" '
            f'y1="{y + 10}" y2="{y + 10}"/>',
            f'<text class="value" x="{beside + high + 8:.1f}" y="{y + 14}">{_said(one)}</text>',
        ]
    return "\n".join((*lines, "</svg>", ""))


def _said(one: Figure) -> str:
    value = f"{one.median:,.0f}" if one.median >= 100 else f"{one.median:.3g}"
    if one.ratio is None:
        return value
    return f"{value}  ({one.ratio:,.1f} ×)" if one.ratio >= 0.1 else f"{value}  ({one.ratio:.2g} ×)"
