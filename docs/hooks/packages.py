"""Draw the packages and their imports into docs/images/packages.svg, from the import graph.

`make drawing` runs it. `make check` fails if the code gives another picture, or if packages import
each other in a circle. A box is a package, or a module outside one, with the number of its modules.
An arrow goes from a package to one that it imports. There is no arrow where other arrows already
lead to that package (the transitive reduction).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from graphlib import TopologicalSorter
from html import escape
from itertools import pairwise
from pathlib import Path
from statistics import mean

import grimp

ROOT = Path(__file__).parents[2]
TOPS = ("client", "services/dispatcher", "services/worker", "services/cluster")
TARGET = ROOT / "docs/images/packages.svg"
SERVICES = ("penstock_cluster", "penstock_dispatcher", "penstock_worker", "penstock_health")
OPENED = {"penstock", "penstock.reader", *SERVICES[:-1]}
"""Packages that are drawn by their parts. All others are one box."""
STARTS = ("__main__", "command", "process", "server")
"""Modules of a service that put its parts together. They stand above these."""
GENERATED = "penstock.wire._pb"

BOX, ROW, GAP, MARGIN = (150, 36), 66, 14, 16
"""Pixels: width and height of a box, from row to row, between boxes of a row, and around all."""
ROUNDS = 24
"""How often rows are placed by their neighbours, down and up in turn. More change little."""

BEND, HEADED = "bend to ", ' marker-end="url(#head)"'

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328; text-anchor: middle }
  .size { font-size: 11px; fill: #57606a }
  .arrow { fill: none; stroke: #8c959f }
  .head { fill: #8c959f }
  rect { stroke: #57606a; fill: #f6f8fa }
  .service { fill: #ddf4ff } .core { fill: #fff8c5 } .reader { fill: #dafbe1 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .size { fill: #9198a1 } rect { fill: #212830 }
    .service { fill: #0c2d6b } .core { fill: #4b2900 } .reader { fill: #033a16 }
  }
"""


def box_of(module: str) -> str:
    """Return the box that *module* is drawn in."""
    parts = module.split(".")
    depth = 1
    while ".".join(parts[:depth]) in OPENED and depth < len(parts):
        depth += 1
    box, package = ".".join(parts[:depth]), ".".join(parts[:-1])
    if module in SERVICES:
        return f"{module}.server"  # its public names
    if module != box or module in OPENED or package == "penstock" or is_package(module):
        return box
    return f"{package}.server" if parts[-1] in STARTS else package


def is_package(module: str) -> bool:
    """Return whether *module* is a folder."""
    return any((ROOT / top / module.replace(".", "/")).is_dir() for top in TOPS)


def read() -> tuple[Counter[str], dict[str, set[str]]]:
    """Return the number of modules of each box, and the boxes that each imports."""
    graph = grimp.build_graph("penstock", *SERVICES, cache_dir=None)
    modules = {each for each in graph.modules if not each.startswith(GENERATED)} - {"penstock"}
    imports: dict[str, set[str]] = {box_of(module): set() for module in modules}
    for module in modules:
        found = graph.find_modules_directly_imported_by(module) & modules
        imports[box_of(module)] |= {box_of(each) for each in found} - {box_of(module)}
    return Counter(map(box_of, modules)), imports


def reduced(imports: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return *imports* without those that follow from the others."""
    reach: dict[str, set[str]] = {}
    for box in TopologicalSorter(imports).static_order():
        direct = imports.get(box, set())
        reach[box] = direct.union(*(reach[each] for each in direct))
    return {
        box: {each for each in direct if not any(each in reach[other] for other in direct)}
        for box, direct in imports.items()
    }


def rows_of(arrows: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the boxes by rows: each stands just above the highest that it imports."""
    height: dict[str, int] = {}
    for box in TopologicalSorter(arrows).static_order():
        height[box] = 1 + max((height[each] for each in arrows[box]), default=-1)
    rows: list[list[str]] = [[] for _ in range(max(height.values()) + 1)]
    for box in sorted(height):
        rows[-1 - height[box]].append(box)
    return rows


def with_bends(
    rows: list[list[str]], arrows: Mapping[str, set[str]]
) -> tuple[list[list[str]], dict[str, list[str]]]:
    """Return *rows* and *arrows* with a bend in each row that an arrow crosses.

    All arrows to one box share their bends, so they join on their way.
    """
    row = {box: i for i, boxes in enumerate(rows) for box in boxes}
    rows, steps = [list(boxes) for boxes in rows], {box: list[str]() for box in row}
    for box, others in sorted(arrows.items()):
        for other in sorted(others):
            before = box
            for i in range(row[box] + 1, row[other]):
                bend = f"{BEND}{other} {i}"
                if bend not in steps:
                    steps[bend] = []
                    rows[i].append(bend)
                steps[before] += [] if bend in steps[before] else [bend]
                before = bend
            steps[before] += [] if other in steps[before] else [other]
    return rows, steps


def placed(rows: list[list[str]], steps: Mapping[str, list[str]]) -> dict[str, float]:
    """Return how far right the middle of each box and bend is.

    Rows are ordered, and boxes pulled, towards the mean of their neighbours, down and up in turn.
    This is the barycentre rule of Sugiyama, Tagawa and Toda, 1981.
    """
    above = {box: [each for each, below in steps.items() if box in below] for box in steps}
    at = {box: (i - len(row) / 2) * (BOX[0] + GAP) for row in rows for i, box in enumerate(row)}
    for turn in range(ROUNDS):
        near = above if turn % 2 == 0 else steps
        for row in rows if turn % 2 == 0 else reversed(rows):
            wanted = {
                box: sum(at[each] for each in near[box]) / len(near[box]) if near[box] else at[box]
                for box in row
            }
            if turn < ROUNDS / 2:
                row.sort(key=lambda box: (wanted[box], box))
            at |= apart(row, wanted)
    left = min(at.values())
    return {box: x - left + MARGIN + BOX[0] / 2 for box, x in at.items()}


def apart(row: list[str], wanted: Mapping[str, float]) -> dict[str, float]:
    """Return places near the *wanted* ones, in the order of *row*, at which nothing overlaps."""
    offsets = [0.0]
    for one, two in pairwise(row):
        offsets.append(offsets[-1] + (width_of(one) + width_of(two)) / 2 + GAP)
    groups: list[list[float]] = []  # neighbours that touch: each one's wanted place less its offset
    for box, offset in zip(row, offsets, strict=True):
        groups.append([wanted[box] - offset])
        while len(groups) > 1 and mean(groups[-2]) > mean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    starts = [mean(group) for group in groups for _ in group]
    return {box: start + offset for box, start, offset in zip(row, starts, offsets, strict=True)}


def width_of(box: str) -> int:
    """Return the pixels that *box* is wide."""
    return 0 if box.startswith(BEND) else BOX[0]


def kind(box: str) -> str:
    """Return the class of *box* in the style sheet."""
    if box.endswith(".core"):
        return "core"
    return "service" if box.startswith(SERVICES) else "reader" if ".reader" in box else ""


def drawn(sizes: Mapping[str, int], arrows: Mapping[str, set[str]]) -> str:
    """Return the picture."""
    rows, steps = with_bends(rows_of(arrows), arrows)
    at = placed(rows, steps)
    top = {box: MARGIN + i * ROW for i, row in enumerate(rows) for box in row}
    width = round(max(at.values()) + BOX[0] / 2 + MARGIN)
    height = 2 * MARGIN + (len(rows) - 1) * ROW + BOX[1]
    parts = []
    for box, x in sorted(at.items()):
        y = top[box] + BOX[1]
        if box.startswith(BEND):
            parts.append(f'<path class="arrow" d="M{x:.0f} {y - BOX[1]}V{y}"/>')
        for other in steps[box]:
            bend = other.startswith(BEND)
            end, middle = top[other] - (0 if bend else 5), (y + top[other]) / 2
            to = f"{at[other]:.0f}"
            curve = f"M{x:.0f} {y}C{x:.0f} {middle:.0f} {to} {middle:.0f} {to} {end}"
            parts.append(f'<path class="arrow" d="{curve}"{"" if bend else HEADED}/>')
    for box, x in sorted((box, x) for box, x in at.items() if not box.startswith(BEND)):
        y, name = top[box], escape(box.removeprefix("penstock.").removeprefix("penstock_"))
        size = f"{sizes[box]} modules" if sizes[box] > 1 else "1 module"
        parts.append(
            f'<rect class="{kind(box)}" x="{x - BOX[0] / 2:.0f}" y="{y}" width="{BOX[0]}" '
            f'height="{BOX[1]}" rx="5"/><text x="{x:.0f}" y="{y + 16}">{name}</text>'
            f'<text class="size" x="{x:.0f}" y="{y + 30}">{size}</text>'
        )
    head = '<marker id="head" viewBox="0 0 6 6" refX="3" refY="3" markerWidth="7" markerHeight="7" '
    head += 'orient="auto"><path class="head" d="M0 0L6 3L0 6z"/></marker>'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
            f"<style>{STYLE}</style><defs>{head}</defs>",
            *parts,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    sizes, imports = read()
    TARGET.write_text(drawn(sizes, reduced(imports)), encoding="utf-8")
