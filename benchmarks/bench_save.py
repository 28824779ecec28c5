"""How large is a job's saved state, and how long does it take with one reader?

Ten workers, so ten tasks, of range → map → shuffle(1000) → batch(8). The state is taken at the
10 000th and at the 1 000 000th source element: its size must not grow with the position.
"""

from __future__ import annotations

import itertools
import json
import statistics

from measure import Figure, arguments, seconds, show

from penstock import Dataset
from penstock_cluster import LocalCluster

WORKERS = 10
BATCH = 8
PLACES = (10_000, 1_000_000)


def main() -> None:
    """Read on, stop at each place, save several times there."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question, runs=20)
    dataset = Dataset.range(10 * PLACES[-1]).map(lambda x: x + 1).shuffle(1000).batch(BATCH)
    figures = []
    with LocalCluster(workers=WORKERS) as cluster:
        distributed = dataset.distribute("distributed_epoch", cluster.target)
        with distributed.iterator() as batches:
            read = 0
            for place in PLACES:
                for _ in itertools.islice(batches, (place - read) // BATCH):
                    pass
                read = place
                sizes, times = [], []
                for _ in range(options.runs):
                    states: list[object] = []
                    times.append(1000 * seconds(lambda: states.append(batches.state())))  # noqa: B023
                    sizes.append(len(json.dumps(states[0])) / 1000)
                    next(batches)
                figures.append(_figure(f"size at element {place:,}", sizes, "KB"))
                figures.append(_figure(f"time at element {place:,}", times, "ms"))
    show(question, figures, options.json)


def _figure(name: str, values: list[float], unit: str) -> Figure:
    return Figure(name, statistics.median(values), min(values), max(values), unit)


if __name__ == "__main__":
    main()
