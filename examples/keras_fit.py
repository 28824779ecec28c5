"""`Model.fit` of Keras 3 from a mesh, on whichever backend Keras has.

With the workers of `penstock up --workers 2`:

    KERAS_BACKEND=jax python examples/keras_fit.py grpc://localhost:7000

It needs ``pip install keras`` and the extra of the backend: `penstock[tensorflow]`,
`penstock[torch]` or `penstock[jax]`.
"""

import argparse
from typing import Any

import keras
import numpy as np

from penstock import Dataset


def sample(i: int) -> tuple[Any, Any]:
    """Return what is given to the model, and what it is to say."""
    given = np.array([i % 7, i % 3], np.float32) / 7
    return given, given.sum(keepdims=True)


def for_fit(dataset: Dataset) -> Any:
    """Return *dataset* as the backend reads it, and a pass of it as an epoch."""
    if keras.backend.backend() == "tensorflow":
        from penstock.tensorflow import as_dataset

        return as_dataset(dataset)
    if keras.backend.backend() == "torch":
        from torch.utils.data import DataLoader

        from penstock.torch import as_iterable

        return DataLoader(as_iterable(dataset), batch_size=None)
    return (batch for batch in dataset.repeat())


def main() -> None:
    """Fit for three epochs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", help="the dispatcher, as grpc://host:port")
    given = parser.parse_args()

    batches = Dataset.range(1280).map(sample).batch(32, drop_remainder=True)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    data = for_fit(batches.distribute("distributed_epoch", given.target))
    ends = keras.backend.backend() != "jax"
    steps = None if ends else batches.cardinality()
    losses = model.fit(data, epochs=3, steps_per_epoch=steps, verbose=0).history["loss"]
    print(
        f"{keras.backend.backend()}: {len(losses)} epochs; the loss fell: {losses[2] < losses[0]}"
    )


if __name__ == "__main__":
    main()
