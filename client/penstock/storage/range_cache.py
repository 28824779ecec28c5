"""The cache through which this process reads ranges of remote files, if it has one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from penstock.storage.part_key import PartKey


class RangeCache(Protocol):
    """Keeps ranges of remote files. Called by several threads at once."""

    def get(self, key: PartKey, fetch: Callable[[], bytes]) -> bytes:
        """Return the bytes of *key*: kept ones, or those that *fetch* returns."""
        ...


_cache: RangeCache | None = None
_chosen = False
"""Whether `_cache` was chosen: the first read of a remote file does it."""


def use_cache(cache: RangeCache | None) -> None:
    """Let this process read remote files through *cache*; None reads without one."""
    global _cache, _chosen
    _cache, _chosen = cache, True


def cached(key: PartKey, fetch: Callable[[], bytes]) -> bytes:
    """Return the bytes of *key*, from the cache of this process or from *fetch*.

    Raises:
        ConfigError: when the environment names a cache that cannot be used.
    """
    if not _chosen:
        use_cache(_of_environment())
    return fetch() if _cache is None else _cache.get(key, fetch)


def _of_environment() -> RangeCache | None:
    if not os.environ.get("PENSTOCK_FILE_CACHE_DIR"):
        return None
    from penstock.storage.disk_cache import DiskCache  # noqa: PLC0415  most processes have none

    return DiskCache.of_environment()
