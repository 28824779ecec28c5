"""Ranks of PyTorch's DistributedDataParallel read one job in rounds, and go on after a crash.

With the workers of `penstock up --workers 2`, on as many hosts as there are ranks:

    torchrun --nproc-per-node 2 examples/torch_ddp.py grpc://localhost:7000

Saved is the model with the place of the input, at the same step of all ranks. Started again, all go
on from there. It needs ``pip install "penstock[torch]"``. Without a launcher it is one rank:

    python examples/torch_ddp.py grpc://localhost:7000
"""

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from penstock import Dataset
from penstock.torch import Loader

SAMPLES, BATCH = 1600, 10


def batches(target: str, job_name: str) -> Dataset:
    """Return this rank's rounds of the job."""
    x = Dataset.range(SAMPLES).map(lambda i: np.array([i / SAMPLES, 1], np.float32))
    samples = Dataset.zip({"x": x, "n": Dataset.range(SAMPLES)}).batch(BATCH, drop_remainder=True)
    rank, world = dist.get_rank(), dist.get_world_size()
    return samples.distribute("distributed_epoch", target, job_name, rank, world)


def train(loader: Loader, model: Any, seen: Any, given: argparse.Namespace) -> None:
    """Train to the end of the epoch; count in *seen* how often this rank had each sample."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for batch in loader:
        optimizer.zero_grad()
        (model(batch["x"]).squeeze() - 0.5).pow(2).mean().backward()
        optimizer.step()
        seen[batch["n"]] += 1
        if loader.steps % given.every == 0:
            save(loader, model, seen, given.checkpoint)


def save(loader: Loader, model: Any, seen: Any, path: Path) -> None:
    """Write the model and the place of the input: all ranks come here at one step."""
    state, count = loader.state_dict(), seen.clone()
    dist.all_reduce(count)
    if dist.get_rank() == 0:
        new = path.with_suffix(".new")
        torch.save({"model": model.state_dict(), "input": state, "seen": count}, new)
        new.replace(path)
        print(f"saved at step {loader.steps}", flush=True)


def main() -> None:
    """Train one epoch, from the checkpoint on if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", help="the dispatcher, as grpc://host:port")
    parser.add_argument("--run", default="ddp", help="a name, one for each run")
    parser.add_argument("--checkpoint", type=Path, default=Path("ddp.pt"))
    parser.add_argument("--every", type=int, default=10, help="steps from one save to the next")
    given = parser.parse_args()
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"}
    os.environ |= alone | os.environ
    dist.init_process_group("gloo")

    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    seen = torch.zeros(SAMPLES, dtype=torch.int64)
    saved = torch.load(given.checkpoint) if given.checkpoint.exists() else None
    with Loader(batches(given.target, given.run)) as loader:
        if saved is not None:
            model.load_state_dict(saved["model"])
            loader.load_state_dict(saved["input"])
            seen = saved["seen"] if dist.get_rank() == 0 else seen
        train(loader, model, seen, given)
        dist.all_reduce(seen)
        if dist.get_rank() == 0:
            once, more = int((seen == 1).sum()), int((seen > 1).sum())
            print(f"{loader.steps} steps; {once} samples once, {more} more often")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
