"""A loop in JAX whose batches are global arrays, divided by rows among all devices.

With the workers of `penstock up --workers 2`:

    python examples/jax_sharded.py grpc://localhost:7000

It needs ``pip install "penstock[jax]"``. Several processes say who they are, as
``jax.distributed.initialize`` wants it, and each gives its own rows to one global batch:

    python examples/jax_sharded.py grpc://localhost:7000 --process 0 --of 2 --at host:8476
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from penstock import Dataset
from penstock.jax import Loader

SAMPLES, BATCH = 1280, 16


def batches(target: str, job_name: str) -> Dataset:
    """Return this process' rounds of the job."""
    samples = Dataset.range(SAMPLES).map(
        lambda i: {
            "x": np.array([i / SAMPLES, 1], np.float32),
            "y": np.float32(i / SAMPLES * 3 - 1),
        }
    )
    return samples.batch(BATCH, drop_remainder=True).distribute(
        "distributed_epoch",
        target,
        job_name,
        consumer_index=jax.process_index(),
        num_consumers=jax.process_count(),
    )


def stepped(weights: jax.Array, batch: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Return the weights behind one step of gradient descent, and the loss before it."""

    def loss(weights: jax.Array) -> jax.Array:
        return ((batch["x"] @ weights - batch["y"]) ** 2).mean()

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - 0.3 * gradient, value


def main() -> None:
    """Fit a line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", help="the dispatcher, as grpc://host:port")
    parser.add_argument("--run", default="jax", help="a name, one for each run")
    parser.add_argument("--process", type=int, default=0)
    parser.add_argument("--of", type=int, default=1, help="how many processes there are")
    parser.add_argument("--at", default="localhost:8476", help="the address of process 0")
    given = parser.parse_args()
    if given.of > 1:
        jax.distributed.initialize(given.at, given.of, given.process)

    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    rows, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    weights = jax.device_put(jnp.zeros(2), whole)
    step = jax.jit(stepped)

    first = last = float("nan")
    with Loader(batches(given.target, given.run), rows) as loader:
        for batch in loader:
            weights, last = step(weights, batch)
            first = last if loader.steps == 1 else first
        better = float(last) < float(first)
        shape = batch["x"].shape
        print(f"{loader.steps} steps of {shape[0]} rows; the loss went down: {better}")


if __name__ == "__main__":
    main()
