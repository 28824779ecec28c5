"""``python -m fuzz --inputs 200000 --seed 1``: damaged input by the thousand, and what came of it.

Each input may be read, or refused with an error of ours: no other error, no wait of over 5 seconds,
no memory far beyond its size. One that does otherwise is told with its target and its seed.
"""

import argparse
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from collections import Counter

from fuzz.targets import TARGETS
from penstock.errors import PenstockError

PATIENCE = 5.0
"""Seconds that an input may take."""

MEMORY = 256 << 20
"""Bytes that the process may grow by with one input."""


class HangError(BaseException):
    """An input took too long."""


def main():
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--target", help="only this one")
    parser.add_argument("--only", type=int, help="only the input of this number")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    found = 0
    targets = [target for target in TARGETS if given.target in (None, target.name)]
    total = sum(target.share for target in targets)
    for target in targets:
        count = max(1, given.inputs * target.share // total)
        numbers = range(count) if given.only is None else [given.only]
        began = time.monotonic()
        outcomes, faults = fuzz(target, given.seed, numbers)
        told = ", ".join(f"{name} {n:,}" for name, n in outcomes.most_common())
        print(f"{target.name}: {count:,} in {time.monotonic() - began:.0f} s: {told}", flush=True)
        for number, fault in faults[:20]:
            print(f"--- {target.name}, --only {number}\n{fault}", flush=True)
        found += len(faults)
    print("nothing found" if not found else f"{found} inputs were not read as they should be")
    return min(found, 1)


def fuzz(target, seed, numbers):
    """Feed *target*; return how inputs ended, and (number, what happened) of the wrong ones."""
    outcomes, faults, kinds = Counter(), [], set()
    before = signal.signal(signal.SIGALRM, _too_long)
    try:
        for number in numbers:
            given = target.make(random.Random(f"{seed} {target.name} {number}"))
            outcome, fault = _one(target, given)
            outcomes[outcome] += 1
            if fault and fault not in kinds:  # one of a kind is enough
                kinds.add(fault)
                faults.append((number, fault))
    finally:
        signal.signal(signal.SIGALRM, before)
    return outcomes, faults


def _one(target, given):
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    outcome, fault = "read", ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.read(given)
    except PenstockError as exc:
        outcome = type(exc).__name__
        if len(str(exc)) > 20_000:
            fault = f"a message of {len(str(exc)):,} characters: {str(exc)[:300]}"
    except (Exception, HangError) as exc:
        outcome = f"!{type(exc).__name__}"
        fault = "".join(traceback.format_exception(exc)[-4:])[-2000:]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) << 10
    if not fault and grown > MEMORY:
        fault = f"the process grew by {grown >> 20} MiB"
    return outcome, fault


def _too_long(_signum, _frame):
    raise HangError


if __name__ == "__main__":
    sys.exit(main())
