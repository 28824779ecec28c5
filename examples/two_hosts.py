"""Batches that workers on other hosts prepare: a dispatcher, two workers, and who reads.

To see it on one machine, where it starts all of them itself:

    python examples/two_hosts.py

For real, with Penstock installed on each host. Here everybody on the network between them is
trusted; docs/how-to/securing-a-cluster.md has the same commands with TLS, and without --insecure:

  a$ penstock dispatcher --host 0.0.0.0 --port 7000 --work-dir penstock-a --insecure
  b$ penstock worker --insecure --dispatcher-address a:7000 --host 0.0.0.0 --worker-address b:%port%
  c$ penstock worker --insecure --dispatcher-address a:7000 --host 0.0.0.0 --worker-address c:%port%
  d$ python examples/two_hosts.py a:7000

If several hosts train, each runs the last command with the same --job-name, a new one for each run:
they share the samples, and each sample reaches one of them.
"""

import argparse
from typing import Any

import numpy as np

from penstock import Dataset
from penstock_cluster import LocalCluster

SAMPLES = 2000


def prepare(i: int, *, rng: np.random.Generator) -> dict[str, Any]:
    """Return sample *i*. Workers call this: it gets there by itself, with all that it uses.

    Packages that it imports, as NumPy, must be installed on the workers.
    """
    image = rng.random((16, 16), dtype=np.float32)  # stands for reading, decoding, augmenting
    return {"number": i, "image": image}


def train(address: str, job_name: str | None) -> None:
    """Read one pass of the samples from the cluster at *address*."""
    dataset = (
        Dataset.range(SAMPLES)
        .shuffle(SAMPLES)
        .map(prepare)
        .batch(20)
        # All above runs on workers. A host that starts late reads the rest, which may be nothing.
        .distribute("distributed_epoch", address, job_name=job_name, on_finished="warn")
        .prefetch(2)
    )
    steps = 0
    numbers: set[int] = set()
    for batch in dataset:
        # The step of a model stands here.
        numbers.update(batch["number"].tolist())
        steps += 1
    print(f"{steps} steps, {len(numbers)} different samples, their sum is {sum(numbers)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("address", nargs="?", help="the dispatcher's, as host:port")
    parser.add_argument("--job-name", help="readers of one name share the samples")
    given = parser.parse_args()
    if given.address is not None:
        train(given.address, given.job_name)
    else:
        with LocalCluster(workers=2) as cluster:
            train(cluster.target, given.job_name)
