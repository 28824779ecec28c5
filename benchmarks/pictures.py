"""Figures as bars: one SVG for each question, readable on light and on dark ground."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from measure import Figure

WIDTH, NAMES, ROW, TOP = 760, 330, 26, 40
"""Pixels: of all, of the column of names, of a row, and above the first one."""

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


def drawn(figures: Sequence[Figure]) -> Iterator[tuple[str, str]]:
    """Yield a title and its picture for figures whose names begin with the same "title: "."""
    for title, group in groupby(figures, key=lambda one: one.name.partition(": ")[0]):
        rows = list(group)
        if len(rows) > 1:
            yield title, bars(title, rows)


def bars(title: str, rows: Sequence[Figure]) -> str:
    """Return a picture of *rows*, the longest bar for the largest figure."""
    largest = max(one.high for one in rows) or 1.0
    room = WIDTH - NAMES - 130
    height = TOP + ROW * len(rows) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="0" y="20">{escape(title)} ({escape(rows[0].unit)})</text>',
    ]
    for number, one in enumerate(rows):
        name = one.name.partition(": ")[2] or one.name
        y = TOP + ROW * number
        long, low, high = (room * value / largest for value in (one.median, one.low, one.high))
        ours = " ours" if name.startswith("Penstock") else ""
        lines += [
            f'<text x="0" y="{y + 14}">{escape(name)}</text>',
            f'<rect class="bar{ours}" x="{NAMES}" y="{y + 2}" width="{max(long, 1):.1f}" '
            f'height="16" rx="2"/>',
            f'<line class="spread" x1="{NAMES + low:.1f}" x2="{NAMES + high:.1f}" '
            f'y1="{y + 10}" y2="{y + 10}"/>',
            f'<text class="value" x="{NAMES + high + 8:.1f}" y="{y + 14}">{_said(one)}</text>',
        ]
    return "\n".join((*lines, "</svg>", ""))


def _said(one: Figure) -> str:
    value = f"{one.median:,.0f}" if one.median >= 100 else f"{one.median:.3g}"
    if one.ratio is None:
        return value
    return f"{value}  ({one.ratio:,.1f} ×)" if one.ratio >= 0.1 else f"{value}  ({one.ratio:.2g} ×)"
