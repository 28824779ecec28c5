"""The members of a tar archive by the index that DALI's ``wds2idx`` writes beside it.

The index of ``a.tar`` is ``a.idx``: a version and a count, then a line for each sample, which has
the extension, the first byte, the size and the name of each file.
https://docs.nvidia.com/deeplearning/dali has the tool. An index is used only if it accounts for all
bytes of the archive, so it gives the members that the headers give.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from penstock import stored_file
from penstock.file_parts import FilePart
from penstock.storage.tar import BLOCK, BadTarError, TarMember, members, text
from penstock.stored_file import CHUNK

log = logging.getLogger("penstock.files")

_VERSION = "v1.2"
"""Earlier versions have no names, without which a file is not known to belong to a sample."""
_PADDING = 64 << 10
"""An archive may end in so many zeros and more."""


class _UnfitError(Exception):
    """An index does not describe its archive, or is of another version."""


def listed(part: FilePart) -> list[TarMember] | None:
    """Return the members of the archive *part* by its index; None without one that describes it."""
    name = f"{part.name.removesuffix('.tar')}.idx"
    try:
        lines = _lines(name, part)
        found = list(_parsed(lines))
        with stored_file.open_file(part.name, BLOCK) as file:
            return _checked(found, part.size, file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, BadTarError, _UnfitError) as exc:
        log.warning(
            "%s is not used, and the headers of %s are read instead: %s", name, part.name, exc
        )
        return None


def _lines(name: str, part: FilePart) -> list[str]:
    """Return the lines of the index *name*, if it is not older than its archive."""
    if not part.name.endswith(".tar"):
        raise FileNotFoundError
    when = part.version.partition(".")[2]
    if not stored_file.is_url(name) and Path(name).stat().st_mtime_ns < int(when or 0):
        raise _UnfitError("it is older than the archive")
    with stored_file.open_file(name, CHUNK) as file:
        return text(file.read()).splitlines()


def _parsed(lines: list[str]) -> Iterator[tuple[str, int, int]]:
    """Yield the name, the first byte and the size of each file."""
    version, _, count = lines[0].partition(" ") if lines else ("", "", "")
    if version != _VERSION or int(count) != len(lines) - 1:
        raise _UnfitError(f"it is no whole index of version {_VERSION}")
    for line in lines[1:]:
        words = line.split(" ")
        if len(words) % 4:
            raise _UnfitError("a name in it has a space")
        for at in range(0, len(words), 4):
            yield words[at + 3], int(words[at + 1]), int(words[at + 2])


def _checked(found: list[tuple[str, int, int]], size: int, file: BinaryIO) -> list[TarMember]:
    """Return the members, if they fill the archive, and its first and last header agree."""
    if not found:
        raise _UnfitError("it has no files")
    headers = found[0][1]
    """How many bytes of headers there are before each file: one block, and perhaps pax records."""
    made = [TarMember(name, data - headers, data, nbytes) for name, data, nbytes in found]
    gaps = any(a.end != b.header for a, b in pairwise(made))
    if gaps or not made[-1].end <= size <= made[-1].end + _PADDING:
        raise _UnfitError("it does not account for all bytes of the archive")
    for member in (made[0], made[-1]):
        file.seek(member.header)
        if next(members(file, member.header), None) != member:
            raise _UnfitError(f"the archive has another file than {member.name!r} there")
    return made
