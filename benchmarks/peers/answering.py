"""Answer a parent that asks, line by line, how fast this peer does a job: JSON in, JSON out."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping

JOBS_SEEN: dict[str, Iterable[object]] = {}


def answer(jobs: Mapping[str, Callable[[], Iterable[object]]]) -> None:
    """Answer until the parent closes its end: a job's name gets the seconds of one whole pass."""
    print(json.dumps(sorted(jobs)), flush=True)
    for line in sys.stdin:
        name = json.loads(line)
        if name not in JOBS_SEEN:
            JOBS_SEEN[name] = jobs[name]()
        began = time.perf_counter()
        for _ in JOBS_SEEN[name]:
            pass
        print(json.dumps(time.perf_counter() - began), flush=True)
