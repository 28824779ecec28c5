"""Mosaic Streaming's writer of shards, without the clients of clouds that its package imports."""

import importlib.util
import sys
import types
from pathlib import Path

_WHERE = Path(importlib.util.find_spec("streaming").submodule_search_locations[0])
for _name in ("streaming", "streaming.base"):
    _package = types.ModuleType(_name)
    _package.__path__ = [str(_WHERE.joinpath(*_name.split(".")[1:]))]
    sys.modules.setdefault(_name, _package)

from streaming.base.format.mds.encodings import get_mds_encodings, mds_decode  # noqa: E402
from streaming.base.format.mds.reader import MDSReader  # noqa: E402
from streaming.base.format.mds.writer import MDSWriter  # noqa: E402

__all__ = ["MDSReader", "MDSWriter", "get_mds_encodings", "mds_decode"]
