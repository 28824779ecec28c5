"""`Model.fit` of Keras 3 on the backend that KERAS_BACKEND names; prints what it did, as JSON."""

import json
import sys

import keras
import numpy as np

from penstock import Dataset

keras.utils.set_random_seed(1)
backend, target = keras.backend.backend(), sys.argv[1]


def sample(x):
    features = np.float32([x % 7, x % 3]) / 7
    return features, np.float32([features.sum()])


batches = Dataset.range(640).map(sample).batch(32, drop_remainder=True)
steps = batches.cardinality()
seen = []


class Count(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        seen.append(batch)


model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("adam", "mse")
job = {"processing_mode": "distributed_epoch", "service": target}
if backend == "tensorflow":
    from penstock.tensorflow import as_dataset

    given = as_dataset(batches.distribute(**job))
    how = {}
elif backend == "torch":
    from torch.utils.data import DataLoader

    from penstock.torch import as_iterable

    given, how = DataLoader(as_iterable(batches.distribute(**job)), batch_size=None), {}
else:
    given = (batch for batch in batches.distribute(**job).repeat().as_numpy_iterator())
    how = {"steps_per_epoch": steps}
history = model.fit(given, epochs=3, verbose=0, callbacks=[Count()], **how)
losses = [float(loss) for loss in history.history["loss"]]
found = {"backend": backend, "steps": len(seen), "known": steps, "losses": losses}
print("said", json.dumps(found), flush=True)
