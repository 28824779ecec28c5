"""Takes values apart: into a label that holds all plain data, and parts with names.

Two values that mean the same have equal labels and equal parts in every process: nothing here
depends on where code lies, on hash seeds or on addresses. `digest` compares values by it,
`blame` finds the part that cannot be pickled by it.
"""

from __future__ import annotations

import collections
import copyreg
import enum
import functools
import marshal
import types
import typing
import weakref
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

import numpy as np

from penstock.graph.node import Node, counts
from penstock.serialization.code_parts import (
    ATOMS,
    Parts,
    class_parts,
    code_parts,
    function_parts,
    module_parts,
    named,
    plain,
    text,
)
from penstock.serialization.modules import installed_name, is_local


def parts(value: Any) -> Parts:
    """Return what *value* is made of."""
    kind = type(value)
    if kind in ATOMS:
        return Parts(plain(value))
    make = _EXACT.get(kind)
    if make is None:
        make = next((make for base, make in _FAMILIES if isinstance(value, base)), _instance)
    return make(value)


def array_label(array: np.ndarray[Any, Any], content: str) -> bytes:
    """Return the label of *array* whose bytes are known as *content*."""
    return text("array", _dtype_text(array.dtype), array.shape, content)


def _or_plain(make: Callable[[Any], Parts]) -> Callable[[Any], Parts]:
    def parts_of(value: Any) -> Parts:
        try:
            return Parts(plain(value))
        except ValueError:
            return make(value)

    return parts_of


def _sequence(value: list[Any] | tuple[Any, ...]) -> Parts:
    children = tuple([(f"item {i}", item) for i, item in enumerate(value)])
    return Parts(text(type(value).__name__), children)


def _mapping(value: dict[Any, Any]) -> Parts:
    if all(type(key) is str for key in value):
        return Parts(b"dict", tuple([(f"key {key!r}", value[key]) for key in sorted(value)]))
    return Parts(
        b"items", tuple((f"key {item[0]!r}", item) for item in value.items()), ordered=False
    )


def _set(value: set[Any] | frozenset[Any]) -> Parts:
    kind = type(value).__name__
    if ATOMS.issuperset(map(type, value)):
        return Parts(text(kind) + b"".join(sorted(marshal.dumps(item, 2) for item in value)))
    return Parts(text(kind), tuple(("a member", item) for item in value), ordered=False)


def _method(method: types.MethodType) -> Parts:
    return Parts(b"method", (("its function", method.__func__), ("its object", method.__self__)))


def _partial(value: functools.partial[Any]) -> Parts:
    given = ((f"argument {i}", item) for i, item in enumerate(value.args))
    keywords = named("argument", value.keywords)
    return Parts(b"partial", (("its function", value.func), *given, *keywords))


def _builtin(value: Any) -> Parts:
    owner = getattr(value, "__self__", None)
    module = value.__module__ if isinstance(value, types.BuiltinFunctionType) else ""
    label = text("builtin", module, value.__qualname__)
    if owner is None or isinstance(owner, types.ModuleType):
        return Parts(label)
    return Parts(label, (("its object", owner),))


def _descriptor(value: Any) -> Parts:
    owner = installed_name(value.__objclass__) or ""
    return Parts(text("descriptor", owner, value.__name__))


def _property(value: property) -> Parts:
    return Parts(b"property", (("fget", value.fget), ("fset", value.fset), ("fdel", value.fdel)))


def _wrapped(value: Any) -> Parts:
    return Parts(text(type(value).__name__), (("its function", value.__func__),))


def _cached_property(value: functools.cached_property[Any]) -> Parts:
    return Parts(b"cached_property", (("its function", value.func),))


def _cached(value: Any) -> Parts:
    label = text("lru_cache", value.cache_parameters())
    return Parts(label, (("its function", value.__wrapped__),))


def _array(array: np.ndarray[Any, Any]) -> Parts:
    if array.dtype.hasobject:
        label = text("objects", _dtype_text(array.dtype), array.shape)
        return Parts(label, (("its items", array.ravel().tolist()),))
    return Parts(array_label(array, ""), (("its content", array.tobytes()),))


def _scalar(value: np.generic) -> Parts:
    if value.dtype.hasobject:
        return _instance(value)
    return Parts(text("scalar", _dtype_text(value.dtype), "") + value.tobytes())


def _dtype(dtype: np.dtype[Any]) -> Parts:
    return Parts(text("dtype", _dtype_text(dtype)))


def _dtype_text(dtype: np.dtype[Any]) -> str:
    return f"{dtype.str} {dtype.name} {dtype.descr if dtype.names else dtype.subdtype}"


def _enum_member(value: enum.Enum) -> Parts:
    return Parts(text("member", value.name), (("the class", type(value)),))


def _node(node: Node) -> Parts:
    found = [
        (field.name, getattr(node, field.name)) for field in fields(node) if counts(node, field)
    ]
    if is_local(type(node).__module__):
        found.append(("the class", type(node)))
    return Parts(text("node", node.op), tuple(found))


def _instance(value: Any) -> Parts:
    """Take apart anything else, as pickling would."""
    cls = type(value)
    reduce = copyreg.dispatch_table.get(cls)
    made: Any
    try:
        made = reduce(value) if reduce else value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001  the user's own code may run here, and need not work
        return _opaque(value)
    if isinstance(made, str):
        if is_local(cls.__module__):  # its class counts, not the script that names it
            state = named("attribute", getattr(value, "__dict__", {}))
            return Parts(text("global", made), (("the class", cls), *state))
        return Parts(text("global", cls.__module__, cls.__qualname__, made))
    make, args, state, items, pairs = (*made, None, None, None)[:5]
    found: list[tuple[str, Any]] = []
    if make is copyreg.__newobj__ and args:  # type: ignore[attr-defined]
        found += [("the class", args[0]), *(("its value", arg) for arg in args[1:])]
    else:
        found += [("its maker", make), ("its arguments", args)]
    found += _state(state)
    found += [("its items", list(items))] if items is not None else []
    # Of all dicts only this one is compared by order.
    kind = list if isinstance(value, collections.OrderedDict) else dict
    found += [("its items", kind(pairs))] if pairs is not None else []
    return Parts(b"instance", tuple(found))


def _state(state: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
        return [*_state(state[0]), *_state(state[1])]  # attributes and slots
    if isinstance(state, dict) and all(type(name) is str for name in state):
        return named("attribute", state)
    return [] if state is None else [("its state", state)]


def _opaque(value: Any) -> Parts:
    cls = type(value)
    name = getattr(value, "__qualname__", None) or getattr(value, "name", "")
    words = ("opaque", cls.__module__, cls.__qualname__, name if isinstance(name, str) else "")
    return Parts(text(*words), opaque=True)


_EXACT: dict[type, Callable[[Any], Parts]] = {
    list: _or_plain(_sequence),
    tuple: _or_plain(_sequence),
    dict: _or_plain(_mapping),
    set: _set,
    frozenset: _set,
    types.FunctionType: function_parts,
    types.CodeType: code_parts,
    types.MethodType: _method,
    types.BuiltinFunctionType: _builtin,
    types.MethodWrapperType: _builtin,
    types.WrapperDescriptorType: _descriptor,
    types.MethodDescriptorType: _descriptor,
    types.ClassMethodDescriptorType: _descriptor,
    types.GetSetDescriptorType: _descriptor,
    types.MemberDescriptorType: _descriptor,
    types.MappingProxyType: lambda value: Parts(b"proxy", (("its items", dict(value)),)),
    property: _property,
    staticmethod: _wrapped,
    classmethod: _wrapped,
    functools.cached_property: _cached_property,
    functools.partial: _partial,
    type(functools.lru_cache(int)): _cached,
    typing.TypeVar: lambda value: Parts(text("type variable", value.__name__)),
    typing.NewType: lambda value: Parts(
        text("new type", value.__name__), (("its type", value.__supertype__),)
    ),
    weakref.ref: lambda value: Parts(b"weak reference", (("its object", value()),)),
    weakref.WeakKeyDictionary: lambda value: _mapping(dict(value)),
    weakref.WeakValueDictionary: lambda value: _mapping(dict(value)),
    np.ndarray: _array,
    np.memmap: _array,
}
_FAMILIES: tuple[tuple[type, Callable[[Any], Parts]], ...] = (
    (type, class_parts),
    (types.ModuleType, module_parts),
    (enum.Enum, _enum_member),
    (Node, _node),
    (np.generic, _scalar),
    (np.dtype, _dtype),
)
