"""The variables of `torchrun` and of PyTorch's `env://`: `RANK`, `WORLD_SIZE` and others."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.environment.cluster import ClusterEnvironment, around, number, of_rank
from penstock.errors import ConfigError


def resolve(env: Mapping[str, str]) -> ClusterEnvironment | None:
    """Return what they say; None if neither `RANK` nor `WORLD_SIZE` is set.

    Raises:
        ConfigError: when one of the two is missing, or they contradict each other.
    """
    if "RANK" not in env and "WORLD_SIZE" not in env:
        return None
    for name, other in (("RANK", "WORLD_SIZE"), ("WORLD_SIZE", "RANK")):
        if name not in env:
            raise ConfigError(f"{other} is set to {env[other]!r}, but {name} is not: set both")
    world = number(env, "WORLD_SIZE", least=1)
    rank = number(env, "RANK", below=(world, "WORLD_SIZE"))
    local = (number(env, "LOCAL_RANK"), "LOCAL_RANK") if "LOCAL_RANK" in env else None
    addresses = None
    if "MASTER_ADDR" in env:
        port = number(env, "MASTER_PORT", least=1) if "MASTER_PORT" in env else None
        place = env["MASTER_ADDR"] if port is None else f"{env['MASTER_ADDR']}:{port}"
        addresses = (around(place, world), "MASTER_ADDR")
    return of_rank(
        rank,
        world,
        "torchrun",
        by=("RANK", "WORLD_SIZE"),
        local_rank=local,
        addresses=addresses,
    )
