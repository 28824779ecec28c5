"""How a job's data is divided over its tasks, as users say it."""

from __future__ import annotations

from enum import IntEnum


class ShardingPolicy(IntEnum):
    """How the input of a distributed dataset is divided among workers."""

    OFF = 0
    """Each worker that takes part yields the whole dataset; ``"parallel_epochs"`` says the same."""
    DYNAMIC = 1
    """Workers draw splits as they go: each element once; ``"distributed_epoch"`` says the same."""
    FILE = 2
    """Each worker reads files of its own. Not available yet."""
    DATA = 3
    """Each worker keeps elements of its own. Not available yet."""
    FILE_OR_DATA = 4
    """`FILE` where there are files, else `DATA`. Not available yet."""
    HINT = 5
    """The pipeline's own ``shard(SHARD_HINT, ...)`` says where. Not available yet."""
