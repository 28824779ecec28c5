"""Bytecode in terms that hold for every version of CPython: opcode names are known here only."""

from __future__ import annotations

import dis
import functools
import marshal
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise
from types import CodeType
from typing import Any


class Op(Enum):
    """The kind of a step of bytecode."""

    READ_GLOBAL = auto()
    READ_OUTER = auto()
    """A variable of an enclosing function, or of this one that nested code uses."""
    READ_LOCAL = auto()
    READ_ATTRIBUTE = auto()
    ASSIGN_GLOBAL = auto()
    ASSIGN_OUTER = auto()
    ASSIGN_LOCAL = auto()
    CONSTANT = auto()
    IMPORT = auto()
    """Of a module; the two steps before are constants: its level, and the names to import."""
    IMPORT_FROM = auto()
    CALL = auto()
    """The value is the number of arguments; names of keyword arguments are left out."""
    OTHER = auto()


ASSIGNS = frozenset({Op.ASSIGN_GLOBAL, Op.ASSIGN_OUTER, Op.ASSIGN_LOCAL})


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that code does, in the order of the bytecode."""

    op: Op
    value: Any
    """The name, the constant, or the number of arguments."""


@functools.lru_cache(maxsize=4096)
def steps(code: CodeType) -> tuple[Step, ...]:
    """Return what *code* does, without the code nested in it."""
    made: list[Step] = []
    for each in dis.get_instructions(code):
        ops = OPS.get(each.opname, (Op.OTHER,))
        if each.opname in _KEYWORD_CALLS:
            made.pop()  # the names, as a constant
            made.append(Step(Op.CALL, each.arg))
        elif len(ops) > 1:
            made += map(Step, ops, each.argval)
        elif each.opname not in _PREPARING:
            made.append(Step(ops[0], each.arg if ops[0] is Op.CALL else each.argval))
    return tuple(made)


def without_places(code: CodeType) -> tuple[bytes, tuple[Any, ...]]:
    """Return the bytecode and the constants of *code*, less the line where a class stands.

    Since 3.13 the body of a class assigns it, and in 3.14 a line below 256 is no constant: what
    else is one has another number then.
    """
    if _PLACES.isdisjoint(code.co_names):
        return code.co_code, code.co_consts
    instructions = list(dis.get_instructions(code))
    made: list[tuple[int, int | None]] = []
    used: dict[int, int] = {}
    for each, following in pairwise([*instructions, instructions[-1]]):
        if following.opname == "STORE_NAME" and following.argval in _PLACES:
            continue
        arg = each.arg
        if each.opcode in dis.hasconst and arg is not None:
            arg = used.setdefault(arg, len(used))
        made.append((each.opcode, arg))
    return marshal.dumps(made, 2), tuple(code.co_consts[i] for i in used)


_PLACES = frozenset({"__firstlineno__", "__static_attributes__"})
"""The other only sums up what methods do, and its order has not always been fixed."""

_PREPARING = {"EXTENDED_ARG", "KW_NAMES", "PRECALL", "PUSH_NULL"}
"""They stand between a function and its call, and do nothing of their own."""

_KEYWORD_CALLS = {"CALL_KW"}
"""Since 3.13 the names of keyword arguments are loaded before; until then `KW_NAMES` has them."""

OPS: dict[str, tuple[Op, ...]] = {
    "LOAD_GLOBAL": (Op.READ_GLOBAL,),
    "LOAD_NAME": (Op.READ_GLOBAL,),
    "LOAD_FROM_DICT_OR_GLOBALS": (Op.READ_GLOBAL,),  # 3.12
    "LOAD_DEREF": (Op.READ_OUTER,),
    "LOAD_CLASSDEREF": (Op.READ_OUTER,),  # until 3.11
    "LOAD_FROM_DICT_OR_DEREF": (Op.READ_OUTER,),  # 3.12
    "LOAD_FAST": (Op.READ_LOCAL,),
    "LOAD_FAST_CHECK": (Op.READ_LOCAL,),  # 3.12
    "LOAD_FAST_BORROW": (Op.READ_LOCAL,),  # 3.14
    "LOAD_FAST_LOAD_FAST": (Op.READ_LOCAL, Op.READ_LOCAL),  # 3.13
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": (Op.READ_LOCAL, Op.READ_LOCAL),  # 3.14
    "LOAD_ATTR": (Op.READ_ATTRIBUTE,),
    "LOAD_METHOD": (Op.READ_ATTRIBUTE,),  # until 3.11
    "STORE_GLOBAL": (Op.ASSIGN_GLOBAL,),
    "DELETE_GLOBAL": (Op.ASSIGN_GLOBAL,),
    "STORE_DEREF": (Op.ASSIGN_OUTER,),
    "DELETE_DEREF": (Op.ASSIGN_OUTER,),
    "STORE_FAST": (Op.ASSIGN_LOCAL,),
    "STORE_NAME": (Op.ASSIGN_LOCAL,),
    "STORE_FAST_STORE_FAST": (Op.ASSIGN_LOCAL, Op.ASSIGN_LOCAL),  # 3.13
    "STORE_FAST_LOAD_FAST": (Op.ASSIGN_LOCAL, Op.READ_LOCAL),  # 3.13
    "LOAD_CONST": (Op.CONSTANT,),
    "LOAD_SMALL_INT": (Op.CONSTANT,),  # 3.14
    "IMPORT_NAME": (Op.IMPORT,),
    "IMPORT_FROM": (Op.IMPORT_FROM,),
    "CALL": (Op.CALL,),
}
"""The meaning of each name; none has changed. Where it says since or until when, others
do the same in other versions."""
