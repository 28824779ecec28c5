"""How a run of elements of one structure comes apart into columns, one a leaf, and together.

A named tuple travels as its class's name and fields: the class itself is the user's code. Where
it arrives, an equal type is made, the same one for the same name and fields. Penstock's own types
arrive as themselves.
"""

from __future__ import annotations

import collections
import keyword
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from operator import itemgetter
from typing import Any, ClassVar, TypeAlias, TypeVar

from penstock.element import Element, is_namedtuple
from penstock.protocol.malformed import glimpse

Column: TypeAlias = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A place where data is."""

    def split(self, block: Column, out: list[Column]) -> bool:
        """Append to *out* a column for each leaf of *block*; return whether all are structured so.

        It does not check the leaves themselves.
        """
        out.append(block)
        return True

    @property
    def size(self) -> tuple[int, int]:
        """How many leaves there are in it, and how many places in all."""
        return 1, 1

    def join(self, columns: list[Column], _count: int) -> Column:
        """Put elements together again from the last of *columns*, as many as are needed."""
        return columns.pop()

    def plain(self) -> Any:
        """Return this structure as plain data."""
        return None


@dataclass(frozen=True, slots=True)
class Tuple:
    """A tuple, or a named tuple of type *kind*."""

    parts: tuple[Nest, ...]
    kind: type = tuple

    tag: ClassVar[str] = "tuple"

    def split(self, block: Column, out: list[Column]) -> bool:
        """See `Leaf.split`."""
        if set(map(type, block)) != {self.kind} or set(map(len, block)) != {len(self.parts)}:
            return False
        return _split(self.parts, zip(*block, strict=True), out)

    @property
    def size(self) -> tuple[int, int]:
        """See `Leaf.size`."""
        return _size(self.parts)

    def join(self, columns: list[Column], count: int) -> Column:
        """See `Leaf.join`."""
        if not self.parts:
            return [self.kind()] * count
        rows = zip(*[part.join(columns, count) for part in self.parts], strict=True)
        # As `_make` does, at half its price.
        return list(rows if self.kind is tuple else map(partial(tuple.__new__, self.kind), rows))

    def plain(self) -> Any:
        """See `Leaf.plain`."""
        parts = [part.plain() for part in self.parts]
        if self.kind is tuple:
            return [self.tag, parts]
        return [self.tag, parts, self.kind.__name__, list(self.kind._fields)]  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Dict:
    """A dict with *keys* in this order."""

    keys: tuple[str, ...]
    parts: tuple[Nest, ...]

    tag: ClassVar[str] = "dict"

    def split(self, block: Column, out: list[Column]) -> bool:
        """See `Leaf.split`."""
        if set(map(type, block)) != {dict} or not self._has_keys(block):
            return False
        columns = (list(map(itemgetter(key), block)) for key in self.keys)
        return _split(self.parts, columns, out)

    def _has_keys(self, block: Column) -> bool:
        """Return whether each dict in *block* has the keys, in their order.

        Keys do not repeat in a dict, so as many in all as there should be are as many in each.
        """
        return list(chain.from_iterable(block)) == [*self.keys] * len(block)

    @property
    def size(self) -> tuple[int, int]:
        """See `Leaf.size`."""
        return _size(self.parts)

    def join(self, columns: list[Column], count: int) -> Column:
        """See `Leaf.join`."""
        if not self.parts:
            return [{} for _ in range(count)]
        return _dicts(self.keys, [part.join(columns, count) for part in self.parts])

    def plain(self) -> Any:
        """See `Leaf.plain`."""
        # As bytes: a key may hold what UTF-8 does not.
        keys = [key.encode("utf-8", "surrogatepass") for key in self.keys]
        return [self.tag, [part.plain() for part in self.parts], keys]


Nest: TypeAlias = Leaf | Tuple | Dict

LEAF = Leaf()


def nest_of(element: Element) -> Nest:
    """Return the structure of *element*."""
    if isinstance(element, tuple):
        parts = tuple(map(nest_of, element))
        return Tuple(parts, type(element) if is_namedtuple(element) else tuple)
    if isinstance(element, dict):
        return Dict(tuple(element), tuple(map(nest_of, element.values())))
    return LEAF


def nest_from(plain: Any) -> Nest:
    """Return the structure that `plain` was made of.

    Raises:
        ValueError, TypeError, RecursionError: when it was made of none.
    """
    match plain:
        case None:
            return LEAF
        case [Tuple.tag, list(parts)]:
            return Tuple(tuple(map(nest_from, parts)))
        case [Tuple.tag, list(parts), str(name), list(fields)] if len(parts) == len(fields):
            kind = named_tuple(name, tuple(map(_field, fields)))
            return Tuple(tuple(map(nest_from, parts)), kind)
        case [Dict.tag, list(parts), list(keys)] if len(parts) == len(set(keys)) == len(keys):
            return Dict(tuple(map(_key, keys)), tuple(map(nest_from, parts)))
    raise ValueError(f"{glimpse(plain)} is no structure of elements")


def _field(field: Any) -> str:
    if not isinstance(field, str):
        raise TypeError(f"{glimpse(field)} is no name of a field")
    return field


def _key(key: Any) -> str:
    if not isinstance(key, bytes):
        raise TypeError(f"{glimpse(key)} is no key")
    return key.decode("utf-8", "surrogatepass")


def _size(parts: tuple[Nest, ...]) -> tuple[int, int]:
    sizes = [part.size for part in parts]
    return sum(leaves for leaves, _ in sizes), 1 + sum(places for _, places in sizes)


K = TypeVar("K", bound=type)

_own: dict[tuple[str, tuple[str, ...]], type] = {}


def travels_as_itself(kind: K) -> K:
    """Let *kind*, a named tuple of Penstock, be itself where it arrives. A decorator."""
    _own[kind.__name__, kind._fields] = kind  # type: ignore[attr-defined]
    return kind


def named_tuple(name: str, fields: tuple[str, ...]) -> type:
    """Return the type of a named tuple that arrived."""
    return _own.get((name, fields)) or _made(name, fields)


@lru_cache(maxsize=1024)
def _made(name: str, fields: tuple[str, ...]) -> type:
    """Return the type that stands here for a named tuple from elsewhere."""
    if not name.isidentifier() or keyword.iskeyword(name):
        name = "Element"
    return collections.namedtuple(  # noqa: PYI024  # made at run time
        name, fields, rename=True, module=__name__
    )


def _split(parts: Sequence[Nest], columns: Iterator[Column], out: list[Column]) -> bool:
    return all(part.split(column, out) for part, column in zip(parts, columns, strict=True))


def _dicts(keys: tuple[str, ...], columns: list[Column]) -> Column:
    rows = zip(*columns, strict=True)
    match keys:  # a display is thrice as fast as a call
        case (a,):
            return [{a: x} for (x,) in rows]
        case (a, b):
            return [{a: x, b: y} for x, y in rows]
        case (a, b, c):
            return [{a: x, b: y, c: z} for x, y, z in rows]
        case (a, b, c, d):
            return [{a: x, b: y, c: z, d: u} for x, y, z, u in rows]
    return [dict(zip(keys, row, strict=True)) for row in rows]
