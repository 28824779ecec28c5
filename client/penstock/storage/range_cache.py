"""Names a range of bytes in one version of a remote file; a cache may keep such ranges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PartKey:
    """The bytes from *start* to before *stop* of the file *url*, in a *version*."""

    url: str
    version: str
    """As it was listed: the size, a dot, and the entity tag. Empty if the store tells none."""
    start: int
    stop: int


class RangeCache(Protocol):
    """Keeps ranges of remote files. Called by several threads at once."""

    def get(self, key: PartKey, fetch: Callable[[], bytes]) -> bytes:
        """Return the bytes of *key*: kept ones, or those that *fetch* returns."""
        ...


class _Nothing:
    """Keeps nothing."""

    def get(self, _key: PartKey, fetch: Callable[[], bytes]) -> bytes:
        """See `RangeCache.get`."""
        return fetch()


_cache: RangeCache = _Nothing()


def use_cache(cache: RangeCache | None) -> None:
    """Let this process read remote files through *cache*; None reads without one."""
    global _cache  # noqa: PLW0603  one for the process
    _cache = _Nothing() if cache is None else cache


def cached(key: PartKey, fetch: Callable[[], bytes]) -> bytes:
    """Return the bytes of *key*, from the cache of this process or from *fetch*."""
    return _cache.get(key, fetch)
