"""Ask questions of benchmarks, and write the answers down: ``python -m benchmarks all --peers``.

Each `bench_*.py` is run as it would be by hand. With ``--write`` the table of each goes to
`benchmarks/README.md`, between the marks of its name, and a picture of it to `docs/images`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from measure import Figure, show  # noqa: E402  it lies beside the benchmarks
from pictures import drawn  # noqa: E402

README = HERE / "README.md"
IMAGES = HERE.parent / "docs/images/benchmarks"
WITH_PEERS = "peers"
LONG = frozenset({"hundred_thousand_passes", "many_passes", "memory", "dispatcher"})
"""They take many minutes: asked for by name, or with the others unless it is to be quick."""


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
        RuntimeError: when it fails.
    """
    command = [sys.executable, str(HERE / f"bench_{name}.py"), "--json"]
    if name == WITH_PEERS:
        command += ["--peers"] * options.peers + ["--quick"] * options.quick
    elif options.quick:
        command += ["--runs", "2"]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"{name} ended with {ran.returncode}")
    return answer_of(name, json.loads(ran.stdout.splitlines()[-1]))


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
    """Return *text* with *table* between the marks of *name*; at the end if it has none."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    block = f"{begin}\n\n{table}\n\n{end}"
    if begin not in text:
        return f"{text.rstrip()}\n\n## `bench_{name}.py`\n\n{block}\n"
    return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: block, text, flags=re.DOTALL)


def write(answer: Answer) -> None:
    """Write the table and the pictures of *answer*."""
    text = written(README.read_text(), answer.name, table_of(answer))
    README.write_text(text)
    IMAGES.mkdir(parents=True, exist_ok=True)
    for title, picture in drawn(answer.figures):
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
        (IMAGES / f"{answer.name}-{slug}.svg").write_text(picture)


def chosen(names: Sequence[str], *, quick: bool) -> tuple[str, ...]:
    """Return what to ask.

    Raises:
        ValueError: when there is no such benchmark.
    """
    if "all" in names:
        return tuple(name for name in known() if not (quick and name in LONG))
    if unknown := sorted(set(names) - set(known())):
        raise ValueError(f"no benchmark {', '.join(unknown)}: there are {', '.join(known())}")
    return tuple(names)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="+", help="all, or names: bench_NAME.py")
    parser.add_argument("--peers", action="store_true", help="beside peers, where they are")
    parser.add_argument("--quick", action="store_true", help="few runs, and not the longest")
    parser.add_argument("--json", action="store_true", help="print JSON, a line for each")
    parser.add_argument("--write", action="store_true", help="write the README and pictures")
    options = parser.parse_args()
    try:
        names = chosen(options.names, quick=options.quick)
    except ValueError as exc:
        parser.error(str(exc))
    failed = []
    for name in names:
        print(f"{name} ...", file=sys.stderr)
        try:
            answer = asked(name, options)
        except RuntimeError as exc:
            failed.append(str(exc))
            continue
        show(answer.question, answer.figures, options.json)
        if options.write:
            write(answer)
    if failed:
        sys.exit("; ".join(failed))


if __name__ == "__main__":
    main()
