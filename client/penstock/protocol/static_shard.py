"""Which part of a pipeline a task of static sharding has."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.protocol.types import Mode


@dataclass(frozen=True, slots=True)
class StaticShard:
    """Which fixed part of a pipeline a task has: one of *shards*, as *mode* cuts it."""

    mode: Mode
    shards: int
