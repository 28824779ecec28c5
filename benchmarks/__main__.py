"""Ask questions of benchmarks, and write the answers down: ``python -m benchmarks all --peers``.

Each `bench_*.py` is run as it would be by hand, and ended when it takes too long. With ``--write``,
and after a whole run beside peers, the table of each goes to its page in `benchmarks/answers`,
between the marks of its name, and pictures of it to `docs/images/benchmarks`, which a page of the
docs shows. What stands outside the marks, and `benchmarks/README.md`, is written by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from measure import Figure, show  # noqa: E402  it lies beside the benchmarks
from pictures import grouped, picture  # noqa: E402

ANSWERS = HERE / "answers"
IMAGES = HERE.parent / "docs/images/benchmarks"
PAGE = HERE.parent / "docs/reference/benchmarks.md"
WITH_PEERS = frozenset({"peers", "files", "packing", "saved"})
LONG = frozenset({"hundred_thousand_passes", "many_passes"})
"""They take many minutes: they are asked for by name, and not with the others."""

WITHIN, WITH_PEERS_WITHIN = 240.0, 1500.0
"""Seconds that a benchmark gets, and one that asks peers."""


@dataclass(frozen=True)
class Answer:
    """What a benchmark printed."""

    name: str
    question: str
    machine: str
    figures: tuple[Figure, ...]


def known() -> tuple[str, ...]:
    """Return the names of all benchmarks."""
    return tuple(sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py")))


def asked(name: str, options: argparse.Namespace) -> Answer:
    """Return what the benchmark *name* answers.

    Raises:
        RuntimeError: when it fails, or takes too long.
    """
    command = [sys.executable, str(HERE / f"bench_{name}.py"), "--json"]
    if name in WITH_PEERS:
        command += ["--peers"] * options.peers + ["--quick"] * options.quick
    elif options.quick:
        command += ["--runs", "2"]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True, cwd=HERE.parent
    )
    try:
        out, _ = running.communicate(timeout=WITH_PEERS_WITHIN if name in WITH_PEERS else WITHIN)
    except subprocess.TimeoutExpired as exc:
        raise RuntimeError(f"{name} took more than {exc.timeout:.0f} s") from None
    finally:
        with suppress(ProcessLookupError):  # it has ended, and all that it started
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    if running.returncode:
        raise RuntimeError(f"{name} ended with {running.returncode}")
    return answer_of(name, json.loads(out.splitlines()[-1]))


def answer_of(name: str, printed: Mapping[str, Any]) -> Answer:
    """Return what was *printed* as JSON."""
    figures = tuple(Figure(**row) for row in printed["figures"])
    return Answer(name, printed["question"], printed["machine"], figures)


def table_of(answer: Answer) -> str:
    """Return the figures as a table in Markdown."""
    lines = ["| | median | spread | | ratio |", "| --- | --- | --- | --- | --- |"]
    for one in answer.figures:
        ratio = "" if one.ratio is None else f"{one.ratio:,.2f}"
        spread = f"{number(one.low)} to {number(one.high)}"
        lines.append(f"| {one.name} | {number(one.median)} | {spread} | {one.unit} | {ratio} |")
    lines += ["", f"{answer.machine}, {time.strftime('%Y-%m-%d')}."]
    return "\n".join(lines)


def number(value: float) -> str:
    """Return *value* with three digits that count."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def written(text: str, name: str, table: str) -> str:
    """Return *text* with *table* between the marks of *name*; without marks it stays as it is."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    block, marked = f"{begin}\n\n{table}\n\n{end}", f"{re.escape(begin)}.*?{re.escape(end)}"
    return re.sub(marked, lambda _: block, text, flags=re.DOTALL)


def new_page(answer: Answer) -> str:
    """Return a page for *answer* whose table is still to be written."""
    name, question = answer.name, answer.question
    title = f"# `bench_{name}.py`: {question[:1].lower()}{question[1:]}"
    return f"{title}\n\n<!-- {name} -->\n<!-- end of {name} -->\n"


def write(answer: Answer) -> None:
    """Write the table and the pictures of *answer*."""
    page = ANSWERS / f"{answer.name}.md"
    text = page.read_text() if page.exists() else new_page(answer)
    page.write_text(written(text, answer.name, table_of(answer)))
    IMAGES.mkdir(parents=True, exist_ok=True)
    for old in (*IMAGES.glob(f"{answer.name}-*.svg"), *IMAGES.glob(f"{answer.name}.svg")):
        old.unlink()
    for name, drawing in drawn(answer).items():
        (IMAGES / f"{name}.svg").write_text(drawing)
    PAGE.write_text(written(PAGE.read_text(), "pictures", shown(IMAGES)))


def drawn(answer: Answer) -> dict[str, str]:
    """Return pictures of *answer*, by their names: one, but of what is beside peers many."""
    groups = grouped(answer.question, answer.figures)
    if answer.name not in WITH_PEERS:
        return {answer.name: picture(answer.question, groups)}
    slugs = (re.sub(r"[^a-z0-9]+", "-", one.title.lower()).strip("-") for one in groups)
    return {
        f"{answer.name}-{slug}": picture(one.title, [one])
        for slug, one in zip(slugs, groups, strict=True)
    }


def shown(images: Path) -> str:
    """Return Markdown that shows all pictures, those beside peers first."""
    files = sorted(
        images.glob("*.svg"), key=lambda one: (not one.name.startswith(("peers", "files")), one)
    )
    lines = []
    for file in files:
        title = re.search(r'aria-label="(.*?)"', file.read_text())
        assert title is not None, file  # `bars` writes it
        lines.append(f"![{unescape(title[1])}](../images/benchmarks/{file.name})")
    return "\n\n".join(lines)


def chosen(names: Sequence[str]) -> tuple[str, ...]:
    """Return what to ask.

    Raises:
        ValueError: when there is no such benchmark.
    """
    if "all" in names:
        return tuple(name for name in known() if name not in LONG)
    if unknown := sorted(set(names) - set(known())):
        raise ValueError(f"no benchmark {', '.join(unknown)}: there are {', '.join(known())}")
    return tuple(names)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="+", help="all, or names: bench_NAME.py")
    parser.add_argument("--peers", action="store_true", help="beside peers, where they are")
    parser.add_argument("--quick", action="store_true", help="few runs of each, and shorter ones")
    parser.add_argument("--json", action="store_true", help="print JSON, a line for each")
    parser.add_argument("--write", action="store_true", help="write the answers and pictures")
    options = parser.parse_args()
    try:
        names = chosen(options.names)
    except ValueError as exc:
        parser.error(str(exc))
    writes = options.write or (options.peers and "all" in options.names and not options.quick)
    failed, began = [], time.monotonic()
    for number, name in enumerate(names, 1):
        passed = time.monotonic() - began
        print(f"{passed:5.0f} s: {name}, {number} of {len(names)} ...", file=sys.stderr)
        try:
            answer = asked(name, options)
        except RuntimeError as exc:
            failed.append(str(exc))
            continue
        show(answer.question, answer.figures, options.json)
        if writes:
            write(answer)
    if failed:
        sys.exit("; ".join(failed))


if __name__ == "__main__":
    main()
