"""Every write, one after another: ``python -m chaos.writes``, from the folder of tests."""

from __future__ import annotations

import argparse
import faulthandler
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from chaos.writes.preload import How, Order, compiled
from chaos.writes.scenario import Kill, play
from chaos.writes.supervised import Warm

STUCK = 300.0
"""Seconds in which a run is over; else it says where it stands, and all ends."""


ROUND = 23
"""With --twice the second kill comes up to so many calls behind the first: while it is repaired."""


def main() -> int:
    """Kill at one call after another, and print what came of it."""
    parser = argparse.ArgumentParser(prog="chaos.writes", description=__doc__)
    parser.add_argument("--first", type=int, default=1, help="the first call to kill at")
    parser.add_argument("--last", type=int, default=1 << 30, help="the last one")
    parser.add_argument("--every", type=int, default=1, help="so many calls further each time")
    parser.add_argument("--twice", action="store_true", help="kill once more behind the restart")
    names = [how.name.lower() for how in How]
    parser.add_argument("--how", choices=names, nargs="*", default=names, help="each, by default")
    parser.add_argument("--folder", type=Path, default=None, help="where failures stay")
    given = parser.parse_args()
    top = given.folder or Path(tempfile.mkdtemp(prefix="penstock-writes-"))
    top.mkdir(parents=True, exist_ok=True)
    library = compiled(top)
    if library is None:
        print("there is no C compiler here (cc)", file=sys.stderr)
        return 2
    runs = Runs(top, twice=given.twice)
    with Order(library, top / "order", top / "work") as order, Warm(order) as warm:
        for how in [How[name.upper()] for name in given.how]:
            at = given.first
            while at <= given.last and runs.one(warm, order, Kill(at, how)):
                at += given.every
    print(runs)
    return int(runs.failed > 0)


class Runs:
    """What all runs came to; those that failed stay in *folder*."""

    def __init__(self, folder: Path, *, twice: bool) -> None:
        self._folder, self._twice = folder, twice
        self._began = time.monotonic()
        self.runs = self.kills = self.failed = 0
        self.hits: Counter[str] = Counter()

    def one(self, warm: Warm, order: Order, kill: Kill) -> bool:
        """Kill at a call; return False if there are not so many."""
        name = kill.how.name.lower()
        folder = self._folder / f"{name} {kill.at}"
        if self._twice:
            kill = replace(kill, again=1 + kill.at % ROUND)
        faulthandler.dump_traceback_later(STUCK, exit=True)
        played = play(warm, order, kill, self._folder / "work", folder)
        faulthandler.cancel_dump_traceback_later()
        self.runs += 1
        self.kills += played.kills
        if played.hit is not None:
            self.hits[f"{name} {played.hit.kind}"] += 1
        if played.problems:
            self.failed += 1
            print(f"FAILED {kill}, {played.hit}; files: {folder}")
            print("    " + "\n".join(played.problems).replace("\n", "\n    "), flush=True)
            shutil.copytree(self._folder / "work", folder / "work")
        else:
            shutil.rmtree(folder)
        if self.runs % 50 == 0:
            print(f"{kill}: {self}", flush=True)
        return played.hit is not None

    def __str__(self) -> str:
        seconds = time.monotonic() - self._began
        kinds = ", ".join(f"{name} {number}" for name, number in self.hits.most_common())
        return (
            f"{self.runs} runs, {self.kills} kills in {seconds:.0f} s, "
            f"{self.failed} failed: {kinds}"
        )


if __name__ == "__main__":
    sys.exit(main())
