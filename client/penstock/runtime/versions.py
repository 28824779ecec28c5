"""The versions that this process speaks, as it sends them to others."""

from __future__ import annotations

import functools
import platform
from importlib import metadata

from penstock.protocol.types import PROTOCOL, Versions


@functools.cache
def versions() -> Versions:
    """Return the protocol, and the versions of Python and Penstock, of this process."""
    return Versions(PROTOCOL, platform.python_version(), metadata.version("penstock"))
