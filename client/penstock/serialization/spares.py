"""Classes that travel though no function names them: functions meet them as they unpickle files.

Each is pickled alone, and loaded alone when `pickle` or a function asks its module for it. So a
class that cannot be sent, or cannot be loaded on a worker, is an error only if it is needed. It
refers to other names of local modules by name.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Collection
from types import ModuleType
from typing import Any

from penstock.protocol.definition import Spare
from penstock.serialization.modules import TRAVELLED
from penstock.serialization.unpickling import classes_near

MOST_BYTES, MOST_OF_ALL = 1 << 16, 1 << 18
"""How large one may be, and all of them together."""


class TooLargeError(Exception):
    """What is pickled has more bytes than it may have."""


class Bounded(io.BytesIO):
    """A file in memory that refuses to grow above `MOST_BYTES`."""

    def write(self, data: Any) -> int:
        """See `io.BytesIO.write`."""
        nbytes = data.nbytes if isinstance(data, memoryview) else len(data)
        if self.tell() + nbytes > MOST_BYTES:
            raise TooLargeError
        return super().write(data)


def collect(
    readers: Collection[ModuleType],
    sent: Callable[[str, str], bool],
    pickled: Callable[[str, Any], Spare],
) -> dict[str, Spare]:
    """Return the classes that functions of *readers* may meet, and what these classes need.

    Left out are names that are *sent* already, and classes that *pickled* fails for.
    """
    found: dict[str, Spare] = {}
    for module in readers:
        travelled = vars(module).get(TRAVELLED)
        found |= {} if travelled is None else travelled.spares  # they go on as they came
    todo = sorted({key for module in readers for key in classes_near(module)})
    seen = set(todo)
    left = MOST_OF_ALL
    for key in todo:  # it grows
        of, _, name = key.partition(":")
        names = vars(sys.modules[of])
        if sent(of, name) or key in found or name not in names:
            continue
        spare = _tried(pickled, key, names[name])
        if spare is not None and len(spare.stream) <= left:
            left -= len(spare.stream)
            found[key] = spare
            todo += [need for need in spare.needs if need not in seen]
            seen.update(spare.needs)
    return found


def _tried(pickled: Callable[[str, Any], Spare], key: str, value: Any) -> Spare | None:
    try:
        return pickled(key, value)
    except Exception:  # noqa: BLE001  a worker says so to whoever asks for it
        return None
