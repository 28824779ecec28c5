"""How long does a whole pass over ten elements take, from `iter` to the end of input?"""

from __future__ import annotations

import itertools

from measure import arguments, in_turn, seconds, show

from penstock import Dataset
from penstock_cluster import LocalCluster


def main() -> None:
    """Measure warm passes, and passes of datasets that are new: the workers fork for these."""
    question = (__doc__ or "").partition("\n")[0]
    options = arguments(question, runs=20)
    lengths = itertools.count(11)
    with LocalCluster(workers=2) as cluster:

        def of_another_dataset() -> float:
            dataset = Dataset.range(next(lengths)).distribute("distributed_epoch", cluster.target)
            return 1000 * seconds(lambda: list(dataset))

        off = Dataset.range(10).distribute("parallel_epochs", cluster.target)
        dynamic = Dataset.range(10).distribute("distributed_epoch", cluster.target)
        figures = in_turn(
            [
                ("OFF, 2 workers", lambda: 1000 * seconds(lambda: list(off))),
                ("DYNAMIC, 2 workers", lambda: 1000 * seconds(lambda: list(dynamic))),
                ("DYNAMIC, 2 workers, another dataset each time", of_another_dataset),
            ],
            "ms",
            options.runs,
        )
    show(question, figures, options.json)


if __name__ == "__main__":
    main()
