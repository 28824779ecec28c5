"""Many schedules: ``python -m simulation --schedules 100000``, and what came of them.

``--seed 7 --schedules 1 --trace`` plays one again, line by line; ``--without`` breaks one of the
rules on purpose (`--without all`: one after another, until a law misses it). ``--kind`` says how
readers share the job, and ``--storm 20`` brings so many more faults to each schedule.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from enum import Enum
from functools import partial
from itertools import islice
from pathlib import Path

from simulation import (
    broken_rounds_rules,
    broken_rules,
    cache_mesh,
    cache_rules,
    mesh,
    mixed_mesh,
    ordered_mesh,
    rounds_mesh,
    saved_mesh,
    saved_rules,
    static_mesh,
)
from simulation.rules import Rule
from simulation.storm import Storm, blowing
from simulation.world import LawBroken

CHUNK = 50
ALL = "all"


class Kind(Enum):
    """How readers share what is simulated."""

    PLAIN = "plain"
    ROUNDS = "rounds"
    CACHE = "cache"
    ORDERED = "ordered"
    STRIDED = "strided"
    STATIC = "static"
    MIXED = "mixed"
    SAVED = "saved"

    @property
    def rules(self) -> Mapping[str, Rule]:
        """The rules that can be broken."""
        own = {
            Kind.ROUNDS: broken_rounds_rules.RULES,
            Kind.CACHE: cache_rules.RULES,
            Kind.SAVED: saved_rules.RULES,
        }
        return own.get(self, broken_rules.RULES)

    def judge(self, seed: int, *, trace: bool = False) -> tuple[str, Counter[str]]:
        """Run one schedule; return the law that it breaks, if any, and what happened in it."""
        try:
            return "", RUNS[self](seed, trace=trace)
        except LawBroken as law:
            return str(law), Counter()
        except Exception as bug:  # noqa: BLE001  a core that raises is wrong, whatever it raises
            where = traceback.extract_tb(bug.__traceback__)[-1]
            place = f"{Path(where.filename).name}, line {where.lineno}"
            return f"{type(bug).__name__} in {place}: {bug}", Counter()

    def broken(self, rule: str) -> ExitStack:
        """Break a rule until the stack is closed; none, if none is named."""
        stack = ExitStack()
        if rule:
            stack.enter_context(self.rules[rule].broken())
        return stack


def main() -> int:
    """Run schedules, print the seeds that break a law, and sum up."""
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first schedule")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--trace", action="store_true", help="tell all that happens")
    parser.add_argument("--without", default="", help="the rule to break, or 'all'")
    parser.add_argument(
        "--kind",
        choices=[*(kind.value for kind in Kind), ALL],
        default=Kind.PLAIN.value,
        help=f"how readers share a job; {ALL}: each kind in turn, with all the schedules",
    )
    parser.add_argument("--storm", type=int, default=0, help="faults more in each schedule")
    given = parser.parse_args()
    kinds = list(Kind) if given.kind == ALL else [Kind(given.kind)]
    return max(_run(kind, given) for kind in kinds)


def _run(kind: Kind, given: argparse.Namespace) -> int:
    seeds = range(given.seed, given.seed + given.schedules)
    storm = Storm(given.storm)
    if given.without == "all":
        return _break_all(kind, seeds, given.jobs)
    if given.trace:
        with kind.broken(given.without), blowing(storm):
            for seed in seeds:
                print(f"seed {seed}: {kind.judge(seed, trace=True)[0] or 'no law is broken'}")
        return 0
    began = time.monotonic()
    found, stats = 0, Counter[str]()
    for seed, law, more in _judged(kind, seeds, given.without, given.jobs, storm=storm):
        stats += more
        if law:
            found += 1
            print(f"{kind.value} seed {seed}: {law}", flush=True)
    seconds = time.monotonic() - began
    print(
        f"{kind.value}: {len(seeds)} schedules with {faults_in(stats)} faults in {seconds:.0f} s "
        f"({len(seeds) / seconds:.0f} a second); {found} break a law"
    )
    print(", ".join(f"{name} {number}" for name, number in sorted(stats.items())))
    return int(found > 0)


def _break_all(kind: Kind, seeds: range, jobs: int) -> int:
    missed = 0
    for name in kind.rules:
        broken = (
            (seed, law) for seed, law, _ in _judged(kind, seeds, name, jobs, stop=True) if law
        )
        first = next(broken, None)
        missed += first is None
        told = f"seed {first[0]}: {first[1]}" if first else "NO LAW MISSES IT"
        print(f"without {name}: {told}", flush=True)
    return int(missed > 0)


def faults_in(stats: Mapping[str, int]) -> int:
    """Return how many faults there were: those on purpose, and lines that broke by chance."""
    return sum(n for name, n in stats.items() if name.startswith("fault: ") or name in BY_CHANCE)


def _judged(
    kind: Kind,
    seeds: range,
    without: str,
    jobs: int,
    *,
    stop: bool = False,
    storm: Storm = Storm(),
) -> Iterable[tuple[int, str, Counter[str]]]:
    chunks = (seeds[i : i + CHUNK] for i in range(0, len(seeds), CHUNK))
    if jobs == 1:
        for chunk in chunks:
            yield from _judge(kind, storm, chunk, without, stop=stop)
        return
    with ProcessPoolExecutor(jobs) as pool:
        while batch := list(islice(chunks, 4 * jobs)):
            for results in pool.map(partial(_judge, kind, storm), batch, [without] * len(batch)):
                yield from results


def _judge(
    kind: Kind, storm: Storm, seeds: range, without: str, *, stop: bool = False
) -> list[tuple[int, str, Counter[str]]]:
    results: list[tuple[int, str, Counter[str]]] = []
    with kind.broken(without), blowing(storm):
        for seed in seeds:
            results.append((seed, *kind.judge(seed)))
            if stop and results[-1][1]:
                break
    return results


RUNS: Mapping[Kind, Callable[..., Counter[str]]] = {
    Kind.PLAIN: mesh.run,
    Kind.ROUNDS: rounds_mesh.run,
    Kind.CACHE: cache_mesh.run,
    Kind.ORDERED: ordered_mesh.run,
    Kind.STRIDED: partial(ordered_mesh.run, consumers=True),
    Kind.STATIC: static_mesh.run,
    Kind.MIXED: mixed_mesh.run,
    Kind.SAVED: saved_mesh.run,
}

BY_CHANCE = ("line broken", "links that never come up")


if __name__ == "__main__":
    sys.exit(main())
