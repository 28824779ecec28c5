"""Finds the values of names in bytecode, as far as possible without running anything."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from penstock.serialization.bytecode import ASSIGNS, Op, Step, steps
from penstock.serialization.references import Import

UNKNOWN: Any = object()
"""Stands for what only running the code could tell."""

STANDARD = frozenset(
    {"datetime", "numpy", "numpy.random", "os", "random", "secrets", "time", "uuid"}
)
"""Modules that may be imported in order to look at them: they do nothing but that."""

_VARIABLES = {Op.READ_GLOBAL, Op.READ_OUTER, Op.READ_LOCAL}
_BOUND = (
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
)


@dataclass(frozen=True, slots=True)
class InstanceOf:
    """Stands for an instance of *cls* that will be made when the code runs."""

    cls: type


class NotLoaded:
    """Stands for something of a module that is not loaded here, by its full name."""

    def __init__(self, name: str) -> None:
        self.name = name


@dataclass(frozen=True, slots=True)
class NameUse:
    """A name in code with the attributes taken of it right away: ``np.random.rand``."""

    name: str
    values: tuple[Any, ...]
    """The value of the name, and then of each attribute, as far as they are known."""
    bare: bool
    """Whether the last value is called right there, with nothing or None."""


def name_uses(
    code: CodeType, names: Mapping[str, Any], known: Mapping[str, Any]
) -> Iterator[NameUse]:
    """Yield what *code*, and code nested in it, mentions.

    *names* are its globals, *known* the known arguments and closure variables.
    """
    done = steps(code)
    here = _bindings(done, names, known)
    for i, step in enumerate(done):
        source = names if step.op is Op.READ_GLOBAL else here
        if step.op in _VARIABLES and step.value in source:
            yield _mention(done, i, source[step.value])
    outer = {name: here[name] for name in (*code.co_cellvars, *code.co_freevars) if name in here}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from name_uses(constant, names, outer)


def attributes(code: CodeType) -> set[str]:
    """Return all attributes that *code*, and code nested in it, takes of anything."""
    found = {step.value for step in steps(code) if step.op is Op.READ_ATTRIBUTE}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= attributes(constant)
    return found


def attribute(value: Any, name: str) -> Any:
    """Return what ``value.name`` is, or `UNKNOWN`; a property is its getter, bound to *value*."""
    if isinstance(value, ModuleType):
        return vars(value).get(name, UNKNOWN)
    if isinstance(value, NotLoaded):
        return NotLoaded(f"{value.name}.{name}")
    made = isinstance(value, InstanceOf)
    found = inspect.getattr_static(value.cls if made else value, name, UNKNOWN)
    if isinstance(value, type):
        return _of_class(found, value)
    of_class = made or inspect.getattr_static(type(value), name, UNKNOWN) is found
    method = _function_of(found) if of_class else None
    if method is not None:
        return MethodType(method, value)
    if isinstance(found, _BOUND):
        return UNKNOWN if made else _bound(found, value, type(value))
    return _of_class(found, value.cls if made else type(value))


def _function_of(found: Any) -> FunctionType | None:
    """Return the function that is called with the object when its attribute is *found*."""
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, functools.cached_property):
        found = found.func
    return found if isinstance(found, FunctionType) else None


def _of_class(found: Any, cls: type) -> Any:
    if isinstance(found, staticmethod):
        return found.__func__
    if isinstance(found, classmethod):
        return MethodType(found.__func__, cls)
    return _bound(found, None, cls) if isinstance(found, types.ClassMethodDescriptorType) else found


def _bound(found: Any, value: Any, cls: type) -> Any:
    try:
        return found.__get__(value, cls)
    except (AttributeError, TypeError):  # a slot that is empty
        return UNKNOWN


def _bindings(
    done: Sequence[Step], names: Mapping[str, Any], known: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the variables of code whose values are known: never assigned, or by one import."""
    stored = [step.value for step in done if step.op in ASSIGNS]
    imported = dict(_imports(done, names.get("__package__")))
    bound = {name: value for name, value in known.items() if name not in stored}
    return bound | {name: value for name, value in imported.items() if stored.count(name) == 1}


def _imports(done: Sequence[Step], package: str | None) -> Iterator[tuple[str, Any]]:
    """Yield the variables that import statements bind, with their values."""
    for i, step in enumerate(done):
        if step.op is not Op.IMPORT:
            continue
        level, wanted = done[i - 2].value, done[i - 1].value
        name = Import(step.value, level, wanted or ()).absolute(package) or ""
        rest = done[i + 1 :]
        if wanted:
            yield from _from_import(rest, name)
        elif rest[0].op in ASSIGNS:  # import a.b binds a
            yield rest[0].value, _module(name.partition(".")[0])
        else:
            store = next((each for each in rest if each.op in ASSIGNS), None)
            if store is not None:
                yield store.value, _module(name)


def _from_import(rest: Sequence[Step], name: str) -> Iterator[tuple[str, Any]]:
    at = 0
    while at + 1 < len(rest) and rest[at].op is Op.IMPORT_FROM:
        inner = _module(f"{name}.{rest[at].value}")
        value = attribute(_module(name), rest[at].value) if inner is UNKNOWN else inner
        yield rest[at + 1].value, value
        at += 2


def _module(name: str) -> Any:
    if name in STANDARD:
        return importlib.import_module(name)
    if name.partition(".")[0] == "torch" and name not in sys.modules:
        return NotLoaded(name)
    return sys.modules.get(name, UNKNOWN)


def _mention(done: Sequence[Step], at: int, value: Any) -> NameUse:
    name, values = str(done[at].value), [value]
    at += 1
    while at < len(done) and done[at].op is Op.READ_ATTRIBUTE:
        value = UNKNOWN if value is UNKNOWN else attribute(value, done[at].value)
        if value is UNKNOWN:
            break
        name += f".{done[at].value}"
        values.append(value)
        at += 1
    return NameUse(name, tuple(values), _is_bare_call(done[at : at + 2]))


def _is_bare_call(done: Sequence[Step]) -> bool:
    step = next(iter(done), None)
    if step is None:
        return False
    if step.op is Op.CONSTANT and step.value is None:
        return len(done) > 1 and done[1] == Step(Op.CALL, 1)
    return step == Step(Op.CALL, 0)
