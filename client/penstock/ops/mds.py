"""`mds`: the samples of Mosaic's shards, by their index.

A shard is the number of samples, where each begins and the last ends, a header as JSON, and the
samples: the sizes of the columns whose size varies, then the columns. The format is that of
https://github.com/mosaicml/streaming, version 2. State: see `penstock.ops.internal.file_parts`; a
place is 0 and the number of a sample in its shard.
"""

from __future__ import annotations

import hashlib
import mmap
import pickle
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, replace
from itertools import accumulate, pairwise
from pathlib import PurePosixPath
from typing import Any, BinaryIO, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock import files, stored_file
from penstock.element import Element, read_only
from penstock.engine.rows import Block, ColumnsOfBlock, Rows
from penstock.errors import DatasetError, MissingFile
from penstock.extras import needed
from penstock.file_parts import FilePart
from penstock.normalise import normalise
from penstock.ops.internal.compressed import GUESSED, decompressed
from penstock.ops.internal.file_parts import (
    START,
    BadRecordError,
    PartReader,
    PartsSource,
    Place,
)
from penstock.stored_file import CHUNK

INDEX = "index.json"
_U32 = np.dtype("<u4")
_DTYPES = {
    8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32", 33: "int32",
    34: "float32", 64: "uint64", 65: "int64", 66: "float64",
}  # fmt: skip
_SCALARS = frozenset(_DTYPES.values())
_FEW = 2
"""So many samples at least are read column by column."""
_DIMENSIONS = ("u1", "<u2", "<u4", "<u8")
_MODES = {
    "L": (1, "u1"),
    "RGB": (3, "u1"),
    "RGBA": (4, "u1"),
    "CMYK": (4, "u1"),
    "I;16": (1, "<u2"),
}
"""How many channels an image of Pillow's mode has, and of which dtype."""


@dataclass(frozen=True, slots=True)
class MdsShard:
    """A shard as the index describes it."""

    names: tuple[str, ...]
    encodings: tuple[str, ...]
    sizes: tuple[int | None, ...]
    """The bytes of each column; None if they vary."""
    samples: int
    hashes: tuple[tuple[str, str], ...]
    """Of the shard's bytes, by algorithm."""
    packed: str = ""
    """How it is compressed, if its first bytes do not tell."""


@dataclass(frozen=True, eq=False)
class Mds(PartsSource):
    """The samples of shards, as dicts."""

    op: ClassVar[str] = "mds"
    shards: Mapping[str, tuple[Any, ...]]
    """The fields of each `MdsShard`, by the name of its file."""

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return sum(MdsShard(*fields).samples for fields in self.shards.values())

    @property
    def has_index(self) -> bool:
        """See `FileSource.has_index`."""
        return True

    def index(self, part: FilePart) -> NDArray[np.int64]:
        """See `FileSource.index`."""
        return np.array([[0, MdsShard(*self.shards[part.name]).samples]], np.int64)

    def open_part(self, part: FilePart, place: Place) -> PartReader:
        """See `PartsSource.open_part`."""
        return _ShardReader(MdsShard(*self.shards[part.name]), part, place)


class _ShardReader(PartReader):
    def __init__(self, shard: MdsShard, part: FilePart, place: Place) -> None:
        whole = bool(shard.hashes or shard.packed)
        self._shard, self._data = shard, _content(part, shard.packed, whole=whole)
        self._stackable = all(map(_is_stackable, shard.encodings))
        self._decoders = [decoder(encoding) for encoding in shard.encodings]
        for algorithm, wanted in shard.hashes:
            if hashlib.new(algorithm, self._data).hexdigest() != wanted:
                raise ValueError(f"its {algorithm} is not that of the index: the shard is damaged")
        begins = np.frombuffer(self._data[4 : 4 * shard.samples + 8], _U32)
        self._begins = begins
        low, high = 0, shard.samples
        if part.stop is not None:
            share = np.arange(shard.samples) * part.size // max(shard.samples, 1)
            low, high = np.searchsorted(share, [part.start, part.stop]).tolist()
        self._at, self._stop = (low if place == START else place[1]), high

    def rows(self, n: int) -> Block:
        """See `PartReader.rows`."""
        block = self._alike(min(n, self._stop - self._at)) or self._one_by_one(n)
        self._at += len(block)
        return block

    def _alike(self, n: int) -> Rows | None:
        """Return *n* samples by column; None if they differ in size or have no such form."""
        ends = self._begins[self._at : self._at + n + 1].astype(np.int64)
        sizes_at = _U32.itemsize * self._shard.sizes.count(None)
        if n < _FEW or not self._stackable or ends[-1] > len(self._data):
            return None
        size = ends[1] - ends[0]
        if size <= sizes_at or (np.diff(ends) != size).any():
            return None
        data = np.frombuffer(self._data[ends[0] : ends[-1]], np.uint8)
        if len(data) < n * size:
            return None
        data = data.reshape(n, size)
        told = iter(data[0, :sizes_at].copy().view(_U32).tolist())
        sizes = [next(told) if fixed is None else fixed for fixed in self._shard.sizes]
        if (data[:, :sizes_at] != data[0, :sizes_at]).any() or sizes_at + sum(sizes) != size:
            return None
        try:
            arrays = self._arrays(data, sizes_at, sizes)
        except (ValueError, IndexError, KeyError):  # of one sample, which is then named
            return None
        return Rows(ColumnsOfBlock(arrays, list(arrays.values())), range(n))

    def _arrays(self, data: NDArray[np.uint8], at: int, sizes: list[int]) -> dict[str, Any]:
        arrays = {}
        for name, encoding, size in zip(
            self._shard.names, self._shard.encodings, sizes, strict=True
        ):
            arrays[name] = read_only(_column(encoding, data[:, at : at + size]))
            at += size
        return arrays

    def _one_by_one(self, n: int) -> list[Element]:
        out: list[Element] = []
        for number in range(self._at, min(self._at + n, self._stop)):
            try:
                out.append(self._sample(number))
            except (ValueError, IndexError, KeyError, TypeError) as exc:
                if out:
                    break
                raise BadRecordError(str(exc), 1) from exc
        return out

    def _sample(self, number: int) -> Element:
        at, end = int(self._begins[number]), int(self._begins[number + 1])
        sizes = []
        for fixed in self._shard.sizes:
            sizes.append(fixed or int.from_bytes(self._data[at : at + 4], "little"))
            at += 0 if fixed else 4
        if at + sum(sizes) != end:
            raise ValueError("the sizes of its columns are not that of the sample")
        sample = {}
        for name, decode, size in zip(self._shard.names, self._decoders, sizes, strict=True):
            sample[name] = decode(self._data[at : at + size])
            at += size
        return normalise(sample)

    def move(self, place: Place) -> None:
        """See `PartReader.move`."""
        self._at = place[1]

    def place(self) -> Callable[[int], Place]:
        """See `PartReader.place`."""
        at = self._at
        return lambda back: (0, at - back)

    def close(self) -> None:
        """See `PartReader.close`."""
        if isinstance(self._data, _InPlace):
            self._data.close()

    def describe(self) -> str:
        """See `PartReader.describe`."""
        return f"sample {self._at}"

    def pass_over(self, size: int) -> None:
        """See `PartReader.pass_over`."""
        self._at += size


class _InPlace:
    """The bytes of a remote file, which are fetched when they are asked for."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size
        self.close = file.close

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, at: slice) -> bytes:
        self._file.seek(int(at.start))
        return self._file.read(int(at.stop - at.start))


_UNPACKED: dict[str, Callable[[Any, bytes], Any]] = {
    "br": lambda cramjam, data: cramjam.brotli.decompress(data),
    "snappy": lambda cramjam, data: cramjam.snappy.decompress_raw(data),
}
"""Compressions that no first bytes tell."""


def _content(part: FilePart, packed: str, *, whole: bool) -> Any:
    """Return the bytes of a shard: mapped or fetched piece by piece, if it is not compressed.

    A remote one is read at once if it is wanted as a *whole*.
    """
    raw = stored_file.open_part("mds", part if not whole else _all_of(part), CHUNK)
    if packed:
        with raw:
            cramjam = needed("cramjam", f"mds, to read shards that {packed} compressed,")
            return bytes(_UNPACKED[packed](cramjam, raw.read()))
    file = decompressed(raw, GUESSED)
    is_remote = stored_file.is_url(part.name)
    if file is raw and is_remote and part.stop is not None and not whole:
        return _InPlace(file, part.size)
    with file:
        if file is raw and not is_remote:
            return mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ)
        return file.read()


def _all_of(part: FilePart) -> FilePart:
    return replace(part, start=0, stop=part.stop and part.size)


def decoder(encoding: str) -> Callable[[bytes], Any]:
    """Return the function that decodes values of *encoding*.

    Raises:
        DatasetError: when Penstock cannot decode it.
    """
    name, _, rest = encoding.partition(":")
    simple: dict[str, Callable[[bytes], Any]] = {
        "bytes": bytes, "str": _text, "int": _integer, "json": msgspec.json.decode,
        "str_int": int, "str_float": float, "str_decimal": _text, "pil": _image, "jpeg": bytes,
        "png": bytes, "jpeg_array": _apart, "jpegarray": _apart, "pkl": pickle.loads,
    }  # fmt: skip
    if name in _SCALARS:
        dtype = np.dtype(name).newbyteorder("<")
        return lambda data: np.frombuffer(data, dtype, 1)[0]
    if name.startswith("list["):
        one = decoder(name[5:-1])
        return lambda data: tuple(map(one, _apart(data, 4)))
    if name == "ndarray":
        dtype_name, _, shape = rest.partition(":")
        fixed = _fixed(shape)
        return lambda data: _array(data, dtype_name, fixed)
    if name not in simple:
        raise DatasetError(
            f"mds: a column of encoding {encoding!r} cannot be read: convert the dataset. These "
            f"encodings can be: {', '.join(sorted({*simple, 'ndarray', *_SCALARS}))}"
        )
    return simple[name]


def _is_stackable(encoding: str) -> bool:
    return encoding.partition(":")[0] in {"int", "ndarray", *_SCALARS}


def _column(encoding: str, data: NDArray[np.uint8]) -> NDArray[Any]:
    """Return the values of a column, one in each row of *data*.

    Raises:
        ValueError, IndexError, KeyError: when a value is malformed, or their headers differ.
    """
    name, _, rest = encoding.partition(":")
    if name != "ndarray":
        return np.ascontiguousarray(data).view("<i8" if name == "int" else name).reshape(len(data))
    dtype_name, _, shape = rest.partition(":")
    first = _array(data[0].tobytes(), dtype_name, _fixed(shape))
    header = data.shape[1] - first.nbytes
    if (data[:, :header] != data[0, :header]).any():
        raise ValueError("the arrays differ in shape")
    values = np.ascontiguousarray(data[:, header:])
    return values.view(first.dtype).reshape(len(data), *first.shape)


def _fixed(shape: str) -> tuple[int, ...] | None:
    return tuple(map(int, shape.split(","))) if shape else None


def _apart(data: bytes, at: int = 0) -> tuple[bytes, ...]:
    """Return the pieces of *data*: at *at* is how many, then how long each is, then they follow."""
    count = int(np.frombuffer(data, _U32, 1, at)[0])
    ends = accumulate(np.frombuffer(data, _U32, count, at + 4).tolist(), initial=at + 4 + 4 * count)
    return tuple(data[low:high] for low, high in pairwise(ends))


def _text(data: bytes) -> str:
    return data.decode()


def _integer(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _array(data: bytes, dtype_name: str, shape: tuple[int, ...] | None) -> NDArray[Any]:
    at = 0
    if not dtype_name:
        dtype_name, at = _DTYPES[data[0]], 1
    if shape is None:
        axes, width = data[at] >> 2, data[at] & 3
        kind = np.dtype(_DIMENSIONS[width])
        shape = tuple(np.frombuffer(data, kind, axes, at + 1).tolist())
        at += 1 + axes * kind.itemsize
    return np.frombuffer(data, np.dtype(dtype_name).newbyteorder("<"), offset=at).reshape(shape)


def _image(data: bytes) -> NDArray[Any]:
    width, height, letters = np.frombuffer(data, _U32, 3).tolist()
    mode = data[12 : 12 + letters].decode()
    if mode not in _MODES:
        raise ValueError(f"an image of mode {mode!r} cannot be read without Pillow")
    channels, dtype = _MODES[mode]
    shape = (height, width, channels) if channels > 1 else (height, width)
    return np.frombuffer(data, dtype, offset=12 + letters).reshape(shape)


def shards_of(folder: str, *, pickled: bool) -> dict[str, tuple[Any, ...]]:
    """Return the shards of *folder* by the names of their files, as its index tells.

    Raises:
        MissingFile: when there is no index.
        DatasetError: when the index is malformed, of another version, or has a column that only
            `pickle` can read and *pickled* is false.
    """
    name = f"{folder.rstrip('/')}/{INDEX}"
    try:
        with stored_file.open_file(name, CHUNK) as file:
            index = msgspec.json.decode(file.read())
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFile(
            f"mds: there is no {name}: give the folder that holds the index"
        ) from None
    except msgspec.DecodeError as exc:
        raise DatasetError(f"mds: {name} is no index: {exc}") from exc
    except (OSError, ImportError) as exc:
        raise files.unread("mds", name, exc) from exc
    try:
        entries = list(index["shards"])
        shards = [_shard(name, folder, entry, pickled=pickled) for entry in entries]
    except (KeyError, TypeError, ValueError) as exc:
        raise DatasetError(f"mds: {name} is malformed: {type(exc).__name__}: {exc}") from exc
    return {file: astuple(shard) for file, shard in shards}


def _shard(index: str, folder: str, entry: Any, *, pickled: bool) -> tuple[str, MdsShard]:
    if (entry["format"], entry["version"]) != ("mds", 2):
        raise DatasetError(
            f"mds: {index} is of format {entry['format']!r}, version {entry['version']!r}; only "
            "'mds', version 2, can be read"
        )
    columns = zip(entry["column_names"], entry["column_encodings"], strict=True)
    for name, encoding in columns:
        if encoding == "pkl" and not pickled:
            raise DatasetError(
                f"mds: column {name!r} is pickled, and to unpickle runs code of whoever wrote it: "
                "if you trust the writer, give pickled=True"
            )
        decoder(encoding)
    stored = entry["zip_data"] or entry["raw_data"]
    hashes = tuple(
        (algorithm, digest)
        for algorithm, digest in entry["raw_data"]["hashes"].items()
        if algorithm in hashlib.algorithms_available
    )
    file = f"{folder.rstrip('/')}/{PurePosixPath(stored['basename'])}"
    sizes = tuple(size or None for size in entry["column_sizes"])
    names, encodings = tuple(entry["column_names"]), tuple(entry["column_encodings"])
    packed = str(entry.get("compression") or "").partition(":")[0] if entry["zip_data"] else ""
    packed = packed if packed in _UNPACKED else ""
    return file, MdsShard(names, encodings, sizes, int(entry["samples"]), hashes, packed)
