"""Digests of values: equal when values mean the same, whatever process they live in.

Values form a graph, with cycles: a recursive function uses itself, a class's methods its class.
A value on no cycle is hashed from its label and the digests of its parts. Values on a common
cycle (a strongly connected component, found by Tarjan's algorithm) are told apart by refinement:
each round hashes every one with its parts' hashes of the round before, until no more of them
differ. So a digest depends neither on where a walk began nor on which of two equal values it met.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.serialization.code_parts import ATOMS, Parts, plain
from penstock.serialization.value_parts import array_label, parts

_WORTH_KEEPING = 1 << 12


class ContentKeys:
    """The content keys of arrays, each computed once for as long as this lives."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, str]] = {}

    def key(self, array: np.ndarray[Any, Any]) -> str:
        """Return the key of the elements of *array*, in C order."""
        known = self._known.get(id(array))
        if known is not None:
            return known[1]
        key = content_key(raw_bytes(array))
        if array.nbytes >= _WORTH_KEEPING:
            self._known[id(array)] = (array, key)
        return key


def content_key(data: memoryview | bytes) -> str:
    """Return the key of *data*."""
    return hashlib.sha256(data).hexdigest()


def raw_bytes(array: np.ndarray[Any, Any]) -> memoryview:
    """Return the elements of *array*, in C order, as bytes; a view where it lies so already."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


DIGEST_BYTES = 16


@dataclass(slots=True, eq=False)
class _Vertex:
    value: Any
    parts: Parts
    number: int
    low: int
    """The least number that is known to be on a cycle with it."""
    todo: Iterator[tuple[str, Any]]


class Digester:
    """Digests values, each once."""

    def __init__(self, keys: ContentKeys) -> None:
        self._keys = keys
        self._done: dict[int, bytes] = {}
        self._alive: list[Any] = []
        """The values whose ids are in `_done`: an id is valid while its value lives."""
        self.opaque: set[str] = set()
        """The types of values that were compared by type and name only."""

    def digest(self, value: Any) -> bytes:
        """Return the digest of *value*."""
        if type(value) in ATOMS:
            return _hash(plain(value))
        if id(value) not in self._done:
            self._walk(value)
        return self._done[id(value)]

    def parts(self, value: Any) -> Parts:
        """Return what *value* is made of; arrays are known by their content."""
        if isinstance(value, np.ndarray) and type(value) in _ARRAYS and not value.dtype.hasobject:
            return Parts(array_label(value, self._keys.key(value)))
        return parts(value)

    def _walk(self, root: Any) -> None:
        """Digest *root* and all below it, by Tarjan's algorithm without recursion."""
        found: dict[int, _Vertex] = {}
        path = [self._enter(root, found)]
        waiting = path.copy()
        while path:
            vertex = path[-1]
            child = self._next_child(vertex, found)
            if child is not None:
                path.append(child)
                waiting.append(child)
                continue
            path.pop()
            if path:
                path[-1].low = min(path[-1].low, vertex.low)
            if vertex.low == vertex.number:
                self._close(_pop_through(waiting, vertex))

    def _enter(self, value: Any, found: dict[int, _Vertex]) -> _Vertex:
        made = self.parts(value)
        if made.opaque:
            self.opaque.add(f"{type(value).__module__}.{type(value).__qualname__}")
        number = len(found)
        vertex = _Vertex(value, made, number, number, iter(made.children))
        found[id(value)] = vertex
        self._alive.append(vertex)
        return vertex

    def _next_child(self, vertex: _Vertex, found: dict[int, _Vertex]) -> _Vertex | None:
        """Return the next part of *vertex* that was not met before; None when all were."""
        for _, child in vertex.todo:
            if type(child) in ATOMS or id(child) in self._done:
                continue
            met = found.get(id(child))
            if met is None:
                return self._enter(child, found)
            vertex.low = min(vertex.low, met.number)
        return None

    def _close(self, component: list[_Vertex]) -> None:
        """Digest values that lie on common cycles, or a single one."""
        if len(component) == 1 and not _holds_itself(component[0]):
            self._done[id(component[0].value)] = _combine(component[0].parts, self.digest)
            return
        ids = [id(vertex.value) for vertex in component]
        now = dict.fromkeys(ids, b"")
        kinds = 0
        while True:
            before = now
            now = self._refine(component, before)
            if len(set(now.values())) == kinds:
                break
            kinds = len(set(now.values()))
        # All steps of the last round together say what the cycles look like.
        whole = b"".join(sorted({before[each] + now[each] for each in ids}))
        self._done |= {each: _hash(b"cycle", now[each], whole) for each in ids}

    def _refine(self, component: list[_Vertex], before: dict[int, bytes]) -> dict[int, bytes]:
        def look(child: Any) -> bytes:
            return before[id(child)] if id(child) in before else self.digest(child)

        return {id(vertex.value): _combine(vertex.parts, look) for vertex in component}


def _combine(made: Parts, digest: Callable[[Any], bytes]) -> bytes:
    if not made.ordered:
        return _hash(made.label, b"unordered", *sorted(digest(child) for _, child in made.children))
    named = (part for name, child in made.children for part in (name.encode(), digest(child)))
    return _hash(made.label, *named)


def _hash(label: bytes, *rest: bytes) -> bytes:
    made = hashlib.blake2b(len(label).to_bytes(8, "little"), digest_size=DIGEST_BYTES)
    made.update(label)
    for part in rest:
        made.update(part)
        made.update(b"\0")
    return made.digest()


def _holds_itself(vertex: _Vertex) -> bool:
    return any(child is vertex.value for _, child in vertex.parts.children)


def _pop_through(waiting: list[_Vertex], last: _Vertex) -> list[_Vertex]:
    popped = [waiting.pop()]
    while popped[-1] is not last:
        popped.append(waiting.pop())
    return popped


_ARRAYS = (np.ndarray, np.memmap)
