"""``python -m fuzz --inputs 200000 --seed 1``: damaged input by the thousand, and what came of it.

Each input may be read, or refused with an error of ours: no other error, no wait of over 5 seconds,
no memory far beyond its size. One that does otherwise is told with what brings it back. The engine
is "mutations", from chance alone, or "atheris", which keeps what reaches code that was not reached
before, and goes on from there (see `guided`).
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter

from fuzz import outside
from fuzz.judge import Judge
from fuzz.targets import TARGETS

ENGINES = ("mutations", "atheris")


def main():
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, default="mutations")
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--target", help="only this one")
    parser.add_argument("--only", type=int, help="only the input of this number")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    found = 0
    targets = [target for target in TARGETS if given.target in (None, target.name)]
    total = sum(target.share for target in targets)
    for target in targets:
        count = max(1, given.inputs * target.share // total)
        began = time.monotonic()
        if given.engine == "atheris":
            outcomes, faults = guided(target, given.seed, count)
        else:
            numbers = range(count) if given.only is None else [given.only]
            outcomes, faults = fuzz(target, given.seed, numbers)
        told = ", ".join(f"{name} {n:,}" for name, n in outcomes.most_common())
        took = time.monotonic() - began
        print(f"{target.name}: {outcomes.total():,} in {took:.0f} s: {told}", flush=True)
        for where, fault in faults[:20]:
            print(f"--- {target.name}, {where}\n{fault}", flush=True)
        found += len(faults)
    print("nothing found" if not found else f"{found} inputs were not read as they should be")
    return min(found, 1)


def fuzz(target, seed, numbers):
    """Feed *target* from chance; return how inputs ended, and what was wrong, with where."""
    outcomes, faults, kinds = Counter(), [], set()
    with Judge() as judge:
        for number in numbers:
            given = target.make(random.Random(f"{seed} {target.name} {number}"))
            outcome, fault = judge.judged(target, given)
            outcomes[outcome] += 1
            if fault and fault not in kinds:  # one of a kind is enough
                kinds.add(fault)
                faults.append((f"--only {number}", fault))
    return outcomes, faults


def guided(target, seed, count):
    """Feed *target* in a process of its own, whose code is counted; return the same."""
    command = [sys.executable, "-m", "fuzz.guided", target.name]
    command += ["--inputs", str(count), "--seed", str(seed)]
    with tempfile.TemporaryDirectory(prefix="penstock-fuzz-", dir="/dev/shm") as folder:
        where = {**os.environ, outside.WHERE: folder}
        done = subprocess.run(command, stdout=subprocess.PIPE, env=where, text=True, check=False)
    told = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not told:
        return Counter(), [
            ("as a whole", f"it ended with {done.returncode}: {done.stdout[-2000:]}")
        ]
    outcome = json.loads(told[-1])
    faults = [(f"--input {file}", fault) for file, fault in outcome["faults"]]
    return Counter(outcome["outcomes"]), faults


if __name__ == "__main__":
    sys.exit(main())
