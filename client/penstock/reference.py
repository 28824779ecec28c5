"""References: where the bytes of a field are, in place of the bytes, until they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from penstock import files, stored_file
from penstock.element import Element, parts_of, text_array, with_parts
from penstock.file_parts import FilePart
from penstock.frames.nest import travels_as_itself
from penstock.stored_file import why_unread

_AT_ONCE = 16
"""How many remote files are read at a time."""

_BUFFER = 1 << 13
"""Bytes read at a time: small, because a reference's neighbour in the file is rarely read too."""


@travels_as_itself
class Reference(NamedTuple):
    """The place of some bytes in a file: about 100 bytes that stand for an image or a sound.

    Shuffle, batch or pack elements that hold references, and read the bytes afterwards: `read` in
    a `map`, or `Dataset.resolve`. A batch holds one reference whose fields are arrays, and `read`
    reads all of them.

    Args:
        url: the file: a local path, or a URL.
        offset: the first byte, counted from 0.
        size: how many bytes.
        version: the version of the file, as Penstock listed it; empty reads any version.

    >>> from pathlib import Path
    >>> _ = Path("words.bin").write_bytes(b"onetwothree")
    >>> Reference("words.bin", 3, 3).read()
    b'two'
    >>> words = Dataset.from_tensor_slices([3, 6]).map(lambda at: Reference("words.bin", at, 3))
    >>> [batch.read().tolist() for batch in words.batch(2)]
    [[b'two', b'thr']]
    """

    url: str
    offset: int
    size: int
    version: str = ""

    def read(self) -> Any:
        """Return the bytes; of a batch of references, an object array of `bytes` in its shape.

        A batch is read file after file, each from start to end, and remote files 16 at a time.

        Raises:
            FileChanged: when a file is no longer the version that was listed.
            MissingFile: when there is no such file.
            OSError: when a file is shorter than the reference says, or cannot be read.
        """
        shape = np.shape(self.size)
        if not shape:
            return _read([_plain(self)])[0]
        columns = [np.ravel(np.asarray(column, object)) for column in self]
        return text_array(_read([_plain(row) for row in zip(*columns, strict=True)])).reshape(shape)


def resolved(element: Element) -> Element:
    """Return *element* with bytes in the place of each `Reference`."""
    if isinstance(element, Reference):
        return element.read()
    parts = parts_of(element)
    return element if parts is None else with_parts(element, map(resolved, parts))


def _plain(fields: Any) -> Reference:
    url, offset, size, version = fields
    return Reference(str(url), int(offset), int(size), str(version))


def _read(wanted: Sequence[Reference]) -> list[bytes]:
    order = sorted(
        range(len(wanted)), key=lambda i: (wanted[i].url, *wanted[i][3:], *wanted[i][:3])
    )
    files_of = [
        list(group) for _, group in groupby(order, key=lambda i: (wanted[i].url, wanted[i].version))
    ]
    found = [b""] * len(wanted)

    def read(group: list[int]) -> None:
        for i, data in zip(group, _read_file([wanted[i] for i in group]), strict=True):
            found[i] = data

    remote = [group for group in files_of if stored_file.is_url(wanted[group[0]].url)]
    if len(remote) > 1:
        with ThreadPoolExecutor(min(_AT_ONCE, len(remote))) as threads:
            list(threads.map(read, files_of))
    else:
        for group in files_of:
            read(group)
    return found


def _read_file(wanted: list[Reference]) -> Iterator[bytes]:
    """Yield the bytes of references to one version of one file, which are sorted."""
    url, version = wanted[0].url, wanted[0].version
    try:
        part = FilePart(url, 0, FilePart(url, version=version).size or None, version)
        with stored_file.open_part("Reference.read", part, _BUFFER, in_order=False) as file:
            for reference in wanted:
                file.seek(reference.offset)
                data = file.read(reference.size)
                if len(data) < reference.size:
                    raise OSError(
                        f"{url} ends before byte {reference.offset + reference.size}, where a "
                        "reference to it ends: the file was cut short, or the reference is wrong"
                    )
                yield data
    except FileNotFoundError as exc:
        if why := why_unread(exc):
            raise OSError(f"{url} cannot be read: {why}") from exc
        raise files.missing("Reference.read", url) from exc
