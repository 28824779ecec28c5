"""Writes the messages and enums of the .proto files from the dataclasses in `penstock.protocol`.

`make protos` runs this. A field has the name that it has in its dataclass, and the type that the
rules of `penstock.wire.codec` give it; docstrings become comments. Numbers never change: a new
field gets the first free number, and the number of a removed field is reserved. A file's first
lines and its services are written by hand, and so are the messages that `BY_HAND` names.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import itertools
import pkgutil
import re
import sys
import textwrap
import typing
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from penstock import protocol
from penstock.wire.codec import UNIONS, alternative_name, plain, value_name

BY_HAND = {"FrameHeader"}
"""Messages that `penstock.wire.worker` writes and reads without protobuf."""

FILES = [p for p in sorted(Path(__file__).parent.glob("*.proto")) if p.stem != "tensorflow"]
SCALARS = {int: "int64", float: "double", str: "string", bytes: "bytes", bool: "bool"}
WIDTH = 100

BLOCK = re.compile(r"^((?://.*\n)*)(?:message|enum) (\w+) \{(?:\}|\n(?:.*\n)*?\})\n", re.MULTILINE)
FIELD = re.compile(r"^ +([\w<>, ]*?) ?(\w+) = (\d+);$", re.MULTILINE)
RESERVED = re.compile(r"^ +reserved ([\d, ]+);$", re.MULTILINE)


class Described:
    """The classes and unions of `penstock.protocol` by name, and their docstrings."""

    def __init__(self) -> None:
        self.kinds: dict[str, Any] = {}
        self._docs: dict[tuple[str, str], str] = {}
        for found in pkgutil.iter_modules(protocol.__path__):
            if found.name != "tensorflow":  # TensorFlow's own messages
                module = importlib.import_module(f"{protocol.__name__}.{found.name}")
                body = ast.parse(inspect.getsource(module)).body
                self._read_docs("", body)
                for node in body:
                    if isinstance(node, ast.ClassDef):
                        self._read_docs(node.name, node.body)
                self.kinds |= {name: kind for name, kind in vars(module).items() if is_kind(kind)}
        self._unions = {
            frozenset(typing.get_args(kind)): name
            for name, kind in self.kinds.items()
            if typing.get_origin(kind) in UNIONS
        }

    def _read_docs(self, scope: str, body: list[ast.stmt]) -> None:
        for node, after in itertools.pairwise(body):
            match node, after:
                case (
                    ast.Assign([ast.Name(name)]) | ast.AnnAssign(ast.Name(name)),
                    ast.Expr(ast.Constant(str(text))),
                ):
                    self._docs[scope, name] = inspect.cleandoc(text)

    def doc(self, name: str, field: str = "") -> str:
        """Return the docstring of a class, a union, or a field of a class; empty if none."""
        if field or not isinstance(self.kinds[name], type):
            return self._docs.get((name, field) if field else ("", name), "")
        return inspect.getdoc(self.kinds[name]) or ""

    def fields(self, name: str) -> dict[str, tuple[str, str]]:
        """Return the fields of a message, or the values of an enum, each with type and comment."""
        kind: Any = self.kinds[name]
        if not isinstance(kind, type):
            alternatives = [each for each in typing.get_args(kind) if each is not type(None)]
            return {alternative_name(each): (self.type_of(each), "") for each in alternatives}
        if issubclass(kind, Enum):
            return {value_name(kind, "UNSPECIFIED"): ("", "")} | {
                value_name(kind, member): ("", self.doc(name, member))
                for member in kind.__members__
            }
        hints = typing.get_type_hints(kind, include_extras=True)
        return {
            field.name: (self.type_of(hint := hints[field.name]), self._comment(name, field, hint))
            for field in dataclasses.fields(self.kinds[name])
        }

    def _comment(self, name: str, field: dataclasses.Field[Any], hint: Any) -> str:
        """Return the docstring of a field, and what its type in protobuf does not tell."""
        args = typing.get_args(hint)
        found = [self.doc(name, field.name)]
        if typing.get_origin(hint) is Mapping and isinstance(args[0], typing.NewType):
            found.append(f"Keys are ids: `{args[0].__name__}`.")
        if args and typing.get_origin(args[0]) is tuple:
            found.append(f"Tuples of {len(typing.get_args(args[0]))} numbers, one after another.")
        return "\n\n".join(filter(None, found))

    def type_of(self, hint: Any) -> str:
        """Return the label and the type of a field with this type hint."""
        hint = plain(hint)
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            return str(hint.__metadata__[0])
        if origin in UNIONS and frozenset(args) in self._unions:
            return self._unions[frozenset(args)]
        if origin in UNIONS:
            (kind,) = (arg for arg in args if arg is not type(None))
            is_message = dataclasses.is_dataclass(plain(kind))
            return self.type_of(kind) if is_message else f"optional {self.type_of(kind)}"
        if origin in (tuple, frozenset):
            pairs = typing.get_origin(plain(args[0])) is tuple
            return f"repeated {'int64' if pairs else self.type_of(args[0])}"
        if origin is Mapping:
            return f"map<{self.type_of(args[0])}, {self.type_of(args[1])}>"
        return SCALARS.get(hint) or str(hint.__name__)

    def reached(self, names: list[str]) -> list[str]:
        """Return *names* and all that their fields refer to."""
        found = list(dict.fromkeys(names))
        for name in found:  # it grows
            if name not in BY_HAND:
                types = " ".join(kind for kind, _ in self.fields(name).values())
                found += [
                    n for n in re.findall(r"\w+", types) if n in self.kinds and n not in found
                ]
        return found


def is_kind(value: Any) -> bool:
    """Return whether *value* may be a message or an enum."""
    return isinstance(value, type) or typing.get_origin(value) in UNIONS


def comment(text: str, indent: str = "") -> list[str]:
    """Return *text* as the lines of a comment."""
    return [
        f"{indent}// {line}".rstrip()
        for paragraph in text.replace("\n\n", "\n \n").split("\n \n")
        for line in ["", *textwrap.wrap(paragraph, WIDTH - len(indent) - 3)]
    ][1:]


def written(described: Described, name: str, standing: str) -> str:
    """Return a message or an enum as text, with the numbers that it has in the text *standing*."""
    kind, fields = described.kinds[name], described.fields(name)
    known = {field: (type_, int(number)) for type_, field, number in FIELD.findall(standing)}
    gone = {int(number) for each in RESERVED.findall(standing) for number in each.split(",")}
    is_union = not isinstance(kind, type)
    is_enum = not is_union and issubclass(kind, Enum)
    indent, lines = "    " if is_union else "  ", list[str]()
    taken = gone | {number for _, number in known.values()}
    for field, (type_, doc) in fields.items():
        if field in known and known[field][0] != type_:
            sys.exit(f"{name}.{field} was {known[field][0]} and is {type_}: give it another name")
        free = next(n for n in range(0 if is_enum else 1, len(taken) + 2) if n not in taken)
        number = known[field][1] if field in known else free
        taken.add(number)
        lines += [*comment(doc, indent), f"{indent}{f'{type_} {field}'.strip()} = {number};"]
    gone |= {number for field, (_, number) in known.items() if field not in fields}
    lines += [f"  reserved {', '.join(map(str, sorted(gone)))};"] if gone else []
    lines = ["  oneof of {", *lines, "  }"] if is_union else lines
    opening = f"{'enum' if is_enum else 'message'} {name} {{"
    inside = [opening, *lines, "}"] if lines else [opening + "}"]
    return "\n".join([*comment(described.doc(name)), *inside, ""])


def texts() -> dict[Path, str]:
    """Return the text that each file should have."""
    described, present = Described(), {path: path.read_text() for path in FILES}
    standing = {path: {m[2]: m[0] for m in BLOCK.finditer(text)} for path, text in present.items()}
    everywhere = {name: text for blocks in standing.values() for name, text in blocks.items()}
    heads = {path: BLOCK.split(text, maxsplit=1)[0] for path, text in present.items()}
    asked = {p: re.findall(r"\((?:stream )?(\w+)\)", head) for p, head in heads.items()}
    needed = described.reached([name for names in asked.values() for name in names])
    for path, head in heads.items():
        new = [n for n in described.reached(asked[path]) if n not in everywhere]
        everywhere |= dict.fromkeys(new, "")
        blocks = [
            everywhere[name] if name in BY_HAND else written(described, name, everywhere[name])
            for name in [*(name for name in standing[path] if name in needed), *new]
        ]
        present[path] = "\n".join([head.rstrip() + "\n", *blocks])
    return present


if __name__ == "__main__":
    for file, content in texts().items():
        file.write_text(content)
