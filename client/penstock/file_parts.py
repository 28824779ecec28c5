"""Parts of files: which bytes of a file a split is, and in which version of the file.

A source of files lists its files once. It cuts each into parts of about equal size, so that many
tasks share a large file. A part names the version that was listed: size and time of the last
change, or the entity tag of an object store. Whoever reads another version gets an error.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise, product
from typing import Any, TypeAlias

from penstock.errors import DatasetError
from penstock.protocol.splits import PART_MARK

PART_BYTES = 64 << 20
"""About how many bytes of a file a part has."""

WHOLE = 1 << 62
"""More bytes than a file has: with parts of this size, each file is one part."""

_WHEN = ("LastModified", "last_modified", "Last-Modified", "mtime", "updated")
"""What file systems call the time of the last change."""

_AT_ONCE = 16
"""How many remote files are asked for their size at a time."""

_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_MOST_NAMES = 10_000_000


@dataclass(frozen=True, slots=True)
class FilePart:
    """The bytes from *start* to before *stop* of the file *name*, in a *version*."""

    name: str
    start: int = 0
    stop: int | None = None
    """None is the end of the file."""
    version: str = ""
    """The version that was listed. Empty if the file has none, such as a pipe."""
    in_order: bool = True
    """Whether its bytes are read from start to end. If not, reading ahead is of no use."""

    def __str__(self) -> str:
        if self.stop is None:
            return self.name
        return f"{self.name}{PART_MARK}{self.start}-{self.stop}{PART_MARK}{self.version}"

    @classmethod
    def of(cls, text: str) -> FilePart:
        """Return the part that *text* names. A name without a range is a whole file."""
        pieces = text.rsplit(PART_MARK, 2)
        if len(pieces) != 3:
            return cls(text)
        start, _, stop = pieces[1].partition("-")
        return cls(pieces[0], int(start), int(stop), pieces[2])

    @property
    def size(self) -> int:
        """The bytes of the whole file, as they were listed."""
        return int(self.version.partition(".")[0] or 0)

    @property
    def is_piece(self) -> bool:
        """Whether the file has other parts."""
        return self.stop is not None and (self.start > 0 or self.stop < self.size)

    @property
    def shown(self) -> str:
        """The part as an error message names it."""
        if self.stop is None or not self.start:
            return self.name
        return f"{self.name} (bytes {self.start:,} to {self.stop:,})"

    @property
    def told(self) -> str:
        """The version of the file as messages name it: its size, and when it was changed."""
        size, _, when = self.version.partition(".")
        if not when:
            return f"{self.size:,} bytes"
        if "://" not in self.name and when.isdecimal() and len(when) < 20:  # ns, before 2286
            found = datetime.fromtimestamp(int(when) / 1e9, UTC)
            when = f"changed {found.isoformat(' ', 'milliseconds').removesuffix('+00:00')} UTC"
        else:
            when = f"version {when}"
        return f"{int(size):,} bytes, {when}"


def is_parted(text: str) -> bool:
    """Return whether *text* names a part of a listed version, and not only a file."""
    return FilePart.of(text).stop is not None


def cut(name: str, size: int, version: str, nbytes: int) -> Iterator[str]:
    """Yield the names of the parts of a file: each has about *nbytes* of its *size* bytes."""
    count = max(1, round(size / nbytes))
    for i in range(count):
        yield str(FilePart(name, size * i // count, size * (i + 1) // count, version))


def braces(op: str, pattern: str) -> tuple[str, ...]:
    """Return the names that *pattern* stands for, as a shell expands ``{0..9}`` and ``{a,b}``.

    Numbers keep the leading zeros that the pattern has: ``{008..011}`` is 008, 009, 010, 011.

    Raises:
        DatasetError: when these are too many.

    >>> braces("webdataset", "x-{08..10}.{tar,idx}")
    ('x-08.tar', 'x-08.idx', 'x-09.tar', 'x-09.idx', 'x-10.tar', 'x-10.idx')
    """
    pieces: list[Iterable[str]] = []
    rest, begin, total = pattern, -1, 1
    while (begin := rest.find("{", begin + 1)) >= 0:
        end = _closing(rest, begin)
        options = _options(op, rest[begin + 1 : end]) if end else ()
        if not options:
            continue  # this brace is a letter of the name
        total *= len(options)
        if total > _MOST_NAMES:
            raise DatasetError(f"{op}: {pattern!r} stands for more than {_MOST_NAMES:,} files")
        pieces += [(rest[:begin],), options]
        rest, begin = rest[end + 1 :], -1
    return tuple("".join(chosen) for chosen in product(*pieces, (rest,)))


def _closing(text: str, begin: int) -> int:
    """Return where the brace ends that begins at *begin*; 0 if it does not."""
    depth = 0
    for at in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if not depth:
            return at
    return 0


def _options(op: str, inner: str) -> Sequence[str]:
    """Return what stands for braces around *inner*; nothing if they have no meaning."""
    if found := _RANGE.fullmatch(inner):
        low, high = found.group(1), found.group(2)
        first, last = int(low), int(high)
        numbers = range(first, last + 1) if first <= last else range(first, last - 1, -1)
        if len(numbers) > _MOST_NAMES:
            raise DatasetError(f"{op}: {{{inner}}} stands for more than {_MOST_NAMES:,} files")
        width = max(len(low), len(high)) if low.startswith("0") or high.startswith("0") else 0
        return [f"{number:0{width}}" for number in numbers]
    depth, commas = 0, [-1]
    for at, letter in enumerate(inner):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and not depth:
            commas.append(at)
    if len(commas) == 1:
        return ()
    cuts = pairwise([*commas, len(inner)])
    return [name for low, high in cuts for name in braces(op, inner[low + 1 : high])]


def local_version(found: os.stat_result) -> str:
    """Return the version of a local file."""
    return f"{found.st_size}.{found.st_mtime_ns}"


def remote_version(info: Mapping[str, Any]) -> str:
    """Return the version of a remote file of which fsspec tells *info*; empty if it tells none."""
    size = info.get("size")
    if size is None:
        return ""
    tag = info.get("ETag") or info.get("etag") or info.get("e_tag") or info.get("blob_id")
    if tag:
        return f"{size}.{str(tag).strip(chr(34))}"
    when = next((info[k] for k in _WHEN if info.get(k)), "")
    when = when.isoformat() if hasattr(when, "isoformat") else when
    return f"{size}.{when}"


Info: TypeAlias = Mapping[str, Any] | None
"""What fsspec tells of a file, if it does."""


def parted(
    found: Collection[tuple[str, Info]], nbytes: int, ask: Callable[[str], Info]
) -> tuple[str, ...]:
    """Return the names of all parts of the files *found*; *ask* asks about a remote one."""
    unknown = list({name: 0 for name, info in found if info is None and "://" in name})
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        told = dict(zip(unknown, threads.map(ask, unknown), strict=True))
    names: list[str] = []
    for name, info in found:
        known = info or told.get(name)
        if known is None:
            names += _parts_of_local(name, nbytes)
        elif known.get("size") is None:
            names.append(name)
        else:
            names += cut(name, int(known["size"]), remote_version(known), nbytes)
    return tuple(names)


def _parts_of_local(name: str, nbytes: int) -> Iterable[str]:
    try:
        found = os.stat(name)  # noqa: PTH116  many names
    except OSError:
        return (name,)  # the reader may see it where this process does not
    if not stat.S_ISREG(found.st_mode):
        return (name,)  # a pipe has no size
    return cut(name, found.st_size, local_version(found), nbytes)
