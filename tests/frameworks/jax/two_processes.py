"""One of two JAX processes with two virtual devices each: it prints what it read, as JSON."""

import json
import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax
from jax.sharding import NamedSharding, PartitionSpec

from penstock import Dataset
from penstock.errors import DatasetError
from penstock.jax import Loader

target, job = sys.argv[1:3]
jax.distributed.initialize(f"127.0.0.1:{os.environ['MASTER_PORT']}", 2, int(os.environ["RANK"]))
rows = NamedSharding(jax.make_mesh((4,), ("data",)), PartitionSpec("data"))
batches = Dataset.range(100).batch(4, drop_remainder=True)
read = batches.distribute(
    "distributed_epoch", target, job, jax.process_index(), jax.process_count()
)
total = jax.jit(lambda batch: batch.sum())
sums, own, state = [], [], None
with Loader(read, rows) as loader:
    for batch in loader:
        assert batch.shape == (8,)
        sums.append(int(total(batch)))
        own += [int(x) for shard in batch.addressable_shards for x in shard.data]
        if loader.steps == 3:
            state = loader.state_dict()
try:
    refused = Loader(batches.distribute("distributed_epoch", target, f"{job}, shared"), rows)
except DatasetError as error:
    refused = str(error)
found = {"devices": jax.device_count(), "sums": sums, "rows": own, "state": state}
print("said", json.dumps({**found, "refused": refused}), flush=True)
