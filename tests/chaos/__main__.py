"""Chaos for as long as you like: ``python -m chaos --minutes 30 --seed 1``."""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

from chaos.draws import DRAWS, draw, kind_of
from chaos.dress import Dress
from chaos.plan import Cached, Kind, Ordered, Plan, Rounds, Saved
from chaos.run import Outcome, run


def main() -> int:
    """Run random plans, print a line for each, and sum up."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=None, help="of the first run")
    parser.add_argument("--runs", type=int, default=None, help="end after so many")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--load", type=int, default=0, help="busy processes beside the runs")
    parser.add_argument(
        "--kind",
        choices=[*DRAWS, "all"],
        default="all",
        help="how readers share what there is: first come, in rounds, as trainers, in one order; "
        "or that it is saved",
    )
    parser.add_argument(
        "--transport",
        choices=["grpc", "shm"],
        help="how frames come to readers; no link between them fails with shm; drawn by default",
    )
    parser.add_argument(
        "--tls", choices=["on", "off"], help="whether all have credentials; drawn by default"
    )
    parser.add_argument("--slots", type=int, help="how many a worker has; drawn by default")
    parser.add_argument("--density", type=int, default=4, help="how many times as many faults")
    parser.add_argument("--show", action="store_true", help="print the plans")
    parser.add_argument("--folder", type=Path, default=None, help="where failures stay")
    given = parser.parse_args()
    first = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    folder = given.folder or Path(tempfile.mkdtemp(prefix="penstock-chaos-"))
    beside = f" beside a load of {given.load}" if given.load else ""
    print(
        f"chaos for {given.minutes:g} minutes from seed {first}{beside}; failures stay in {folder}",
        flush=True,
    )
    with busy(given.load):
        summary = play(given, first, folder)
    print(summary)
    return 1 if summary.failed else 0


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep *count* processes computing: machines that fail are seldom idle ones."""
    load = [subprocess.Popen([sys.executable, "-c", COMPUTE]) for _ in range(count)]
    try:
        yield
    finally:
        for process in load:
            process.kill()
            process.wait()


def play(given: argparse.Namespace, first: int, folder: Path) -> Summary:
    """Run random plans from seed *first* on, until the time or the number given is reached."""
    summary = Summary(given.kind)
    secured = None if given.tls is None else given.tls == "on"
    dress = Dress(given.transport, secured, given.slots, given.density)
    until = time.monotonic() + 60 * given.minutes
    under_way: dict[Future[Outcome], Plan] = {}
    with ThreadPoolExecutor(given.jobs) as pool:
        seed = first
        while True:
            while (
                len(under_way) < given.jobs
                and time.monotonic() < until
                and (given.runs is None or seed < first + given.runs)
            ):
                plan = dress.on(draw(given.kind, seed), kind_of(given.kind, seed))
                if given.show:
                    print(f"seed {seed}: {plan}")
                under_way[pool.submit(run, plan, folder / str(seed))] = plan
                seed += 1
            if not under_way:
                break
            done, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                summary.add(under_way.pop(future), future.result(), folder)
    return summary


class Summary:
    """What all runs came to."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.runs = self.logged = self.redelivered = self.missed = 0
        self.changes = 0
        """How many changes of weights passes had that came to their end."""
        self.seconds = 0.0
        self.began = time.monotonic()
        self.stuck = self.left_over = self.most_files = self.most_memory = 0
        self.dressed: Counter[str] = Counter()
        """How many runs were of which kind, by which transport, with TLS."""
        self.failed: list[int] = []
        self.told: Counter[str] = Counter()
        self.faults: Counter[Kind] = Counter()
        self.account: Counter[str] = Counter()

    def add(self, plan: Plan, outcome: Outcome, folder: Path) -> None:
        """Count a run, and print its line."""
        self.runs += 1
        self.logged += outcome.logged
        self.redelivered += outcome.redelivered
        self.missed += outcome.missed
        self.told += outcome.told
        self.seconds += outcome.seconds
        self.faults += outcome.faults
        self.stuck += any(problem.startswith("not over") for problem in outcome.problems)
        self.left_over += sum(problem.startswith("left over") for problem in outcome.problems)
        self.most_files = max(self.most_files, outcome.most_files)
        self.most_memory = max(self.most_memory, outcome.most_memory)
        self.dressed += Counter([kind_of(self.kind, plan.seed), plan.transport])
        self.dressed["TLS"] += plan.secured
        self.changes += outcome.changes
        accounts = outcome.accounts
        sums = {name: sum(getattr(it, name) for it in accounts) for name in SUMS}
        self.account.update(sums)
        words = ", ".join(f"{name} {number}" for name, number in sums.items() if number)
        words += "" if all(it.bounded for it in accounts) else ", doubt without bound"
        words += f", {outcome.changes} changes of weights" if outcome.changes else ""
        print(
            f"{'FAILED' if outcome.problems else 'ok':6} seed {plan.seed:<7} "
            f"{outcome.seconds:5.1f} s  {outcome.stall:4.1f} s stall  "
            f"{outcome.faults.total():2} faults  {outcome.logged:6} consumed  "
            f"{len(plan.lives)} lives  "
            f"{plan.transport}{'+tls' if plan.secured else '':4} "
            f"{plan.mode.split('_')[0]:11} {plan.pipeline}|{plan.local}{_shared(plan)}: {words}",
            flush=True,
        )
        if outcome.problems:
            self.failed.append(plan.seed)
            for problem in outcome.problems:
                print("    " + problem.replace("\n", "\n    "))
            print(
                f"    files: {folder / str(plan.seed)}; "
                f"again: make chaos RUNS=1 SEED={plan.seed}{self._kind}",
                flush=True,
            )

    @property
    def _kind(self) -> str:
        return f" KIND={self.kind}"

    def __str__(self) -> str:
        seeds = ": seeds " + ", ".join(map(str, self.failed)) if self.failed else ""
        kinds = ", ".join(f"{kind.value} {n}" for kind, n in self.faults.most_common())
        sums = ", ".join(f"{name} {n}" for name, n in self.account.items())
        wall = time.monotonic() - self.began
        missed = f", {self.missed} went by who was away" if self.missed else ""
        lines = [
            f"{self.runs} runs, {wall / 60:.1f} minutes, {len(self.failed)} failed{seeds}",
            "runs: " + ", ".join(f"{name} {n}" for name, n in self.dressed.most_common()),
            f"{self.faults.total()} faults, {self.faults.total() / wall:.2f} a second: {kinds}",
            (
                f"{self.stuck} hung, {self.left_over} processes, files or memory left over; "
                f"at most {self.most_files} files open in a service, and "
                f"{self.most_memory / 1e6:.0f} MB of memory"
            ),
            f"{self.logged} ids consumed, {self.redelivered} of them again{missed}",
            f"accounts: {sums}",
        ]
        if self.changes:
            lines.append(f"{self.changes} changes of weights, in passes that came to their end")
        if self.told:
            lines.append("told: " + ", ".join(f"{name} {n}" for name, n in self.told.items()))
        return "\n".join(lines)


def _shared(plan: Plan) -> str:
    """Return in a word who shares what there is."""
    match plan.sharing:
        case Rounds(consumers):
            return f" for {consumers} consumers"
        case Cached(trainers, when_full):
            return f" for {len(trainers)} trainers, {when_full}"
        case Ordered(consumers):
            return f" in one order for {consumers or 'no'} consumers"
        case Saved(order, remote, followers):
            where = "store" if remote else "disk"
            return f" saved to a {where} by {order}, {followers} followers"
        case _:
            return ""


COMPUTE = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
"""What a busy process runs: it ends by itself when the harness was killed."""

SUMS = (
    "elements",
    "produced",
    "replayed",
    "sent",
    "requeued",
    "acked",
    "consumed",
    "redelivered",
    "in_doubt",
    "unreported",
    "nondeterministic",
)


if __name__ == "__main__":
    sys.exit(main())
