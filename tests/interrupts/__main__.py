"""Interrupt every kind of loop: ``python -m tests.interrupts --interrupts 2000``."""

from __future__ import annotations

import argparse
import sys
import time

from penstock_cluster import LocalCluster
from tests.interrupts.count import interrupted
from tests.interrupts.loops import LOOPS
from tests.interrupts.strikes import Source


def main() -> int:
    """Run all loops with both signals, and print a line for each."""
    parser = argparse.ArgumentParser(prog="interrupts", description=__doc__)
    parser.add_argument("--interrupts", type=int, default=2000, help="of each loop, by each signal")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--loop", choices=LOOPS, action="append", help="only this one")
    given = parser.parse_args()
    failed = 0
    with LocalCluster(workers=2) as cluster:
        for name in given.loop or LOOPS:
            for source in Source:
                began = time.monotonic()
                found = interrupted(
                    LOOPS[name], cluster.target, source, given.interrupts, given.seed
                )
                failed += not found.right
                seconds = time.monotonic() - began
                word = "ok    " if found.right else "FAILED"
                print(f"{word} {name:30} {source.value:7} {found}, {seconds:.0f} s", flush=True)
                for error in found.errors:
                    print(f"       {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
