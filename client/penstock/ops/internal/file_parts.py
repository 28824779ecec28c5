"""The common part of sources that read files in parts: a large file is several units.

State: that of `penstock.ops.internal.unit_cursor`, counting parts, followed by two numbers that say
where the next element begins in the part. If one process reads everything, a digest of the list of
parts follows, because numbers mean nothing in another list. A state without it counts whole files:
earlier versions did not divide the files of `NamedFiles`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NoReturn, Self, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from penstock import files, stored_file
from penstock.engine.context import Context
from penstock.engine.iterator import Mark, OpIterator, RowsIterator, State
from penstock.engine.rows import Block, elements_of
from penstock.errors import DatasetError, FileChanged, StateError
from penstock.executors.function import transform_error
from penstock.file_parts import PART_BYTES, WHOLE, FilePart, is_parted
from penstock.graph.node import ADDED, Node
from penstock.ops.internal.unit_cursor import Units
from penstock.protocol.splits import FilePattern
from penstock.protocol.types import SourceSlice
from penstock.runtime.interrupts import interruptible, is_interrupt
from penstock.stored_file import why_unread

Place: TypeAlias = tuple[int, int]
"""Where an element begins in a part. Its format says what the two numbers mean; (0, 0) is the start
of the part."""

START: Place = (0, 0)


T = TypeVar("T", bound=Any)


class KeptGroups:
    """Decoded groups of elements, as many as fit into *nbytes*.

    These stay. A shuffle asks for all groups in a cycle, so it would never find a group again if
    the newest took the place of the oldest.
    """

    def __init__(self, nbytes: int) -> None:
        self._room, self._found = nbytes, dict[Any, Any]()

    def get(self, key: Any, make: Callable[[], T]) -> T:
        """Return what *make* makes for *key*, which has `nbytes`; it may have been kept."""
        found: T | None = self._found.get(key)
        if found is None:
            found = make()
            if found.nbytes <= self._room:
                self._room -= found.nbytes
                self._found[key] = found
        return found


class BadRecordError(Exception):
    """A record is malformed. If the next record can be read, this one takes *nbytes* bytes."""

    def __init__(self, text: str, nbytes: int | None = None) -> None:
        super().__init__(text)
        self.nbytes = nbytes


class RefusalError(Exception):
    """The user's parameters make no sense for these files; no record is at fault."""


class PartReader(ABC):
    """Reads the elements of one part, in order."""

    @abstractmethod
    def rows(self, n: int) -> Block:
        """Return the next 1 to *n* elements; none at the end of the part.

        An error belongs to the next element. If it is a `BadRecordError` with a length, the element
        after it can be read.
        """

    @abstractmethod
    def place(self) -> Callable[[int], Place]:
        """Capture the place after the last block, for a number of elements before it."""

    def close(self) -> None:  # noqa: B027  some hold nothing
        """Release files."""

    def is_before(self, following: FilePart) -> bool:  # noqa: ARG002
        """Return whether *following*, which is opened next, is read from its start to its end.

        If not, reading its first bytes ahead is of no use.
        """
        return True

    def describe(self) -> str:
        """Say where the next element is, for an error."""
        first, second = self.place()(0)
        return f"at {first}, {second}"

    def move(self, place: Place) -> None:
        """Continue at *place*, where an element begins. For formats that have an index."""
        raise NotImplementedError

    def pick(
        self,
        places: Sequence[Place],
        kept: KeptGroups,  # noqa: ARG002  most keep nothing
    ) -> Iterator[Block | Exception]:
        """Yield the elements at *places*, which are sorted; an error in the place of a bad one.

        Rows have copies of what they hold.
        """
        for place in places:
            try:
                self.move(place)
                block = self.rows(1)
            except Exception as exc:
                if is_interrupt(exc):
                    raise
                yield exc
            else:
                yield elements_of(block) or ValueError("the file has no such element")

    def pass_over(self, size: int) -> None:
        """Continue after a bad record.

        *size* is that of its `BadRecordError`: bytes of text; 1 in formats that number elements.
        """
        raise NotImplementedError


Opener: TypeAlias = Callable[[FilePart, Place], PartReader]


@dataclass(frozen=True, eq=False)
class FileSource(Node):
    """The elements of files, part after part."""

    op: ClassVar[str]

    @abstractmethod
    def units(self) -> FilePattern:
        """See `Node.units`."""

    @property
    def has_index(self) -> bool:
        """Whether any element can be read by itself: `index` and `PartReader.pick` work."""
        return False

    @property
    def index_name(self) -> str:
        """What tells an index from that of other sources which read the same file."""
        return self.op

    def count(self, part: FilePart) -> int | None:  # noqa: ARG002  most must read the file
        """Return how many elements the whole file *part* has, if that is known without reading it.

        Then its index is known, too, and kept nowhere.
        """
        return None

    def index(self, part: FilePart) -> NDArray[np.int64]:
        """Return the index of the whole file *part*; see `penstock.ops.internal.file_index`.

        Raises:
            RefusalError: when this file cannot have one.
        """
        raise NotImplementedError

    @abstractmethod
    def open_part(self, part: FilePart, place: Place) -> PartReader:
        """Open *part* at *place*."""

    def opener(self) -> Opener:
        """Return what opens the parts of one run; it may remember what the parts share."""
        return self.open_part

    @abstractmethod
    def some(self, cut: SourceSlice) -> Self:
        """Return the source of those parts that *cut* leaves."""

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        if context.draws_splits:
            return _PartsIterator(self, context, None, state)
        pattern = self.units()
        if state is not None and len(state) == _UNDIVIDED:
            names = pattern.cut(files.listing(self.op, replace(pattern, part_bytes=0)))
            return _PartsIterator(self, context, names, state)
        listed = files.listing(self.op, pattern)
        digest = files.digest(listed)
        if state is not None:
            number, first, second, before = state
            state = [number, first, second]
            if before != digest:
                raise StateError(
                    f"{self.op}: the files of {', '.join(map(repr, pattern.patterns[:3]))} "
                    "have changed since the state was saved: restore them, or begin again"
                )
        return _ListedPartsIterator(self, context, pattern.cut(listed), state, digest)


_UNDIVIDED = 3
"""How many values a state has that counts whole files."""


@dataclass(frozen=True, eq=False)
class PartsSource(FileSource):
    """The elements of the files of *pattern*."""

    pattern: FilePattern

    def units(self) -> FilePattern:
        """See `Node.units`."""
        return self.pattern

    def some(self, cut: SourceSlice) -> Self:
        """See `FileSource.some`."""
        return replace(self, pattern=replace(self.pattern, cuts=(*self.pattern.cuts, cut)))


@dataclass(frozen=True, eq=False)
class NamedFiles(FileSource):
    """The elements of *files*: names, or if they are not *literal*, patterns."""

    files: tuple[str, ...]
    literal: bool = field(default=True, kw_only=True, metadata=ADDED)
    part_bytes: int = field(default=PART_BYTES, kw_only=True, metadata=ADDED)
    cuts: tuple[SourceSlice, ...] = field(default=(), kw_only=True, metadata=ADDED)

    @property
    def is_divided(self) -> bool:
        """Whether a large file may be several parts."""
        return True

    def units(self) -> FilePattern:
        """See `Node.units`."""
        size = self.part_bytes if self.is_divided else WHOLE
        named = files.literally(self.files)
        return replace(named, literal=self.literal, cuts=self.cuts, part_bytes=size)

    def some(self, cut: SourceSlice) -> Self:
        """See `FileSource.some`."""
        return replace(self, cuts=(*self.cuts, cut))


class _PartsIterator(RowsIterator):
    def __init__(
        self, node: FileSource, context: Context, names: tuple[str, ...] | None, state: State
    ) -> None:
        self._open, self.op = node.opener(), node.op
        place, self._place = None, START
        if state is not None:
            *place, first, second = state
            self._place = first, second
        size = None if names is None else len(names)
        if names is not None:
            left = names[place[0] if place else 0 :]
            files.check_local(self.op, (name for name in left if not is_parted(name)))
        self._units = Units(context, size, place, names or ())
        self._reader: PartReader | None = None
        self._part, self._number = FilePart(""), 0
        self._reading = self._closed = False

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`. Never crosses the end of a part."""
        while self._reader is not None or self._next_part():
            block = self._read(n)
            if len(block):
                return block
            self._leave()
            self._check_end()
        return []

    def mark(self) -> Mark:
        """See `OpIterator.mark`. In a part, the position among the units is before it."""
        units, inside = self._units.mark(), int(self._reader is not None)
        waiting = self._place
        place = (lambda _: waiting) if self._reader is None else self._reader.place()

        def at(back: int) -> State:
            return [*units(inside), *place(back)]

        return at

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._closed = True
        if not self._reading:
            self._leave()

    def _next_part(self) -> bool:
        start, stop = self._units.take(1)
        if start == stop:
            return False
        self._number, (name,) = start, self._units.names(start, stop)
        self._part = FilePart.of(name)
        try:
            self._reader = interruptible(self._open, self._part, self._place)
        except Exception as exc:  # noqa: BLE001  each file system has its own errors
            self._fail(exc)
        self._place = START
        if name := self._units.following():
            following = FilePart.of(name)
            if self._reader.is_before(following):
                stored_file.read_soon(following)
        return True

    def _check_end(self) -> None:
        """Check that nobody wrote to a file while it was read, if its store does not check that."""
        if stored_file.may_change(self._part.name):
            try:
                stored_file.check_version(self.op, self._part)
            except OSError as exc:
                self._fail(exc)

    def _read(self, n: int) -> Block:
        self._reading = True
        try:
            block: Block = interruptible(cast("PartReader", self._reader).rows, n)
        except Exception as exc:  # noqa: BLE001  each file system has its own errors
            self._fail(exc)
        finally:
            self._reading = False
            if self._closed:
                self._leave()
        return block

    def _fail(self, exc: Exception) -> NoReturn:
        """Skip the record if the next one can be found; else skip the rest of the part."""
        if is_interrupt(exc):
            raise exc
        name = self._part.name
        where = self._part.shown if self._reader is None else f"{self._reader.describe()} of {name}"
        label, number = f"{self.op}({name})", self._number
        if isinstance(exc, BadRecordError) and exc.nbytes is not None and self._reader is not None:
            self._reader.pass_over(exc.nbytes)
        else:
            self._leave()
        try:
            if isinstance(exc, (FileChanged, StateError)):
                raise exc
            if isinstance(exc, FileNotFoundError):
                if not (why := why_unread(exc)):
                    raise files.missing(self.op, name) from exc
                exc = OSError(why)
            if isinstance(exc, RefusalError):
                raise DatasetError(str(exc)) from None
            error = transform_error(label, number, exc)
            raise error.but(detail=f"{error.detail} ({where})") from exc
        finally:
            del exc

    def _leave(self) -> None:
        reader, self._reader, self._place = self._reader, None, START
        if reader is not None:
            reader.close()


class _ListedPartsIterator(_PartsIterator):
    def __init__(
        self, node: FileSource, context: Context, names: tuple[str, ...], state: Any, digest: str
    ) -> None:
        super().__init__(node, context, names, state)
        self._digest = digest

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        below, digest = super().mark(), self._digest
        return lambda back: [*below(back), digest]
