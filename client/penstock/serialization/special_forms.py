"""How objects travel that pickle alone would not take, or would not take whole."""

from __future__ import annotations

import dataclasses
import functools
import typing
import weakref
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from cloudpickle import cloudpickle

from penstock.serialization.modules import installed_name, is_local

_a_dispatch: Any = functools.singledispatch(lambda value: value)
_DISPATCH_CODE = _a_dispatch.__code__
_OF_ANY_DISPATCH = {"register", "dispatch", "registry", "_clear_cache", "__wrapped__"}


def is_dispatch(fn: Any) -> bool:
    """Return whether *fn* was made by `functools.singledispatch`."""
    return isinstance(fn, FunctionType) and fn.__code__ is _DISPATCH_CODE


def reduce_dispatch(fn: Any) -> Any:
    """Return how what `functools.singledispatch` made travels: without its cache."""
    implementations = dict(fn.registry)
    base = implementations.pop(object)
    own = {k: v for k, v in vars(fn).items() if k not in _OF_ANY_DISPATCH}
    state = (base, implementations, own)
    return new_dispatch, (fn.__name__,), state, None, None, set_dispatch


def new_dispatch(name: str) -> Any:
    """Return a function that dispatches; it is made before its functions, which may use it."""

    def call(*_: Any) -> Any:
        raise NotImplementedError

    call.__name__ = name
    return functools.singledispatch(call)


def set_dispatch(fn: Any, state: Any) -> None:
    """Give *fn* its functions."""
    base, implementations, own = state
    fn.register(object, base)
    for kind, implementation in implementations.items():
        fn.register(kind, implementation)
    functools.update_wrapper(fn, base)
    vars(fn).update(own)


def _reduce_cached(cached: Any) -> Any:
    fn = cached.__wrapped__
    if installed_name(fn):
        return NotImplemented
    size = cached.cache_parameters()
    return new_cached, (size["maxsize"], size["typed"]), fn, None, None, set_cached


def new_cached(maxsize: int | None, typed: bool) -> Any:
    """Return a function with an empty cache, made before the function that it calls."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return call.target(*args, **kwargs)  # type: ignore[attr-defined]

    return functools.lru_cache(maxsize, typed)(call)


def set_cached(cached: Any, fn: Callable[..., Any]) -> None:
    """Have *cached* call *fn*."""
    cached.__wrapped__.target = fn
    functools.update_wrapper(cached, fn)


def _reduce_cached_property(value: functools.cached_property[Any]) -> Any:
    return functools.cached_property, (value.func,), {"attrname": value.attrname}


def _reduce_code(code: CodeType) -> tuple[Any, tuple[Any, ...]]:
    """Return how *code* travels, with the name of its file: tracebacks from workers show it.

    From 3.1.3 on cloudpickle writes a word in its place. It is copied, so that equal names of files
    are no shared object: then the bytes would depend on which names Python has interned.
    """
    make, parts = _reduce_code_of_cloudpickle(code)
    named = "".join(code.co_filename)
    return make, tuple(named if part == _NO_FILE else part for part in parts)


_NO_FILE = "<dynamic-code>"
_reduce_code_of_cloudpickle = cloudpickle.Pickler.dispatch_table[CodeType]


# --- weak references: whoever holds the object travels, too, or nobody does ---


def _reduce_ref(ref: weakref.ref[Any]) -> Any:
    target = ref()
    if target is None:
        return dead_ref, ()
    callback = getattr(ref, "__callback__", None)
    return weakref.ref, (target,) if callback is None else (target, callback)


class _Gone:
    """Something to have been referred to."""


def dead_ref() -> weakref.ref[Any]:
    """Return a reference to an object that no longer exists."""
    return weakref.ref(_Gone())


def _reduce_weak_mapping(mapping: Any) -> Any:
    return type(mapping), (), None, None, iter(list(mapping.items()))


# --- values that are recognised by their type ---


def _reduce_type_variable(value: Any) -> Any:
    if not is_local(str(value.__module__)):
        return NotImplemented
    return cloudpickle._make_typevar, cloudpickle._decompose_typevar(value)  # noqa: SLF001  there is no public way


def _reduce_new_type(value: Any) -> Any:
    if not is_local(str(value.__module__)):
        return NotImplemented
    return new_new_type, (value.__name__, value.__supertype__, value.__module__)


def new_new_type(name: str, supertype: Any, module: str) -> Any:
    """Return a `typing.NewType` of *module*."""
    make: Any = typing.NewType
    made = make(name, supertype)
    made.__module__ = module
    return made


def _reduce_parameters(value: Any) -> Any:
    return (type(value), (value.__name__,)) if is_local(str(value.__module__)) else NotImplemented


_SENTINELS = {
    id(value): name for name, value in vars(dataclasses).items() if name in ("MISSING", "KW_ONLY")
}


def _reduce_sentinel(value: Any) -> Any:
    name = _SENTINELS.get(id(value))
    return NotImplemented if name is None else (getattr, (dataclasses, name))


SPECIAL: dict[type, Callable[[Any], Any]] = {
    CodeType: _reduce_code,
    type(new_cached(None, False)): _reduce_cached,
    functools.cached_property: _reduce_cached_property,
    weakref.ref: _reduce_ref,
    weakref.WeakKeyDictionary: _reduce_weak_mapping,
    weakref.WeakValueDictionary: _reduce_weak_mapping,
    typing.TypeVar: _reduce_type_variable,
    typing.ParamSpec: _reduce_parameters,
    typing.TypeVarTuple: _reduce_parameters,
    typing.NewType: _reduce_new_type,
    type(dataclasses.MISSING): _reduce_sentinel,
    type(dataclasses.KW_ONLY): _reduce_sentinel,
}
"""By type: what returns how a value travels, or `NotImplemented` if it needs no special way."""
