"""One of two workers of `MultiWorkerMirroredStrategy`: it says what it read, as JSON."""

import json
import os
import sys

import tensorflow as tf

from penstock import Dataset
from penstock.tensorflow import as_dataset

target, folder, first, second, part = sys.argv[1:6]
rank = int(os.environ["RANK"])
os.environ["TF_CONFIG"] = json.dumps(
    {
        "cluster": {"worker": [f"127.0.0.1:{first}", f"127.0.0.1:{second}"]},
        "task": {"type": "worker", "index": rank},
    }
)

strategy = tf.distribute.MultiWorkerMirroredStrategy()
batches = Dataset.range(96).batch(4, drop_remainder=True)
made = as_dataset(batches.distribute("distributed_epoch", target, f"mirrored {part}", rank, 2))
options = tf.distribute.InputOptions(
    experimental_fetch_to_device=False, experimental_per_replica_buffer_size=0
)
each = strategy.distribute_datasets_from_function(lambda _: made, options)


@tf.function
def step(batch):
    def replica(batch):
        return tf.reduce_sum(batch)

    return strategy.reduce("SUM", strategy.run(replica, (batch,)), axis=None)


checkpoint = tf.train.Checkpoint(input=made)
place = f"{folder}/worker-{rank}"
if part == "second":
    checkpoint.restore(tf.train.latest_checkpoint(place)).assert_consumed()
sums, seen = [], []
for batch in each:
    sums.append(int(step(batch)))
    seen += strategy.experimental_local_results(batch)[0].numpy().tolist()
    if part == "first" and len(sums) == 5:
        checkpoint.save(f"{place}/step")
        break
print("said", json.dumps({"sums": sums, "seen": seen}), flush=True)
