"""How the fields of a message are put and got, as lines of Python that are compiled once a class.

A heartbeat of fifty tasks has a thousand fields. A call for each of them was most of what a busy
dispatcher did; one function for all fields of a class takes half of that. The lines are made of the
names of fields, which `dataclasses` has checked, and what else they refer to is given by name:
nothing in them comes from elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

Put = Callable[[Any, Any], None]
"""Write a value into a message."""
Get = Callable[[Any], Any]
"""Read a value out of a message."""


@dataclass(frozen=True, slots=True)
class FieldCode:
    """Lines that *put* the value ``x`` into the message ``pb``, and an expression that *gets* it.

    A name behind ``$`` is one of *refers*, which are for this field alone.
    """

    put: tuple[str, ...]
    get: str
    refers: Mapping[str, Any] = field(default_factory=dict)


def written(kind: type, names: Sequence[str], fields: Sequence[FieldCode]) -> tuple[Put, Get]:
    """Return what puts and gets all *fields* of a dataclass, which have these *names*."""
    puts, gets, known = list[str](), list[str](), dict[str, Any]({"kind": kind})
    for i, (name, one) in enumerate(zip(names, fields, strict=True)):
        puts += [f"x = value.{name}", *(line.replace("$", f"_{i}_") for line in one.put)]
        gets.append(one.get.replace("$", f"_{i}_"))
        known |= {f"_{i}_{word}": value for word, value in one.refers.items()}
    if not _is_plain(kind, names):
        return _compiled(kind.__name__, puts, [f"return kind({', '.join(gets)})"], known)
    # A frozen dataclass is told each field by a call, which takes longer than to read it: one that
    # is not frozen, and has the same slots, is filled and becomes it.
    known |= {"new": object.__new__, "twin": type(kind.__name__, (), {"__slots__": names})}
    sets = [f"made.{name} = {get}" for name, get in zip(names, gets, strict=True)]
    made = ["made = new(twin)", *sets, "made.__class__ = kind", "return made"]
    return _compiled(kind.__name__, puts, made, known)


def _is_plain(kind: type, names: Sequence[str]) -> bool:
    """Return whether an instance of *kind* is its fields, in slots, and no code looks at them."""
    slots = tuple(kind.__dict__.get("__slots__", ()))
    alike = kind.__bases__ == (object,) and slots == tuple(names) != ()
    return alike and not hasattr(kind, "__post_init__")


def alone(one: FieldCode) -> tuple[Put, Get]:
    """Return what puts and gets a field by itself, as one of a union is."""
    known = {f"_{word}": value for word, value in one.refers.items()}
    lines = ["x = value", *(line.replace("$", "_") for line in one.put)]
    return _compiled("alternative", lines, [f"return {one.get.replace('$', '_')}"], known)


def _compiled(
    name: str, puts: Sequence[str], gets: Sequence[str], known: dict[str, Any]
) -> tuple[Put, Get]:
    put, get = ("".join(f"    {line}\n" for line in lines) for lines in (puts or ["pass"], gets))
    source = f"def put(pb, value):\n{put}\ndef get(pb):\n{get}"
    exec(compile(source, f"<fields of {name}>", "exec"), known)  # noqa: S102  see the first lines
    return known["put"], known["get"]


# --- one value ---


def scalar(name: str) -> FieldCode:
    """Return the code of a field whose zero is not sent."""
    return FieldCode(("if x:", f"    pb.{name} = x"), f"pb.{name}")


def present_scalar(name: str) -> FieldCode:
    """Return the code of a field that is sent also if it is zero."""
    return FieldCode((f"pb.{name} = x",), f"pb.{name}")


def enum(name: str, there: Mapping[Any, int], back: Mapping[int, Any]) -> FieldCode:
    """Return the code of an enum, whose members are numbers *there*."""
    return FieldCode(
        (f"pb.{name} = $there[x]",), f"$back[pb.{name}]", {"there": there, "back": back}
    )


def nested(name: str, fill: Put, make: Get) -> FieldCode:
    """Return the code of a message that is sent also if it is empty."""
    lines = (f"inner = pb.{name}", "inner.SetInParent()", "$fill(inner, x)")
    return FieldCode(lines, f"$make(pb.{name})", {"fill": fill, "make": make})


def shared(name: str, fill: Put, make: Get, zero: Any) -> FieldCode:
    """Return the code of a message that is not sent if it is *zero*, which all then have."""
    some = nested(name, fill, make)
    return FieldCode(
        ("if x is not $zero:", *_indented(some.put)),
        f"({some.get} if pb.HasField({name!r}) else $zero)",
        {**some.refers, "zero": zero},
    )


def optional(some: FieldCode, name: str) -> FieldCode:
    """Return the code of a field that may be None, and else is as *some*."""
    return FieldCode(
        ("if x is not None:", *_indented(some.put)),
        f"({some.get} if pb.HasField({name!r}) else None)",
        some.refers,
    )


def _indented(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"    {line}" for line in lines)


# --- several ---


def scalars(name: str, collect: type) -> FieldCode:
    """Return the code of repeated values without parts."""
    lines = ("if x:", f"    pb.{name}.extend({_in_order(collect)})")
    return FieldCode(lines, f"$collect(pb.{name}[:])", {"collect": collect})


def messages(name: str, fill: Put, make: Get, collect: type) -> FieldCode:
    """Return the code of repeated messages."""
    lines = (
        "if x:",
        f"    add = pb.{name}.add",
        f"    for one in {_in_order(collect)}:",
        "        $fill(add(), one)",
    )
    known = {"fill": fill, "make": make, "collect": collect}
    return FieldCode(lines, f"$collect(map($make, pb.{name}[:]))", known)


def pairs(name: str, width: int, collect: type) -> FieldCode:
    """Return the code of tuples of *width* numbers, which are sent one after another."""

    def get(all_of_them: Any) -> Any:
        numbers = all_of_them[:]  # to read them one by one takes a call each
        if len(numbers) == width:
            return collect((tuple(numbers),))
        each = iter(numbers)
        return collect(zip(*[each] * width, strict=True)) if numbers else collect()

    lines = ("if x:", f"    pb.{name}.extend($chained({_in_order(collect)}))")
    return FieldCode(lines, f"$get(pb.{name})", {"chained": chain.from_iterable, "get": get})


def _in_order(collect: type) -> str:
    return "sorted(x)" if collect is frozenset else "x"


def map_of_messages(name: str, fill: Put, make: Get) -> FieldCode:
    """Return the code of a map to messages."""
    lines = (
        "if x:",
        f"    entries = pb.{name}",
        "    for key, one in x.items():",
        "        $fill(entries[key], one)",
    )
    get = f"{{key: $make(one) for key, one in pb.{name}.items()}}"
    return FieldCode(lines, _if_any(name, get), {"fill": fill, "make": make})


def map_of_enums(name: str, there: Mapping[Any, int], back: Mapping[int, Any]) -> FieldCode:
    """Return the code of a map to an enum, whose members are numbers *there*."""
    lines = (
        "if x:",
        f"    pb.{name}.update({{key: $there[one] for key, one in x.items()}})",
    )
    get = f"{{key: $back[one] for key, one in pb.{name}.items()}}"
    return FieldCode(lines, _if_any(name, get), {"there": there, "back": back})


def map_of_scalars(name: str) -> FieldCode:
    """Return the code of a map to values without parts."""
    return FieldCode(
        ("if x:", f"    pb.{name}.update(x)"), _if_any(name, f"dict(pb.{name}.items())")
    )


def _if_any(name: str, get: str) -> str:
    """Return *get* for a map with entries: most have none, and to ask for these takes longer."""
    return f"({get} if pb.{name} else {{}})"
