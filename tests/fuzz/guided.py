"""``python -m fuzz.guided TARGET``: inputs that atheris makes, led by the code that they reach.

Begins with valid samples and the kept corpus. What reaches code that was not reached before is
changed further: half of the changes are libFuzzer's, half those of `mutations`, which know of
lengths, of numbers of protobuf and of nesting. `--keep` makes the fewest inputs that reach all of
it the kept corpus; `--input FILE` reads one again.
"""

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from hashlib import sha256
from pathlib import Path

import atheris

with (
    open(os.devnull, "w") as nowhere,
    contextlib.redirect_stderr(nowhere),  # each module that it counts the code of
    atheris.instrument_imports(include=["penstock", "penstock_dispatcher"]),
):
    from fuzz import as_bytes, mutations, outside
    from fuzz.judge import Judge
    from fuzz.targets import TARGETS

LONGEST = 1 << 14
"""Bytes of an input."""

MOST_KEPT = 1 << 11
"""Bytes of an input that is kept: longer ones reach little that shorter ones do not."""

FOUND = Path(tempfile.gettempdir()) / "penstock-fuzz-found"


class Run:
    """All inputs of one run, and what came of them."""

    def __init__(self, target, judge):
        self._target, self._judge = target, judge
        self.most, self.ended = None, lambda: None
        self._given = as_bytes.FORMS[target.name].given
        self._samples = list(as_bytes.FORMS[target.name].seeds())
        self.outcomes, self._kinds, self.faults = Counter(), set(), []

    def one(self, data):
        """Have *data* read; return -1 where it is none that should be changed further.

        After `most` of them it ends the process: libFuzzer would, too, and say nothing.
        """
        if self.outcomes.total() == self.most:
            self.ended()
            os._exit(0)
        given = self._given(data)
        if given is None:
            self.outcomes["no input"] += 1
            return -1
        outcome, fault = self._judge.judged(self._target, given)
        self.outcomes[outcome] += 1
        if fault and fault not in self._kinds:
            self._kinds.add(fault)
            self.faults.append((str(_kept_as_found(data)), fault))
        return 0

    def changed(self, data, longest, seed):
        """Return *data*, changed by one of us or by libFuzzer."""
        rng = random.Random(seed)
        if rng.random() < 0.5:
            return atheris.Mutate(data, longest)
        how = rng.choice([mutations.damaged, mutations.damaged, mutations.repacked, _rewritten])
        return bytes(how(data, rng, rng.choice(self._samples)))[:longest]


def _rewritten(data, rng, other):
    """Return *data*, JSON perhaps with a byte before it, with parts exchanged for others."""
    start = data.find(b"{")
    if start in (0, 1):
        with contextlib.suppress(ValueError, RecursionError, TypeError, OverflowError):
            plain = mutations.twisted(json.loads(data[start:]), rng, [1])
            return data[:start] + json.dumps(plain).encode("utf-8", "surrogatepass")
    return mutations.damaged(data, rng, other)


def _kept_as_found(data):
    FOUND.mkdir(exist_ok=True)
    file = FOUND / sha256(data).hexdigest()[:16]
    file.write_bytes(data)
    return file


def main():
    parser = argparse.ArgumentParser(prog="fuzz.guided", description=__doc__)
    parser.add_argument("target", choices=[target.name for target in TARGETS])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the corpus of this run")
    parser.add_argument("--input", type=Path, help="read this one alone")
    parser.add_argument("--libfuzzer", nargs="...", help="give it these options, and nothing else")
    given = parser.parse_args()
    target = next(one for one in TARGETS if one.name == given.target)
    with Judge() as judge:
        run = Run(target, judge)
        if given.input:
            run.one(given.input.read_bytes())
            _tell(run)
            return 0
        if given.libfuzzer:
            _fuzz(run, given.libfuzzer[1:], given.libfuzzer[0])
        _fuzz_and_keep(run, given)
    return 0


def _fuzz_and_keep(run, given):
    """Fuzz from seeds and corpus, in a folder; at the end tell what came of it."""
    folder = outside.FOLDER
    (grown := folder / "grown").mkdir()
    seeds = as_bytes.FORMS[given.target].seeds()
    for data in [*as_bytes.kept(given.target), *seeds]:
        (grown / sha256(data).hexdigest()[:16]).write_bytes(data)

    def end():
        if given.keep:
            _keep(given.target, folder)
        subprocess.run(["rm", "-r", str(folder)], check=True)
        _tell(run)

    run.most, run.ended = given.inputs, end
    _fuzz(run, [f"-seed={given.seed}", str(grown)])


def _fuzz(run, options, name="fuzz"):
    quiet = [
        "-verbosity=0",
        "-timeout=0",
        "-rss_limit_mb=0",
        "-report_slow_units=1000",  # by the clock; the judge goes by what the processor did
        f"-max_len={LONGEST}",
        "-len_control=0",
    ]
    atheris.Setup([name, *quiet, *options], run.one, custom_mutator=run.changed)
    atheris.Fuzz()  # ends the process


def _keep(name, folder):
    """Keep the fewest inputs of *folder* that reach all that all of it reaches."""
    for file in (grown := folder / "grown").iterdir():
        if file.stat().st_size > MOST_KEPT:
            file.unlink()
    # What merges starts itself again, as a command with no arguments of its own.
    again = folder / "again"
    target = f'"{sys.executable}" -m fuzz.guided "{name}" --libfuzzer "$0"'
    again.write_text(f'#!/bin/sh\nexec {target} "$@"\n')
    again.chmod(0o700)
    (least := folder / "least").mkdir()
    command = [str(again), "-set_cover_merge=1", str(least), str(grown)]
    nowhere, where = subprocess.DEVNULL, {**os.environ, outside.WHERE: str(folder)}
    subprocess.run(command, stdout=nowhere, stderr=nowhere, env=where, check=True)
    as_bytes.keep(name, [file.read_bytes() for file in least.iterdir()])


def _tell(run):
    print(json.dumps({"outcomes": run.outcomes, "faults": run.faults}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
