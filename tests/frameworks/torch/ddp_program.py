"""A rank of a job of `DistributedDataParallel`: it prints a line of JSON for each pass."""

import json
import sys
import time

import numpy as np
import torch
import torch.distributed as dist

from penstock import Dataset
from penstock.torch import Loader

target, mode, job = sys.argv[1:4]
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
batches = Dataset.from_tensor_slices(np.arange(105).reshape(21, 5))
if mode == "coordinated":
    read = batches.distribute("distributed_epoch", target, job, rank, world)
else:
    read = batches.distribute("distributed_epoch", target, job)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
with Loader(read) as loader:
    for _ in range(2):
        seen, saved, before = [], None, loader.missed
        for batch in loader:
            model(batch[:, None].float()).sum().backward()
            seen += batch.tolist()
            if rank and mode == "shared":
                time.sleep(0.005)  # a slower rank: the other one is ahead, and has more to give up
            if loader.steps == 4:
                saved = loader.state_dict()
        found = [loader.epoch, loader.steps, loader.missed - before, seen, saved]
        print("said", json.dumps(found), flush=True)
dist.destroy_process_group()
