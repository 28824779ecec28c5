"""The parts of functions, classes and modules: their effects, not their places in files.

A label holds the plain part of a value, as bytes that are equal in every process.
"""

from __future__ import annotations

import enum
import marshal
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.serialization.bytecode import without_places
from penstock.serialization.modules import TRAVELLED, installed_name, is_local, is_local_module
from penstock.serialization.references import local_imports, references, uses
from penstock.serialization.special_forms import is_dispatch
from penstock.serialization.unpickling import met_by

_NOT_OF_A_CLASS = frozenset({
    "__abstractmethods__", "__annotate__", "__annotate_func__", "__annotations__",
    "__annotations_cache__", "__classdictcell__", "__dict__", "__doc__", "__firstlineno__",
    "__module__", "__orig_bases__", "__parameters__", "__qualname__", "__slotnames__",
    "__static_attributes__", "__weakref__", "_abc_impl",
})  # fmt: skip
_NOT_OF_AN_ENUM = frozenset(vars(enum.Enum("Empty", ())))

_OF_ANY_MODULE = frozenset({
    TRAVELLED, "__annotate__", "__annotations__", "__annotations_cache__", "__builtins__",
    "__cached__", "__conditional_annotations__", "__doc__", "__file__", "__loader__", "__name__",
    "__package__", "__path__", "__spec__",
})  # fmt: skip


def function_parts(fn: types.FunctionType) -> Parts:
    """Return the parts of a function: those of its globals that it uses, not its place."""
    name = installed_name(fn)
    if name is not None:
        return Parts(text("function", name))
    if is_dispatch(fn):  # its cache is no part of its definition
        registry = vars(fn)["registry"]
        return Parts(b"dispatch", (("its functions", dict(registry)),))
    found = [("its code", fn.__code__), *_defaults(fn), *_closure(fn)]
    if is_local(str(fn.__module__)):
        used = references(fn.__code__, fn.__globals__)
        found += [(f"global {'.'.join(each.chain)!r}", each.value) for each in used]
        for module, names in local_imports(fn.__code__, fn.__globals__):
            values = [getattr(module, name, None) for name in names] if names else [module]
            found += [(f"import of {module.__name__!r}", value) for value in values]
        found += [(f"class {name!r}, which it may unpickle", cls) for name, cls in met_by(fn)]
    found += named("attribute", vars(fn))
    return Parts(b"function", tuple(found))


def _defaults(fn: types.FunctionType) -> Iterable[tuple[str, Any]]:
    code, values = fn.__code__, fn.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return [
        *((f"default of {name!r}", value) for name, value in zip(names, values, strict=True)),
        *named("default of", fn.__kwdefaults__ or {}),
    ]


def _closure(fn: types.FunctionType) -> Iterable[tuple[str, Any]]:
    state = uses(fn.__code__).reassigned
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        if name not in state:
            try:
                yield f"closure variable {name!r}", cell.cell_contents
            except ValueError:  # not assigned yet
                yield f"closure variable {name!r}", ...


def code_parts(code: types.CodeType) -> Parts:
    """Return the parts of bytecode: no file, no lines, no names of its own."""
    bytecode, constants = without_places(code)
    label = marshal.dumps(
        (
            code.co_argcount,
            code.co_posonlyargcount,
            code.co_kwonlyargcount,
            code.co_flags,
            bytecode,
            code.co_exceptiontable,
            code.co_names,
            code.co_varnames,
            code.co_freevars,
            code.co_cellvars,
        ),
        2,
    )
    return Parts(b"code" + label, (("a constant", constants),))


def class_parts(cls: type) -> Parts:
    """Return the parts of a class: its members, and not where they are documented."""
    name = installed_name(cls)
    if name is not None:
        return Parts(text("class", name))
    hidden = _NOT_OF_A_CLASS
    found = [("a base", base) for base in cls.__bases__ if base is not object]
    if type(cls) is not type:
        found.append(("the metaclass", type(cls)))
    if issubclass(cls, enum.Enum):
        found += named("member", {name: each.value for name, each in cls.__members__.items()})
        hidden = hidden | _NOT_OF_AN_ENUM | cls.__members__.keys()
    found += named("attribute", {k: v for k, v in vars(cls).items() if k not in hidden})
    return Parts(text("class", cls.__name__), tuple(found))


def module_parts(module: types.ModuleType) -> Parts:
    """Return the parts of a module; an installed one is its name."""
    if not is_local_module(module):
        return Parts(text("module", module.__name__))
    return Parts(b"module", tuple(named("attribute", module_contents(module))))


def module_contents(module: types.ModuleType) -> dict[str, Any]:
    """Return the names in *module* that are of its own making."""
    return {name: value for name, value in vars(module).items() if name not in _OF_ANY_MODULE}


ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, type(...)})
"""Types whose values have no parts."""

_DEPTH = 4
"""How deep plain data may nest to be taken as one label: records, and lists of records."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a value.

    The name of a part begins with its kind, as messages say it: ``global 'scale'``.
    """

    label: bytes
    children: tuple[tuple[str, Any], ...] = ()
    ordered: bool = True
    """Whether the order of the parts, and with it their names, is a part of the value."""
    opaque: bool = False
    """Whether this is all that can be known: the value cannot be taken apart."""


def plain(value: Any) -> bytes:
    """Return plain *value* as bytes: equal for equal values of equal types.

    Raises:
        ValueError: when *value* holds anything but exact tuples, lists, dicts and atoms.
    """
    # marshal, in the version before it knew references, distinguishes 1, 1.0 and True, keeps
    # -0.0 and NaN, takes any int and any text, and runs at the speed of C.
    return marshal.dumps(_canonical(value, _DEPTH), 2)


def text(*words: object) -> bytes:
    """Return *words* as a label."""
    return "\x1f".join(map(str, words)).encode("utf-8", "surrogatepass")


def named(kind: str, values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return *values* as parts that are *kind* and have names, in order of these."""
    return [(f"{kind} {name!r}", values[name]) for name in sorted(values)]


def _canonical(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in ATOMS:
        return value
    if depth and kind in (list, tuple):
        if ATOMS.issuperset(map(type, value)):
            return value
        return kind([_canonical(item, depth - 1) for item in value])
    if depth and kind is dict and ATOMS.issuperset(map(type, value)):
        items = [(marshal.dumps(k, 2), _canonical(v, depth - 1)) for k, v in value.items()]
        # A mark that marshal knows and that is no atom.
        return StopIteration, sorted(items, key=lambda item: item[0])
    raise ValueError("not plain")
