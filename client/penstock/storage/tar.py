"""Members of tar archives by their headers: POSIX ustar, GNU and pax.

https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html has the format.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

BLOCK = 512
_ZEROS = bytes(BLOCK)
_REGULAR = (b"\0", b"0", b"7")
_WITHOUT_DATA = (b"1", b"2", b"3", b"4", b"5", b"6")
"""Links, devices, folders and pipes: old tools write a size, but no data."""
_SPARSE = b"S"
_ABOUT_THE_NEXT = (b"L", b"K", b"x", b"X", b"g")
"""Kinds of members that describe the next one: a long name or link of GNU, records of pax."""
_MOST_NAME = 1 << 20
"""Bytes of a name, or of the pax records of a member."""


class BadTarError(Exception):
    """A file is no tar archive, or is damaged."""


@dataclass(frozen=True, slots=True)
class TarMember:
    """A regular file in an archive."""

    name: str
    header: int
    """Where its headers begin, a long name's among them."""
    data: int
    size: int

    @property
    def end(self) -> int:
        """Where the next member's headers begin."""
        return self.data + -(-self.size // BLOCK) * BLOCK


def members(file: BinaryIO, at: int) -> Iterator[TarMember]:
    """Yield the regular files of an archive from the headers at byte *at* on.

    *file* stands at *at*. When a member is yielded, *file* stands at its data. The caller may read
    the data, and must not move *file* otherwise.

    Raises:
        BadTarError: where a header is damaged, or the file ends in the middle of a member.
    """
    first, told = at, dict[str, str]()
    """Where the headers of the next member begin, and what those before its own said of it."""
    while header := file.read(BLOCK):
        if header == _ZEROS:
            return  # the rest is padding
        if len(header) < BLOCK:
            raise BadTarError(f"the archive ends in the middle of a header, at byte {at}")
        check(header, at)
        at, kind = at + BLOCK, header[156:157]
        size = number(header[124:136], at)
        if kind in _ABOUT_THE_NEXT:
            told |= _said(kind, _whole(file, size, at))
            skip(file, at + size, at + padded(size))
            at += padded(size)
            continue
        name = told.get("path") or _name(header)
        if kind == _SPARSE or any(key.startswith("GNU.sparse.") for key in told):
            name = told.get("GNU.sparse.name", name)
            raise BadTarError(f"{name!r} is a sparse file: make the archive without --sparse")
        size = 0 if kind in _WITHOUT_DATA else _size(told.get("size"), size, at)
        member = TarMember(name, first, at, size)
        if kind in _REGULAR:
            yield member
            skip(file, file.tell(), member.end)
        else:
            skip(file, at, member.end)
        first, at, told = member.end, member.end, {}


def _said(kind: bytes, data: bytes) -> dict[str, str]:
    """Return what a member of *kind* says of the next one."""
    match kind:
        case b"L":
            return {"path": text(data.rstrip(b"\0"))}
        case b"x" | b"X":
            return records(data)
    return {}


def check(header: bytes, at: int) -> None:
    """Check the checksum of a header."""
    told = number(header[148:156], at)
    signed = sum(header[:148]) + 8 * 32 + sum(header[156:])
    if told == signed:
        return
    old = signed - 256 * sum(byte > 127 for byte in header[:148] + header[156:])
    if told != old:  # some old tools add signed bytes
        raise BadTarError(f"the checksum of the header at byte {at} is wrong")


def _size(told: str | None, size: int, at: int) -> int:
    """Return the size that pax records told, or *size*, that of the header."""
    if told is None:
        return size
    if not (told.isascii() and told.isdigit()):
        raise BadTarError(f"the size {told!r} of the member at byte {at} is no number")
    return int(told)


def number(field: bytes, at: int) -> int:
    """Return a number of a header: octal digits, or base 256."""
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    digits = field.partition(b"\0")[0].strip(b" ")
    if digits.strip(b"01234567"):
        raise BadTarError(f"a number in the header before byte {at} is malformed")
    return int(digits or b"0", 8)


def records(data: bytes) -> dict[str, str]:
    """Return the records of a pax header."""
    found, at = dict[str, str](), 0
    while at < len(data) and (space := data.find(b" ", at)) > 0 and data[at:space].isdigit():
        end = at + int(data[at:space])
        key, _, value = data[space + 1 : end - 1].partition(b"=")
        found[text(key)] = text(value)
        if end <= at:
            break
        at = end
    return found


def padded(size: int) -> int:
    """Return how many bytes *size* bytes of data take."""
    return -(-size // BLOCK) * BLOCK


def skip(file: BinaryIO, at: int, to: int) -> None:
    """Move *file* from byte *at* to byte *to*, which it must have."""
    if to > at:
        file.seek(to - 1)
        if not file.read(1):
            raise BadTarError(f"the archive ends before byte {to}, in the middle of a member")


def text(data: bytes) -> str:
    """Return a name; bytes that are no UTF-8 stay as they are."""
    return data.decode("utf-8", "surrogateescape")


def _name(header: bytes) -> str:
    name, prefix = (field.split(b"\0", 1)[0] for field in (header[:100], header[345:500]))
    is_posix = header[257:263] == b"ustar\0"
    return text(prefix + b"/" + name if is_posix and prefix else name)


def _whole(file: BinaryIO, size: int, at: int) -> bytes:
    if size > _MOST_NAME:
        raise BadTarError(f"the archive claims a name of {size} bytes, at byte {at}")
    data = file.read(size)
    if len(data) < size:
        raise BadTarError(f"the archive ends in the middle of a member, at byte {at + len(data)}")
    return data
