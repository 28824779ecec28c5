from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODE_UNSPECIFIED: _ClassVar[Mode]
    MODE_OFF: _ClassVar[Mode]
    MODE_DYNAMIC: _ClassVar[Mode]
    MODE_FILE: _ClassVar[Mode]
    MODE_DATA: _ClassVar[Mode]
    MODE_FILE_OR_DATA: _ClassVar[Mode]
    MODE_HINT: _ClassVar[Mode]

class Codec(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CODEC_UNSPECIFIED: _ClassVar[Codec]
    CODEC_NONE: _ClassVar[Codec]
    CODEC_LZ4: _ClassVar[Codec]
    CODEC_ZSTD: _ClassVar[Codec]
    CODEC_AUTO: _ClassVar[Codec]
    CODEC_SNAPPY: _ClassVar[Codec]

class ReaderStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    READER_STATUS_UNSPECIFIED: _ClassVar[ReaderStatus]
    READER_STATUS_LIVE: _ClassVar[ReaderStatus]
    READER_STATUS_LEFT: _ClassVar[ReaderStatus]
    READER_STATUS_EXPIRED: _ClassVar[ReaderStatus]
MODE_UNSPECIFIED: Mode
MODE_OFF: Mode
MODE_DYNAMIC: Mode
MODE_FILE: Mode
MODE_DATA: Mode
MODE_FILE_OR_DATA: Mode
MODE_HINT: Mode
CODEC_UNSPECIFIED: Codec
CODEC_NONE: Codec
CODEC_LZ4: Codec
CODEC_ZSTD: Codec
CODEC_AUTO: Codec
CODEC_SNAPPY: Codec
READER_STATUS_UNSPECIFIED: ReaderStatus
READER_STATUS_LIVE: ReaderStatus
READER_STATUS_LEFT: ReaderStatus
READER_STATUS_EXPIRED: ReaderStatus

class Versions(_message.Message):
    __slots__ = ("protocol", "python", "penstock")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    PYTHON_FIELD_NUMBER: _ClassVar[int]
    PENSTOCK_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    python: str
    penstock: str
    def __init__(self, protocol: _Optional[int] = ..., python: _Optional[str] = ..., penstock: _Optional[str] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("stats",)
    STATS_FIELD_NUMBER: _ClassVar[int]
    stats: bytes
    def __init__(self, stats: _Optional[bytes] = ...) -> None: ...

class Value(_message.Message):
    __slots__ = ("text", "number")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    text: str
    number: int
    def __init__(self, text: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("kind", "fields")
    KIND_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    fields: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, kind: _Optional[str] = ..., fields: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class RangeSet(_message.Message):
    __slots__ = ("spans",)
    SPANS_FIELD_NUMBER: _ClassVar[int]
    spans: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, spans: _Optional[_Iterable[int]] = ...) -> None: ...

class AckedSet(_message.Message):
    __slots__ = ("floor", "more")
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    floor: int
    more: RangeSet
    def __init__(self, floor: _Optional[int] = ..., more: _Optional[_Union[RangeSet, _Mapping]] = ...) -> None: ...

class Split(_message.Message):
    __slots__ = ("start", "stop", "names")
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    start: int
    stop: int
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, start: _Optional[int] = ..., stop: _Optional[int] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class SplitLog(_message.Message):
    __slots__ = ("start", "splits")
    START_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    start: int
    splits: _containers.RepeatedCompositeFieldContainer[Split]
    def __init__(self, start: _Optional[int] = ..., splits: _Optional[_Iterable[_Union[Split, _Mapping]]] = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("number", "positions", "state")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    number: int
    positions: _containers.RepeatedScalarFieldContainer[int]
    state: str
    def __init__(self, number: _Optional[int] = ..., positions: _Optional[_Iterable[int]] = ..., state: _Optional[str] = ...) -> None: ...
