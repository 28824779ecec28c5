"""`cache`: the elements of the first pass, kept for later passes in memory or in a file.

State of the pass that fills the cache: ``[0, start, the input's state]``, where *start* is the
input's state at the start of that pass, or None. State of later passes: ``[1, start, elements so
far, base seed, pass key, path]``; the last three say in which pass the elements were made. A
process that does not have these elements makes the same ones again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, NoReturn, Protocol
from weakref import WeakKeyDictionary

from penstock import files, stored_file
from penstock.element import Element, own_nest, read_only
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OpIterator, State
from penstock.errors import DatasetError
from penstock.graph.node import Node
from penstock.graph.traversal import topological_order
from penstock.ops.internal.cache_file import CacheFile, Header, Origin
from penstock.ops.internal.cache_writer import CacheWriter
from penstock.serialization.fingerprint import fingerprint

_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Cache(Node):
    """The elements of *upstream*, made once. Without a *filename* they are kept in memory."""

    op: ClassVar[str] = "cache"
    one_to_one: ClassVar[bool] = True
    upstream: Node
    filename: str = ""

    def __post_init__(self) -> None:
        name = self.filename
        if not isinstance(name, str):
            raise DatasetError(f"cache: filename must be a path, not {name!r}")
        if name:
            (name,) = files.names(self.op, "filename", name)
            object.__setattr__(self, "filename", name)
            self._check_file(_has_files(Path(name)))

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        self._check_file(bool(self.filename) and Path(self.filename).is_dir())
        if state is None:
            store = context.shared.get(context.path)
            if store is None and not context.pass_key:
                # Only when a run begins: later, its states alone must decide its elements.
                store = self._kept(context)
            if not isinstance(store, _Store):
                return _FillIterator(self, context, None, None)
            context.shared[context.path] = store
            return _ReplayIterator(store, 0)
        replaying, start, place, *made_in = state
        if not replaying:
            return _FillIterator(self, context, start, place)
        base_seed, pass_key, path = made_in
        origin = base_seed, pass_key, path
        kept = self._kept(context)
        if kept is None or kept.origin != origin:
            kept = _Store(self, context, origin, start)
        context.shared[context.path] = kept
        return _ReplayIterator(kept, place)

    def _check_file(self, is_folder: bool) -> None:
        if is_folder and not stored_file.is_url(self.filename):
            raise DatasetError(
                f"cache: filename must be that of a file, and {self.filename!r} is a folder"
            )

    def new_store(self, context: Context, origin: Origin) -> CacheStore:
        """Return an empty store for the elements that the pass *origin* makes.

        Its file gets the user's name only if runs may share caches and no file has that name yet.
        """
        if not self.filename:
            return _Memory()
        if not context.persistent or CacheFile.open(self.filename) is not None:
            return CacheWriter(self.filename, None)
        labels = tuple(node.label for node in topological_order(self.upstream))
        return CacheWriter(self.filename, Header(self._fingerprint(), labels, origin))

    def _kept(self, context: Context) -> _Store | None:
        """Return the store that an earlier run kept, if there is one."""
        if not context.persistent:
            return None
        if not self.filename:
            return _kept.get(self)
        file = CacheFile.open(self.filename)
        if file is None:
            return None
        if file.header.fingerprint != self._fingerprint():
            self._refuse(file.header)
        store = _Store(self, context, file.header.origin, None)
        store.fill(file)
        return store

    def _fingerprint(self) -> str:
        """Return the input's fingerprint, as it was at first, because functions may hold state."""
        known = _fingerprints.get(self)
        if known is None:
            known = _fingerprints[self] = fingerprint(self.upstream)
        return known

    def _refuse(self, header: Header) -> NoReturn:
        mine = " → ".join(node.label for node in topological_order(self.upstream))
        raise DatasetError(
            f"cache: {self.filename!r} holds the elements of another pipeline, or of functions "
            f"that have changed since: it was made by {' → '.join(header.stages)}, and this is "
            f"{mine}; delete it, or give another filename"
        )


def _has_files(folder: Path) -> bool:
    """Return whether this is a folder with files; one that workers make has only folders."""
    return folder.is_dir() and any(path.is_file() for path in folder.iterdir())


class CachedPass(Protocol):
    """Elements that can be read in any order."""

    def __len__(self) -> int: ...

    def run(self, number: int) -> tuple[int, Sequence[Element]]:
        """Return the elements among which number *number* is, and the number of the first."""


class CacheStore(CachedPass, Protocol):
    """Elements that come one after another."""

    def add(self, elements: Sequence[Element]) -> None:
        """Store the next elements."""

    def seal(self) -> None:
        """Mark the elements complete."""

    def close(self) -> None:
        """Drop the elements, and close open files."""


class _Memory:
    """A store in memory."""

    def __init__(self) -> None:
        self._elements: list[Element] = []

    def __len__(self) -> int:
        return len(self._elements)

    def run(self, _number: int) -> tuple[int, Sequence[Element]]:
        return 0, self._elements

    def add(self, elements: Sequence[Element]) -> None:
        self._elements += elements

    def seal(self) -> None:
        pass

    def close(self) -> None:
        self._elements = []


class _Store:
    """The elements of a pass that has ended, as far as this process has made them.

    A complete store holds only elements, so it may outlast the run and its datasets.
    """

    def __init__(self, node: Cache, context: Context, origin: Origin, start: State) -> None:
        self.origin, self.start = origin, start
        self._elements: CachedPass | None = None
        self._cached: CacheStore | None = None
        """The store that elements are put into while they are made."""
        self._input: OpIterator | None = None
        self._make: tuple[Cache, Context] | None = (node, context)

    @property
    def count(self) -> int:
        """How many elements there are; -1 while some are missing."""
        return -1 if self._make is not None or self._elements is None else len(self._elements)

    def fill(self, elements: CachedPass) -> None:
        """Take *elements* as all there are."""
        node, context = self._make or (None, None)
        self._elements, self._make = elements, None
        if node is not None and context is not None and context.persistent and not node.filename:
            _kept.setdefault(node, self)

    def run(self, number: int, wanted: int) -> tuple[int, Sequence[Element]]:
        """Return elements that include number *number*, and the number of the first of them.

        No elements at the end. If elements are missing, it makes about *wanted* of them.
        """
        while self._make is not None:
            if self._cached is not None and number < len(self._cached):
                return self._cached.run(number)
            self._make_more(*self._make, min(wanted, _AT_ONCE))
        if self._elements is None or number >= len(self._elements):
            return number, ()
        return self._elements.run(number)

    def stop(self) -> None:
        """Stop making elements; if some are missing, the next use makes all of them again."""
        upstream, self._input = self._input, None
        cached, self._cached = self._cached, None
        if upstream is not None:
            upstream.close()
        if cached is not None:
            cached.close()

    def _make_more(self, node: Cache, context: Context, n: int) -> None:
        if self._input is None or self._cached is None:
            base_seed, pass_key, path = self.origin
            made = replace(context, base_seed=base_seed, pass_key=pass_key, path=path)
            self._cached = node.new_store(context, self.origin)
            self._input = made.open(node.upstream, self.start)
        try:
            block = self._input.block(n)
        except ELEMENT_ERRORS:
            return  # the error was raised when the cache was first filled
        try:
            self._cached.add(list(map(read_only, block)))
            if not block:
                self._cached.seal()
        except DatasetError:
            self.stop()
            raise
        if not block:
            self.fill(self._cached)
            self._input.close()
            self._input = self._cached = None


class _FillIterator(OpIterator):
    """The first pass: it passes elements on, and keeps them if it sees all of them."""

    def __init__(self, node: Cache, context: Context, start: State, place: State) -> None:
        self._node, self._context = node, context
        self._origin = (context.base_seed, context.pass_key, context.path)
        self._cached = node.new_store(context, self._origin) if place is None else None
        """None when some elements were not made here, or could not be kept."""
        self._upstream = context.open(node.upstream, place)
        # Under splits a pass has a place of its own in the log, which None would not name.
        names_place = place is None and context.splits is not None
        self._start = self._upstream.mark()(0) if names_place else start
        self._left: list[Element] = []
        """Elements that could not be kept and were not returned yet."""
        self._ended = self._failed = False

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        if self._left:
            block, self._left = self._left[:n], self._left[n:]
            return block
        block = list(map(read_only, self._upstream.block(n)))
        if not block:
            self._end()
        elif self._cached is not None:
            self._keep(self._cached, block)
            return list(map(own_nest, block))
        return block

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        start, left, below = self._start, len(self._left), self._upstream.mark()
        return lambda back: [0, start, below(back + left)]

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`. Skipped elements are not made here; later passes make them."""
        if not n:
            return 0
        left = len(self._left[:n])
        self._left = self._left[n:]
        self._drop()
        skipped = left + self._upstream.skip(n - left)
        if skipped < n:
            self._end()
        return skipped

    def close(self) -> None:
        """See `OpIterator.close`."""
        if not self._ended:
            self._drop()
        self._upstream.close()

    def _keep(self, cached: CacheStore, block: list[Element]) -> None:
        try:
            cached.add(block)
        except DatasetError:
            self._left, self._cached, self._failed = block, None, True
            raise

    def _drop(self) -> None:
        cached, self._cached = self._cached, None
        if cached is not None:
            cached.close()

    def _end(self) -> None:
        """Leave the kept elements to later passes. If keeping failed, the next pass fills again."""
        if self._ended:
            return
        self._ended = True
        if self._failed:
            return
        if self._cached is not None:
            self._cached.seal()
        store = _Store(self._node, self._context, self._origin, self._start)
        if self._cached is not None:
            store.fill(self._cached)
        self._context.shared[self._context.path] = store


class _ReplayIterator(OpIterator):
    """A later pass: it returns the elements of the store."""

    def __init__(self, store: _Store, number: int) -> None:
        self._store, self._number = store, number
        self._first = 0
        self._run: Sequence[Element] = ()
        """Elements from number `_first` on, read from the store."""

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        place = self._number - self._first
        if not 0 <= place < len(self._run):
            self._first, self._run = self._store.run(self._number, n)
            place = self._number - self._first
        block = list(map(own_nest, self._run[place : place + n]))
        self._number += len(block)
        return block

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        number, start, origin = self._number, self._store.start, self._store.origin
        return lambda back: [1, start, number - back, *origin]

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        if self._store.count < 0:
            return super().skip(n)
        skipped = max(0, min(n, self._store.count - self._number))
        self._number += skipped
        return skipped

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._run = ()
        self._store.stop()


_fingerprints: WeakKeyDictionary[Node, str] = WeakKeyDictionary()

_kept: WeakKeyDictionary[Node, _Store] = WeakKeyDictionary()
"""Complete caches of earlier runs in this process, for as long as their datasets live."""
