"""Dataclasses to protobuf and back, by one rule: a field has the same name on both sides.

How a field crosses follows from its type hint alone:

=============================  ==================================================
``int``, ``str``, ``bytes`` …   the scalar
``T | None``                   a field with presence
another dataclass              a nested message
``Enum``                       the enum value named ``<ENUM>_<MEMBER>``
``tuple[T, ...]``              repeated
``tuple[tuple[int, int], …]``  repeated numbers, pairs one after another
``Mapping[K, V]``              a map
a union                        a message with one ``oneof`` of all alternatives
=============================  ==================================================

`protos/write.py` writes the .proto files by the same rules.

Zeros are not sent and an absent field reads as zero, as protobuf has it. So a field may be added
at any time, and its zero must mean what its absence meant. The plan for a class is made once.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from penstock.errors import ConfigError, Refused, VersionMismatch
from penstock.protocol.control import TaskView
from penstock.protocol.malformed import MALFORMED
from penstock.wire._pb import dispatcher_pb2, worker_pb2  # noqa: F401  they fill the pool
from penstock.wire.field_code import (
    FieldCode,
    Get,
    Put,
    alone,
    enum,
    map_of_enums,
    map_of_messages,
    map_of_scalars,
    messages,
    nested,
    optional,
    pairs,
    present_scalar,
    scalar,
    scalars,
    shared,
    written,
)

T = TypeVar("T")

_MESSAGES = descriptor_pool.Default()
"""The messages of the modules in `penstock.wire._pb` that this process has imported."""

ANY = 1 << 31
"""No message is larger."""

_SAME_TO_MANY = frozenset({TaskView})
"""Dataclasses of which many are told the same: a view of 1,000 tasks takes 0.9 ms and not 4.5."""
_MOST_KEPT, _LARGEST_KEPT = 8192, 512
"""Values whose bytes are kept, and how many bytes one may have: some 8 MiB. One with an error in it
may be large, and is seldom told."""


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """How a message of type *kind* becomes bytes, and bytes become it."""

    kind: Any
    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]


def within(decode: Callable[[bytes], T], largest: int | None) -> Callable[[bytes], T]:
    """Return what reads messages as *decode* does, of at most *largest* bytes if that is a number.

    That is a service's setting; what a message may have by itself says `form`.
    """
    if largest is None:
        return decode

    def decode_within(data: bytes) -> T:
        if len(data) > largest:
            raise Refused(
                f"a message of {len(data)} bytes arrived, and {largest} are read here: start this "
                "service with a larger limit max_message_bytes"
            )
        return decode(data)

    return decode_within


def form(
    kind: Any, largest: int = ANY, *, name: str = "", package: str = "penstock.v1"
) -> Form[Any]:
    """Return the form of *kind*, a dataclass or a union, as the protobuf message of the same name.

    A union has no name of its own: its message is *name*. A received message may have *largest*
    bytes.

    Raises:
        TypeError: when there is no such message, it has other fields, or a hint has no rule.
    """
    name = name or kind.__name__
    try:
        descriptor = _MESSAGES.FindMessageTypeByName(f"{package}.{name}")
    except KeyError as exc:
        raise TypeError(f"no .proto file has the message {name}: run `make protos`") from exc
    message = GetMessageClass(descriptor)
    put, get = _nest(kind, descriptor)

    def encode(value: Any) -> bytes:
        pb = message()
        try:
            put(pb, value)
        except ValueError as exc:
            raise ConfigError(
                f"{name} cannot be sent: {exc}; text must be Unicode, and numbers fit 64 bits"
            ) from exc
        return typing.cast("bytes", pb.SerializeToString())

    def decode(data: bytes) -> Any:
        if len(data) > largest:
            raise VersionMismatch(
                f"{name} arrived with {len(data)} bytes, and has {largest} at most: the sender is "
                "no Penstock process, or of a version that this one does not know"
            )
        try:
            return get(message.FromString(data))
        except (DecodeError, *MALFORMED) as exc:
            raise VersionMismatch(
                f"{len(data)} bytes arrived that are no {name} ({exc!r}): the sender is no "
                "Penstock process, or of a version that this one does not know"
            ) from exc

    return Form(kind, encode, decode)


# --- messages: a put and a get for the whole of it ---


def _nest(kind: Any, descriptor: Descriptor) -> tuple[Put, Get]:
    kind = plain(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _dataclass(kind, descriptor)
    if typing.get_origin(kind) in UNIONS:
        return _union(kind, descriptor)
    raise TypeError(f"{kind} cannot be the protobuf message {descriptor.name}")


@functools.cache
def _dataclass(kind: Any, descriptor: Descriptor) -> tuple[Put, Get]:
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    if set(names) != set(descriptor.fields_by_name):
        differ = sorted(set(names) ^ set(descriptor.fields_by_name))
        raise TypeError(f"{kind.__name__} and its protobuf message differ in {differ}")
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    lines = [_field(hints[name], descriptor.fields_by_name[name], defaults[name]) for name in names]
    put, get = written(kind, names, lines)
    get = _checked(get) if hasattr(kind, "check") else get
    return (_kept(put, descriptor) if kind in _SAME_TO_MANY else put), get


def _kept(put: Put, descriptor: Descriptor) -> Put:
    """Return *put* for values that go out again and again, whose bytes are kept."""
    message, kept = GetMessageClass(descriptor), dict[Any, bytes]()

    def put_kept(pb: Any, value: Any) -> None:
        data = kept.get(value)
        if data is None:
            alone = message()
            put(alone, value)
            data = alone.SerializeToString()
            if len(data) <= _LARGEST_KEPT:
                if len(kept) >= _MOST_KEPT:
                    kept.clear()
                kept[value] = data
        pb.MergeFromString(data)

    return put_kept


def _checked(get: Get) -> Get:
    def get_checked(pb: Any) -> Any:
        value = get(pb)
        value.check()
        return value

    return get_checked


@functools.cache
def _union(kind: Any, descriptor: Descriptor) -> tuple[Put, Get]:
    oneof = descriptor.oneofs[0]
    empty = type(None) in typing.get_args(kind)
    alternatives = [arg for arg in typing.get_args(kind) if arg is not type(None)]
    names = {arg: alternative_name(arg) for arg in alternatives}
    if set(names.values()) != {field.name for field in oneof.fields}:
        raise TypeError(f"{kind} and the oneof of {descriptor.name} differ")
    fields = {arg: descriptor.fields_by_name[name] for arg, name in names.items()}
    parts = {arg: alone(_present(arg, field)) for arg, field in fields.items()}
    puts = {arg: put for arg, (put, _) in parts.items()}
    gets = {names[arg]: get for arg, (_, get) in parts.items()}

    def put(pb: Any, value: Any) -> None:
        if value is not None or not empty:
            puts[type(value)](pb, value)

    def get(pb: Any) -> Any:
        which = pb.WhichOneof(oneof.name)
        if which is None and empty:
            return None
        return gets[which](pb)

    return put, get


# --- fields: what is written into the message around one, and read out of it ---


def _field(hint: Any, field: FieldDescriptor, default: Any) -> FieldCode:
    hint = plain(hint)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in UNIONS:
        (kind,) = (arg for arg in args if arg is not type(None))
        return optional(_present(kind, field), field.name)
    if origin is tuple or origin is frozenset:
        return _repeated(args[0], field, origin)
    if origin is Mapping:
        return _map(args[1], field)
    if field.message_type is not None:
        return _nested(hint, field, default)
    return _scalar(hint, field)


def _scalar(hint: Any, field: FieldDescriptor) -> FieldCode:
    if _is_enum(hint):
        return enum(field.name, *_enum(hint, field.enum_type))
    return scalar(field.name)


def _present(hint: Any, field: FieldDescriptor) -> FieldCode:
    """Write a field so that its presence shows even if it is zero."""
    hint, name = plain(hint), field.name
    if field.message_type is not None:
        return nested(name, *_nest(hint, field.message_type))
    return _scalar(hint, field) if _is_enum(hint) else present_scalar(name)


def _nested(hint: Any, field: FieldDescriptor, default: Any) -> FieldCode:
    """Write a message that is always there, unless it is all zeros: that is what absence means."""
    fill, make = _nest(hint, field.message_type)
    try:
        zero = make(GetMessageClass(field.message_type)())
        hash(zero)  # or it has a mapping, which each has for itself
    except MALFORMED:
        return nested(field.name, fill, make)
    return shared(field.name, fill, make, default if default == zero else zero)


def _repeated(hint: Any, field: FieldDescriptor, collect: type) -> FieldCode:
    hint = plain(hint)
    if typing.get_origin(hint) is tuple:
        return pairs(field.name, len(typing.get_args(hint)), collect)
    if field.message_type is None:
        return scalars(field.name, collect)
    return messages(field.name, *_nest(hint, field.message_type), collect)


def _map(hint: Any, field: FieldDescriptor) -> FieldCode:
    hint, name = plain(hint), field.name
    item = field.message_type.fields_by_name["value"]
    if item.message_type is not None:
        return map_of_messages(name, *_nest(hint, item.message_type))
    if _is_enum(hint):
        return map_of_enums(name, *_enum(hint, item.enum_type))
    return map_of_scalars(name)


# --- type hints ---

UNIONS = (types.UnionType, typing.Union)
_ALTERNATIVES = {str: "text", int: "number"}


def plain(hint: Any) -> Any:
    """Return the type that *hint* stands for, if it is a `NewType`."""
    while isinstance(hint, typing.NewType):
        hint = hint.__supertype__
    return hint


def alternative_name(kind: type) -> str:
    """Return the name of the field that holds a *kind*, one of a union."""
    return _ALTERNATIVES.get(kind) or _snake(kind.__name__)


def value_name(kind: type[Enum], member: str) -> str:
    """Return the name of an enum's member in protobuf, where names of values are global."""
    return f"{_snake(kind.__name__)}_{member}".upper()


def _is_enum(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Enum)


def _enum(kind: type[Enum], descriptor: EnumDescriptor) -> tuple[dict[Any, int], dict[int, Any]]:
    values = descriptor.values_by_name
    there = {member: values[value_name(kind, member.name)].number for member in kind}
    return there, {number: member for member, number in there.items()}


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
