"""The pages of the documentation, and the blocks of code in them.

What becomes of a block is said by its kind:

    python      runs; all blocks of a page in their order, in one process
    console     commands behind ``$``, and what they print: run there too, in between
    text        behind a ``python`` block: what that printed; else nothing
    sh          does not run here (a container engine, another machine); its commands and options
                must exist
    json yaml toml   must be readable

A comment ``<!-- needs X -->`` before a ``python`` block: it runs where X can be imported, and is
compiled elsewhere. ``localhost:7000`` is a cluster that `penstock up` runs, on another port.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
STANDALONE = tuple(
    ROOT / name
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "examples/README.md")
)
"""Pages whose blocks are programs of their own."""
PAGES = (*STANDALONE, *sorted(DOCS.rglob("*.md")))

FRAMEWORKS = DOCS / "how-to" / "frameworks"
"""Pages whose blocks run where the frameworks are: `make test-frameworks`."""

UP_LOG = "DOCS_UP_LOG"
"""The variable that names the file with what `penstock up` has printed."""

_FENCE = re.compile(
    r"(?:<!-- needs (?P<needs>[\w.]+) -->\n+)?"
    r"^(?P<indent> *)```(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    kind: str
    text: str
    line: int
    needs: str | None = None


def name(page):
    return str(page.relative_to(ROOT))


def blocks(page):
    text = page.read_text()
    return [
        Block(
            found["kind"],
            re.sub(f"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
            text.count("\n", 0, found.start("text")) + 1,
            found["needs"],
        )
        for found in _FENCE.finditer(text)
    ]


def commands(text):
    """The commands of a ``console`` block, each with the output that is shown behind it."""
    found = []
    for line in text.splitlines():
        if found and found[-1][0].endswith("\\"):
            found[-1] = (found[-1][0][:-1].rstrip() + " " + line.removeprefix(">").strip(), "")
        elif line.startswith("$ "):
            found.append((line[2:], ""))
        else:
            command, shown = found[-1]
            found[-1] = (command, shown + line + "\n")
    return found


def script(page, given):
    """A program that runs the *given* blocks of *page*; `driver` has what it calls."""
    lines = ["from driver import console as _console, shows as _shows, skips as _skips"]
    before = ""
    for block in given:
        place = f"{name(page)}:{block.line}"
        if block.kind == "python" and block.needs:
            body = block.text.replace("\n", "\n    ").rstrip()
            lines.append(f"if not _skips({block.needs!r}):\n    {body}")
        elif block.kind == "python":
            lines.append(f"# {place}\n{block.text}")
        elif block.kind == "console":
            lines.append(f"_console({place!r}, {commands(block.text)!r})")
        elif block.kind == "text" and before == "python":
            lines.append(f"_shows({place!r}, {block.text!r})")
        before = block.kind
    return "\n\n".join(lines)
