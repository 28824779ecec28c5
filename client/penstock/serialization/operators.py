"""Operators as plain data: their names, parameters and inputs, written and read.

A parameter that is not a number, text, None or a sequence of these is a map with one of the tags
of `Tag` under "$".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from typing import Any, ClassVar

import msgspec
import numpy as np

from penstock.element import is_namedtuple
from penstock.errors import DefinitionError
from penstock.graph.node import OPERATORS, Node
from penstock.protocol.definition import OperatorRecord
from penstock.serialization.digest import ContentKeys, content_key, raw_bytes


class Tag(StrEnum):
    """The kind of a tagged parameter."""

    NODE = "node"
    """Another stage, by number."""
    CODE = "code"
    """A user's function or object, by its number in the pickles."""
    ARRAY = "array"
    """An array: content key, dtype, shape."""
    TEXT = "text"
    """An array of `str` or `bytes`: content key, which of the two, shape."""
    DICT = "dict"
    """A dict: its items."""
    NAMED = "named"
    """A named tuple: the number of its class in the pickles, and its items."""
    INTEGER = "integer"
    """An integer of more than 64 bits, as text."""


class OperatorWriter:
    """Writes the stages of one pipeline; each is given after those that it reads."""

    def __init__(self, keys: ContentKeys) -> None:
        self.owned: list[tuple[str, Any]] = []
        """The objects to pickle, each with the operator that it belongs to."""
        self.contents: dict[str, memoryview] = {}
        self._keys = keys
        self._numbers: dict[int, int] = {}
        self._codes: dict[int, int] = {}
        self._label = ""

    def stage(self, node: Node) -> OperatorRecord:
        """Return *node* as plain data; the nodes below it come before it."""
        self._label = node.label
        if type(node).__reduce__ is not object.__reduce__:
            node.__reduce__()  # it says why it must stay where it is
        params = {
            each.name: self._code(value) if _is_opaque(each, value) else self._form(value)
            for each in fields(node)
            if each.init
            for value in [getattr(node, each.name)]
        }
        inputs = tuple(self._numbers[id(below)] for below in node.inputs)
        self._numbers[id(node)] = len(self._numbers)
        own = OPERATORS.get(node.op) is type(node)
        kind = -1 if own else self._code(type(node))["n"]
        return OperatorRecord(node.op, node.label, params, inputs, kind)

    def _form(self, value: Any) -> Any:
        """Return *value* in the plain form."""
        kind = type(value)
        if value is None or kind in (bool, float, bytes) or (kind is str and _is_sound(value)):
            return value
        if kind is int:
            small = -(1 << 63) <= value < 1 << 63
            return value if small else {"$": Tag.INTEGER, "text": str(value)}
        if isinstance(value, Node):
            return {"$": Tag.NODE, "n": self._numbers[id(value)]}
        if kind is np.ndarray:
            return self._array(value)
        return self._nest(value) if isinstance(value, (tuple, list, dict)) else self._code(value)

    def _nest(self, value: Any) -> Any:
        if type(value) in (tuple, list):
            return [self._form(item) for item in value]
        if type(value) is dict:
            items = [[self._form(k), self._form(v)] for k, v in value.items()]
            return {"$": Tag.DICT, "items": items}
        if is_namedtuple(value):
            items = [self._form(item) for item in value]
            return {"$": Tag.NAMED, "n": self._code(type(value))["n"], "items": items}
        return self._code(value)

    def _code(self, value: Any) -> dict[str, Any]:
        """Take *value* to the pickles, once."""
        if id(value) not in self._codes:
            self._codes[id(value)] = len(self.owned)
            self.owned.append((self._label, value))
        return {"$": Tag.CODE, "n": self._codes[id(value)]}

    def _array(self, array: np.ndarray[Any, Any]) -> Any:
        kinds = set(map(type, array.flat)) if array.dtype.hasobject else {object}
        if kinds in ({str}, {bytes}, set()):
            return self._text(array)
        if array.dtype.hasobject or np.dtype(array.dtype.str) != array.dtype:
            return self._code(array)
        key = self._keys.key(array)
        self.contents[key] = raw_bytes(array)
        return {"$": Tag.ARRAY, "key": key, "dtype": array.dtype.str, "shape": array.shape}

    def _text(self, array: np.ndarray[Any, Any]) -> Any:
        texts = array.ravel().tolist()
        of = "str" if texts and isinstance(texts[0], str) else "bytes"
        if of == "str":
            texts = [text.encode("utf-8", "surrogatepass") for text in texts]
        data = memoryview(msgspec.msgpack.encode(texts))
        key = content_key(data)
        self.contents[key] = data
        return {"$": Tag.TEXT, "key": key, "of": of, "shape": array.shape}


class OperatorReader:
    """Builds the nodes of one pipeline; *codes* are its unpickled objects."""

    def __init__(self, codes: Sequence[Any], contents: Mapping[str, memoryview]) -> None:
        self._codes, self._contents = codes, contents
        self._nodes: list[Node] = []

    def node(self, stage: OperatorRecord) -> Node:
        """Return the node of the next *stage*."""
        kind = self._codes[stage.kind] if stage.kind >= 0 else OPERATORS.get(stage.op)
        if kind is None:
            raise DefinitionError(
                f"this Penstock does not know the operator {stage.op!r}: install the version that "
                "the pipeline was made with"
            )
        made: Node = kind(**{name: self._value(form) for name, form in stage.params.items()})
        self._nodes.append(made)
        return made

    def _value(self, form: Any) -> Any:
        if isinstance(form, list):
            return tuple(map(self._value, form))
        if not isinstance(form, dict):
            return form
        return self._READERS[form["$"]](self, form)

    def _array(self, form: dict[str, Any]) -> np.ndarray[Any, Any]:
        data = np.frombuffer(self._contents[form["key"]], form["dtype"])
        # A copy: in a message data need not be aligned.
        return np.array(data).reshape(form["shape"])

    def _dict(self, form: dict[str, Any]) -> dict[Any, Any]:
        return {self._value(k): self._value(v) for k, v in form["items"]}

    def _named(self, form: dict[str, Any]) -> Any:
        return self._codes[form["n"]](*map(self._value, form["items"]))

    def _node_number(self, form: dict[str, Any]) -> Node:
        number: int = form["n"]
        return self._nodes[number]

    def _code(self, form: dict[str, Any]) -> Any:
        return self._codes[form["n"]]

    def _integer(self, form: dict[str, Any]) -> int:
        return int(form["text"])

    def _text(self, form: dict[str, Any]) -> np.ndarray[Any, Any]:
        texts = msgspec.msgpack.decode(self._contents[form["key"]], type=list[bytes])
        array = np.empty(len(texts), object)
        if form["of"] == "str":
            array[:] = [text.decode("utf-8", "surrogatepass") for text in texts]
        else:
            array[:] = texts
        return array.reshape(form["shape"])

    _READERS: ClassVar[dict[str, Callable[[OperatorReader, dict[str, Any]], Any]]] = {
        Tag.NODE: _node_number,
        Tag.CODE: _code,
        Tag.ARRAY: _array,
        Tag.TEXT: _text,
        Tag.DICT: _dict,
        Tag.NAMED: _named,
        Tag.INTEGER: _integer,
    }


def _is_sound(text: str) -> bool:
    """Return whether *text* is valid Unicode; file names need not be."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_opaque(each: Any, value: Any) -> bool:
    return value is not None and each.metadata.get("kind") == "function"
