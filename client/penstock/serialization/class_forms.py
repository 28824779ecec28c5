"""How classes travel: the receiver makes a class empty, and fills it after it made its members.

`make_class`, `fill_class` and the same of enumerations run where a pipeline is loaded. They call no
`__init_subclass__` and no metaclass of the user's: these ran when the class was defined, and their
effects travel with the class.
"""

from __future__ import annotations

import enum
import typing
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MemberDescriptorType
from typing import Any

from cloudpickle import cloudpickle

from penstock.serialization.travelled import put_in_place

_HOOKS_OF_BASES = ("__init_subclass__",)
_HOOKS_OF_METACLASSES = ("__new__", "__init__", "__prepare__", "__call__")
_PAYLOADS = (int, float, str, bytes, tuple)
_OF_ANY_MEMBER = {"_value_", "_name_", "__objclass__", "_sort_order_", "_hashable_values_"}

_made: weakref.WeakSet[type] = weakref.WeakSet()
"""The classes that came with pipelines."""


def reduce_class(cls: type, home: str) -> tuple[Any, ...]:
    """Return how *cls* travels by value. *home* is its ``module:name``, if it has one."""
    if issubclass(cls, enum.Enum):
        return _reduce_enum(cls, home)
    _, (kind, name, bases, space, tracker, extra), (members, rest), *_ = (
        cloudpickle._dynamic_class_reduce(cls)  # noqa: SLF001  there is no public way
    )
    space = {**space, "__qualname__": "".join(cls.__qualname__)}
    if typing.NamedTuple in bases:  # which made a tuple's class, and lets nobody give it slots
        space["__orig_bases__"], bases = bases, cls.__bases__
    if "__slots__" in vars(cls):  # not in its members if those of a base are the same
        space["__slots__"] = _slots(cls, vars(cls)["__slots__"])
        members.pop("__slots__", None)
        members = {k: v for k, v in members.items() if not _is_slot(cls, v)}
    args = (home, kind, name, bases, space, tracker, extra)
    return make_class, args, (members, rest), None, None, fill_class


def make_class(
    home: str,
    kind: Any,
    name: str,
    bases: tuple[Any, ...],
    space: dict[str, Any],
    tracker: str,
    extra: Any,
) -> type:
    """Return the class, empty, in its place."""
    cls: type | None = _known(tracker)
    if cls is None:
        with _without_hooks(kind, bases):
            cls = _skeleton(kind, name, bases, space, tracker, extra)
        _made.add(cls)
    put_in_place(home, cls)
    return cls


def _skeleton(*args: Any) -> type:
    made: type = cloudpickle._make_skeleton_class(*args)  # noqa: SLF001  as above
    return made


def fill_class(cls: type, state: Any) -> None:
    """Give *cls* its members."""
    cloudpickle._class_setstate(cls, state)  # noqa: SLF001  as above


def _slots(cls: type, given: Any) -> Any:
    if isinstance(given, (str, tuple, list, dict)):
        return given
    return tuple(name for name, value in vars(cls).items() if _is_slot(cls, value))


def _is_slot(cls: type, value: Any) -> bool:
    return isinstance(value, MemberDescriptorType) and value.__objclass__ is cls


def _known(tracker: str) -> Any:
    """Return the class that *tracker* stands for in this process, if there is one."""
    return cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.get(tracker)  # noqa: SLF001  as above


@contextmanager
def _without_hooks(kind: Any, bases: tuple[Any, ...]) -> Iterator[None]:
    """Let no class that travelled notice that a class of its kind, or below it, is made."""
    parents = {each for base in bases for each in getattr(base, "__mro__", ())}
    hidden = [
        (each, name, vars(each)[name])
        for classes, names in (
            (parents, _HOOKS_OF_BASES),
            (getattr(kind, "__mro__", ()), _HOOKS_OF_METACLASSES),
        )
        for each in classes
        if each in _made
        for name in names
        if name in vars(each)
    ]
    for each, name, _ in hidden:
        type.__delattr__(each, name)
    try:
        yield
    finally:
        for each, name, value in hidden:
            type.__setattr__(each, name, value)


# --- enumerations ---


def _reduce_enum(cls: type[enum.Enum], home: str) -> tuple[Any, ...]:
    reduced = cloudpickle._dynamic_class_reduce(cls)  # noqa: SLF001  as above
    _, (bases, name, qualname, _, *rest), (names, others), *_ = reduced
    members = dict(cls.__members__)  # with other names of the same members
    values = {each: member.value for each, member in members.items()}
    names = {each: value for each, value in names.items() if each not in members}
    own = {each: _attributes(member) for each, member in members.items()}
    payloads = None
    # Its own __new__ makes of what stands in the class another value, or more than a value.
    kind: Any = getattr(cls, "_member_type_", object)
    if "__new_member__" in vars(cls) and kind in _PAYLOADS:
        payloads = [kind(each) for each in members.values()]
    args = (home, payloads, bases, name, qualname, values, *rest)
    return make_enum, args, ((names, others), own), None, None, fill_enum


def _attributes(member: enum.Enum) -> dict[str, Any]:
    return {k: v for k, v in vars(member).items() if k not in _OF_ANY_MEMBER}


def make_enum(
    home: str,
    payloads: list[Any] | None,
    bases: tuple[type, ...],
    name: str,
    qualname: str,
    members: Mapping[str, Any],
    module: str,
    tracker: str,
    extra: Any,
) -> type:
    """Return the enumeration with its members, in its place; they have no attributes yet."""
    cls = _known(tracker)
    if cls is None:
        with _without_hooks(type(bases[-1]), bases):
            if payloads is None:
                cls = cloudpickle._make_skeleton_enum(  # noqa: SLF001  as above
                    bases, name, qualname, members, module, tracker, extra
                )
            else:
                cls = _with_payloads(bases, name, members, payloads)
                cls.__module__, cls.__qualname__ = module, qualname
                cls = cloudpickle._lookup_class_or_track(tracker, cls)  # noqa: SLF001  as above
        _made.add(cls)
    put_in_place(home, cls)
    return cls  # type: ignore[no-any-return]


def _with_payloads(
    bases: tuple[type, ...], name: str, members: Mapping[str, Any], payloads: list[Any]
) -> Any:
    given = iter(zip(payloads, members.values(), strict=True))

    def new(cls: Any, *_: Any) -> Any:
        payload, value = next(given)
        member: Any = type(payload).__new__(cls, payload)
        member._value_ = value
        return member

    kind = type(bases[-1])
    space: Any = kind.__prepare__(name, bases)
    space["__new__"] = new
    for each, value in members.items():
        space[each] = value
    return kind.__new__(kind, name, bases, space)


def fill_enum(cls: type[enum.Enum], state: Any) -> None:
    """Give *cls* its methods, and its members their attributes."""
    of_class, of_members = state
    fill_class(cls, of_class)
    for name, attributes in of_members.items():
        vars(cls[name]).update(attributes)
