"""`webdataset`: samples of tar archives, by the rules of WebDataset.

Neighbouring files of one key are a sample. The key is the path up to the first dot of the file's
name; the field is the rest, in lower case. https://github.com/webdataset/webdataset has the format.
State: see `penstock.ops.internal.file_parts`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, BinaryIO, ClassVar, TypeAlias, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock import stored_file
from penstock.element import Element
from penstock.engine.rows import Block
from penstock.errors import DatasetError
from penstock.extras import needed
from penstock.file_parts import FilePart
from penstock.graph.node import Node, added
from penstock.ops.batch import Batch
from penstock.ops.internal.compressed import GUESSED, decompressed
from penstock.ops.internal.file_index import opened_plain
from penstock.ops.internal.file_parts import (
    START,
    BadRecordError,
    PartReader,
    PartsSource,
    Place,
    RefusalError,
)
from penstock.ops.internal.tar_index import listed
from penstock.ops.map import Map, MapBatches
from penstock.ops.padded_batch import PaddedBatch
from penstock.ops.rebatch import Rebatch
from penstock.reference import Reference
from penstock.runtime.interrupts import is_interrupt
from penstock.storage.tar import BadTarError, TarMember, members
from penstock.stored_file import CHUNK

_KEYED = re.compile(r"((?:.*/)?[^./][^./]*)\.([^/]*)")
_HEADERS = 1 << 13
"""Bytes read at a time to find headers, which lie far apart."""
_AHEAD = 1 << 18
"""Bytes of samples that are read at a time, also for an operator that takes one sample at a time:
the code that reads a header runs several times faster while it is in the processor's caches."""
_META = re.compile(r"__[^/]*__($|/)")


@dataclass(frozen=True, eq=False)
class WebDataset(PartsSource):
    """The samples of tar files, as dicts of `bytes`; of references to them if *lazy*."""

    op: ClassVar[str] = "webdataset"
    select: tuple[str, ...] | None
    lazy: bool = added(False)

    @property
    def has_index(self) -> bool:
        """See `FileSource.has_index`."""
        return True

    def index(self, part: FilePart) -> NDArray[np.int64]:
        """See `FileSource.index`."""
        with opened_plain(self.op, part):
            return _samples(part.name, part.version)

    def open_part(self, part: FilePart, place: Place) -> PartReader:
        """See `PartsSource.open_part`."""
        return _SampleReader(self, part, place)


class _SampleReader(PartReader):
    """The samples of *part*. A place is the byte at which a sample's headers begin, and 0.

    A part has the samples that begin in it. Where a file cannot be read from its middle, its first
    part has all of them.
    """

    def __init__(self, node: WebDataset, part: FilePart, place: Place) -> None:
        self._select, self._url = node.select, part.name
        self._version = part.version if node.lazy else None
        self._starts: list[int] = []
        """Where each sample begins that was read last, and where the next one does."""
        self._ready: list[Element] = []
        """The last of these samples, which nobody has taken yet."""
        self._due: Exception | None = None
        """The error to raise in the place of the next sample. A compressed file is not read again:
        it only goes forward."""
        raw = stored_file.open_part(
            node.op, part, _HEADERS if node.lazy else CHUNK, in_order=not node.lazy
        )
        try:
            self._file: BinaryIO = decompressed(raw, GUESSED)
            if node.lazy:
                _check_plain(part, is_plain=self._file is raw)
            self._is_undivided = self._file is not raw or stored_file.is_url(part.name)
            first, self._stop = _range(part, is_divided=not self._is_undivided)
            if self._is_undivided and part.start == 0 and not node.lazy:
                stored_file.read_to_end(raw)
            at = place[0] if place != START else first
            if at:
                self._file.seek(at)
            self._next = at
            self._members = members(self._file, at)
            self._ahead: TarMember | None = None
        except BaseException:
            raw.close()
            raise

    def rows(self, n: int) -> Block:
        """See `PartReader.rows`."""
        if not self._ready:
            self._ready = self._read(n)
        out, self._ready = self._ready[:n], self._ready[n:]
        return out

    def _read(self, n: int) -> list[Element]:
        """Read the next *n* samples, and more if they are small; none at the end."""
        if self._due is not None:
            raise self._due
        out: list[Element] = []
        self._starts = [first := self._next]
        try:
            while self._stop is None or self._next < self._stop:
                if len(out) >= n and self._next - first >= _AHEAD:
                    break
                sample = self._sample()
                if sample is None:
                    break
                out.append(sample)
                self._starts.append(self._next)
        except Exception as exc:
            if not out or is_interrupt(exc):
                raise
            self._due = exc
        return out

    def _sample(self) -> Element | None:
        """Return the next sample, or None at the end, and move `_next` after it."""
        key, sample, doubled = None, dict[str, Any](), ""
        while (member := self._take()) is not None:
            found = _keyed(member.name)
            if found is None:
                continue
            if key is not None and found[0] != key:
                self._ahead = member
                return self._ended(sample, doubled, member.header)
            if key is None:
                if self._stop is not None and member.header >= self._stop:
                    return None  # the first sample of the file may begin in another part
                key = found[0]
                sample = {"__key__": key, "__url__": self._url}
            if self._select is not None and found[1] not in self._select:
                continue
            if found[1] in sample:
                doubled = f"sample {key!r} has two files {found[1]!r}: {member.name!r}"
            sample[found[1]] = self._data(member)
        return None if key is None else self._ended(sample, doubled, self._file.tell())

    def _ended(self, sample: Element, doubled: str, end: int) -> Element:
        """Return *sample*, which ends at byte *end*, if no file of it is *doubled*."""
        if doubled:
            raise BadRecordError(doubled, end - self._next)
        self._next = end
        return sample

    def _take(self) -> TarMember | None:
        member, self._ahead = self._ahead, None
        return next(self._members, None) if member is None else member

    def _data(self, member: TarMember) -> bytes | Reference:
        if self._version is not None:
            offset, size = cast("list[int]", [np.int64(member.data), np.int64(member.size)])
            return Reference(self._url, offset, size, self._version)
        if self._file.tell() != member.data:
            self._file.seek(member.data)
        data = self._file.read(member.size)
        if len(data) < member.size:
            raise BadTarError(f"the archive ends in the middle of {member.name!r}")
        return data

    def move(self, place: Place) -> None:
        """See `PartReader.move`."""
        self._next, self._due, self._ahead, self._ready = place[0], None, None, []
        self._file.seek(self._next)
        self._members = members(self._file, self._next)

    def is_before(self, following: FilePart) -> bool:
        """See `PartReader.is_before`."""
        return not self._is_undivided or following.name != self._url

    def place(self) -> Callable[[int], Place]:
        """See `PartReader.place`."""
        starts, following = self._starts, self._next
        taken = len(starts) - 1 - len(self._ready)
        return lambda back: (starts[taken - back] if starts else following, 0)

    def describe(self) -> str:
        """See `PartReader.describe`."""
        return f"the sample at byte {self._next}"

    def pass_over(self, size: int) -> None:
        """See `PartReader.pass_over`."""
        self._next += size
        self._starts, self._due = [self._next], None

    def close(self) -> None:
        """See `PartReader.close`."""
        self._file.close()


def _check_plain(part: FilePart, *, is_plain: bool) -> None:
    if not is_plain:
        raise RefusalError(
            f"webdataset: {part.name} is compressed, so that no reference can point into it: "
            "decompress it, or leave lazy out"
        )


def _keyed(name: str) -> tuple[str, str] | None:
    """Return the key and the field of a member; None if it is no part of a sample."""
    name = name.removeprefix("./")
    if _META.match(name):
        return None
    found = _KEYED.fullmatch(name)
    return None if found is None else (found[1], found[2].lower())


@lru_cache(maxsize=32)
def _samples(name: str, version: str) -> NDArray[np.int64]:
    """Return where each sample of an archive begins: 8 bytes a sample. Reads headers only."""
    by_index = listed(FilePart(name, version=version))
    if by_index is not None:
        return _starts(by_index)
    with stored_file.open_file(name, _HEADERS) as file:
        return _starts(members(file, 0))


def _starts(found: Iterable[TarMember]) -> NDArray[np.int64]:
    starts, key = list[int](), None
    for member in found:
        keyed = _keyed(member.name)
        if keyed is not None and keyed[0] != key:
            key = keyed[0]
            starts.append(member.header)
    return np.array(starts, np.int64)


def _range(part: FilePart, *, is_divided: bool) -> tuple[int, int | None]:
    """Return where the first sample begins that begins in *part*, and where to stop."""
    if not part.start:
        return 0, part.stop if is_divided else None
    if not is_divided:
        return 0, 0
    starts = _samples(part.name, part.version)
    where = int(np.searchsorted(starts, part.start))
    return (int(starts[where]), part.stop) if where < len(starts) else (0, 0)


def fields(select: Any) -> tuple[str, ...] | None:
    """Return the fields that a user selects: names as a list, or as ``"jpg;json"``.

    Raises:
        DatasetError: when *select* is neither.
    """
    if select is None:
        return None
    names = select.split(";") if isinstance(select, str) else select
    if (
        not names
        or not isinstance(names, (list, tuple))
        or not all(isinstance(name, str) and name for name in names)
    ):
        raise DatasetError(
            f"webdataset: select must be names of fields, as 'jpg;json' or ['jpg'], not {select!r}"
        )
    if dotted := next((name for name in names if name.startswith(".")), None):
        raise DatasetError(
            f"webdataset: select names fields without their dot: {dotted[1:]!r}, not {dotted!r}"
        )
    return tuple(name.lower() for name in names)


Decoder: TypeAlias = Callable[[bytes], Any]

_IMAGES = ("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm", "webp", "gif", "bmp", "tif", "tiff")


def decoders_of(decode: Any) -> dict[str, Decoder] | None:
    """Return how to decode fields, by field, as a user said; None if not at all.

    Raises:
        DatasetError: naming what is unknown.
    """
    if decode is None:
        return None
    if decode == "pil":
        needed("PIL", 'webdataset(decode="pil")')
        return {**_BY_NAME, **dict.fromkeys(_IMAGES, _image)}
    if decode == "json":
        return {"json": _json}
    if not isinstance(decode, Mapping):
        raise DatasetError(
            f"webdataset: decode must be 'pil', 'json', or a dict by field, not {decode!r}"
        )
    known = {**_BY_NAME, "pil": _image}
    for field, how in decode.items():
        if not callable(how) and how not in known:
            raise DatasetError(
                f"webdataset: decode[{field!r}] must be a function of bytes or one of "
                f"{', '.join(map(repr, sorted(known)))}, not {how!r}"
            )
    return {f.lower(): how if callable(how) else known[how] for f, how in decode.items()}


def decoded(node: Node, decoders: Mapping[str, Decoder], threads: int | None = None) -> Node:
    """Return *node* with its fields decoded by *decoders*."""

    def decode(sample: dict[str, Any]) -> dict[str, Any]:
        return {
            field: _by(decoders[field], sample, field) if field in decoders else data
            for field, data in sample.items()
        }

    return Map(node, decode, threads)


_ONE_BY_ONE = (
    "resolve: decode works on one sample at a time, and {} a batch: put resolve(decode=...) before "
    "batch; or leave decode out, and decode the bytes in a map"
)


def refuse_batches(node: Node) -> None:
    """Refuse to decode the elements of *node* if they are known to be batches.

    Raises:
        DatasetError: naming the operator that made the batches.
    """
    while (node.one_to_one or node.keeps_count) and not isinstance(node, (Map, MapBatches)):
        if len(node.inputs) != 1:
            return
        (node,) = node.inputs
    if isinstance(node, (Batch, PaddedBatch, Rebatch)):
        raise DatasetError(_ONE_BY_ONE.format(f"{node.op} has made"))


def _by(decoder: Decoder, sample: Mapping[str, Any], field: str) -> Any:
    if isinstance(sample[field], np.ndarray):
        raise DatasetError(_ONE_BY_ONE.format(f"the field {field!r} holds"))
    try:
        return decoder(sample[field])
    except Exception as exc:
        key, url = sample.get("__key__"), sample.get("__url__")
        exc.add_note(f"in field {field!r} of sample {key!r} of {url}")
        raise


def _json(data: bytes) -> Any:
    return msgspec.json.decode(data)


def _array(data: bytes) -> Any:
    return np.load(io.BytesIO(data), allow_pickle=False)


def _image(data: bytes) -> Any:
    from PIL import Image  # noqa: PLC0415  not needed for other fields

    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image)


def _text(data: bytes) -> str:
    return data.decode()


_BY_NAME: dict[str, Decoder] = {
    "json": _json,
    "txt": _text,
    "text": _text,
    "cls": int,
    "npy": _array,
}
