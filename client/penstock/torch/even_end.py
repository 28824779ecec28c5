"""Ranks that share a job end their passes at the same step, though none knows how much comes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from penstock.errors import DatasetError
from penstock.graph.node import Node
from penstock.loading.loader import jobs


class EvenEnd:
    """Asks all ranks of *group*, once a step, whether each has an element."""

    def __init__(self, group: Any = None) -> None:
        self._group = group
        on_gpu = dist.get_backend(group) == "nccl"
        self._device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else None

    def goes_on(self, *, here: bool) -> bool:
        """Return whether all ranks have an element; *here* says so of this one."""
        flag = torch.tensor([int(here)], dtype=torch.int32, device=self._device)
        dist.all_reduce(flag, dist.ReduceOp.MIN, group=self._group)
        return bool(flag.item())


def even_end(node: Node, even: bool | None) -> EvenEnd | None:
    """Return how the ranks end together, or None where they do so by themselves.

    By default they are asked when there is more than one and they share a job that is not read in
    rounds: first come, first served, or in one order, of which some get an element more.

    Raises:
        DatasetError: when *even* is asked for and there is no process group.
    """
    ready = dist.is_available() and dist.is_initialized()
    if even and not ready:
        raise DatasetError(
            "Loader: even=True asks all ranks in each step, and there is no process group yet: "
            "call torch.distributed.init_process_group() first"
        )
    if even is False or not ready or dist.get_world_size() == 1:
        return None
    shared = any(job.shared and not job.in_rounds for job in jobs(node))
    return EvenEnd() if even or shared else None
