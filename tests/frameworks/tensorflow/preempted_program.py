"""One of two workers that TensorFlow's own `PreemptionCheckpointHandler` stops at the same step.

It says what it read in each step, and at the end the sum of all that both read in all its lives.
"""

import json
import os
import sys

import tensorflow as tf

from penstock import Dataset
from penstock.tensorflow import as_dataset

target, folder, first, second, life = sys.argv[1:6]
rank = int(os.environ["RANK"])
os.environ["TF_CONFIG"] = json.dumps(
    {
        "cluster": {"worker": [f"127.0.0.1:{first}", f"127.0.0.1:{second}"]},
        "task": {"type": "worker", "index": rank},
    }
)

strategy = tf.distribute.MultiWorkerMirroredStrategy()
batches = Dataset.range(320).batch(4)
made = as_dataset(
    batches.distribute("distributed_epoch", target, f"preempted {life}", rank, 2, ordered=True)
)
with strategy.scope():
    total = tf.Variable(0, dtype=tf.int64)
checkpoint = tf.train.Checkpoint(input=made, total=total)
handler = tf.distribute.experimental.PreemptionCheckpointHandler(
    strategy.cluster_resolver, checkpoint, folder
)
options = tf.distribute.InputOptions(
    experimental_fetch_to_device=False, experimental_per_replica_buffer_size=0
)
elements = iter(strategy.distribute_datasets_from_function(lambda _: made, options))


@tf.function
def summed(batch):
    def replica(batch):
        return tf.reduce_sum(batch)

    return strategy.reduce("SUM", strategy.run(replica, (batch,)), axis=None)


def step():
    batch = next(elements)
    total.assign_add(summed(batch))
    seen = strategy.experimental_local_results(batch)[0].numpy().tolist()
    print("said", json.dumps(seen), flush=True)


try:
    while True:
        handler.run(step)
except StopIteration:
    print(
        "said",
        json.dumps({"total": int(total.numpy()), "steps": int(handler.total_run_calls)}),
        flush=True,
    )
