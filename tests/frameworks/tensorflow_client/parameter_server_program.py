"""A cluster of `ParameterServerStrategy` whose workers read the mesh by TensorFlow's own client.

Nothing of ours is imported. As "worker" or "ps" it is a server that runs graphs; as "chief" it has
steps run there, and prints what they read: a list of numbers a line.
"""

import json
import os
import sys

import tensorflow as tf

BLOCK = tf.TensorSpec((None,), tf.int64)
AT_ONCE = 6


def serve(role, index):
    """Run graphs until the process is killed."""
    cluster = tf.train.ClusterSpec(json.loads(os.environ["CLUSTER"]))
    server = tf.distribute.Server(cluster, job_name=role, task_index=index, protocol="grpc")
    server.join()


def chief(target):
    """Have all of a pass read by the workers."""
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(json.loads(os.environ["CLUSTER"])), rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        total = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def step(iterator):
        found = iterator.get_next_as_optional()
        if found.has_value():
            block = found.get_value()
        else:
            block = tf.zeros((0,), tf.int64)
        total.assign_add(tf.reduce_sum(block))
        return block

    def dataset():
        return tf.data.experimental.service.from_dataset_id(
            "distributed_epoch", target, "train", element_spec=BLOCK, job_name="parameter server"
        )

    iterator = iter(coordinator.create_per_worker_dataset(dataset))
    read = True
    while read:
        steps = [coordinator.schedule(step, args=(iterator,)) for _ in range(AT_ONCE)]
        coordinator.join()
        blocks = [[int(x) for x in block] for block in coordinator.fetch(steps)]
        read = any(blocks)
        print("read", json.dumps([x for block in blocks for x in block]), flush=True)
    print("total", int(total), flush=True)
    os._exit(0)  # its connections to servers would keep it for a while


if __name__ == "__main__":
    if sys.argv[1] == "chief":
        chief(sys.argv[2])
    else:
        serve(sys.argv[1], int(sys.argv[2]))
