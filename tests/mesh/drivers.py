"""Several loops at once: each in a thread of its own, or by turns in this one."""

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

SECONDS = 60.0


def side_by_side(*calls):
    """Run each call in a thread of its own; return the results, or raise what one raised."""
    with ThreadPoolExecutor(len(calls)) as threads:
        running = [threads.submit(call) for call in calls]
        return [one.result(SECONDS) for one in running]


def each(work, things):
    """Do *work* with each of some things, side by side; return the results."""
    return side_by_side(*[lambda one=one: work(one) for one in things])


def numbers_of(dataset):
    """Read *dataset* to its end; return its elements as numbers."""
    return [int(x) for x in dataset]


def read_all(datasets):
    """Read datasets side by side, to the end; return the numbers that each gave."""
    return each(numbers_of, datasets)


def in_turn(iterators):
    """Take an element of each iterator in turn, to the end; return what each gave."""
    got, left = [[] for _ in iterators], dict(enumerate(iterators))
    while left:
        for i, it in list(left.items()):
            try:
                got[i].append(next(it))
            except StopIteration:
                del left[i]
    return got


def run_script(folder, text, *arguments, **options):
    """Run a script in a process of its own; return its result."""
    script = folder / "script.py"
    script.write_text(textwrap.dedent(text))
    return subprocess.run(
        [sys.executable, script, *arguments],
        capture_output=True, text=True, timeout=60, check=False, **options,
    )  # fmt: skip
