"""Bytes of remote files: everything that Penstock reads from object stores and HTTP servers.

- `part_key`: names a range of a file's version. `range_cache`: the cache that this process reads
  through. `disk_cache`: a cache on the host's disk. `cache_folder`: its folder. `cache_index`: the
  ranges that it keeps.
- `stores`: object stores by obstore, others by fsspec; their errors by kind. `urls`: which store
  reads a URL. `listing`: the files that match a pattern.
- `hedging`, `window`, `retries`, `read_ahead`: decide when to send a second request, how many run
  at once, when to try again, and how many pieces to ask for early. They do no I/O.
- `object_md5`: decides whether an answer has the bytes of its object.
- `fetching`: reads a range with these. `ranged_file`: a remote file as Python reads files.
- `counts`: requests, bytes, retries of this process.
"""

from penstock.storage.part_key import PartKey
from penstock.storage.range_cache import RangeCache, use_cache

__all__ = ["PartKey", "RangeCache", "use_cache"]
