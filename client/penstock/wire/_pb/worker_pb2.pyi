from penstock.wire._pb import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Subscribe(_message.Message):
    __slots__ = ("reader", "task", "attempt", "subscription", "acked", "buffered", "credit", "wants", "trainer", "consumer")
    READER_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    BUFFERED_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    WANTS_FIELD_NUMBER: _ClassVar[int]
    TRAINER_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    reader: int
    task: int
    attempt: int
    subscription: int
    acked: _common_pb2.AckedSet
    buffered: _common_pb2.RangeSet
    credit: int
    wants: GroupsWanted
    trainer: str
    consumer: int
    def __init__(self, reader: _Optional[int] = ..., task: _Optional[int] = ..., attempt: _Optional[int] = ..., subscription: _Optional[int] = ..., acked: _Optional[_Union[_common_pb2.AckedSet, _Mapping]] = ..., buffered: _Optional[_Union[_common_pb2.RangeSet, _Mapping]] = ..., credit: _Optional[int] = ..., wants: _Optional[_Union[GroupsWanted, _Mapping]] = ..., trainer: _Optional[str] = ..., consumer: _Optional[int] = ...) -> None: ...

class GroupsWanted(_message.Message):
    __slots__ = ("index", "group")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    index: int
    group: int
    def __init__(self, index: _Optional[int] = ..., group: _Optional[int] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("acked", "credit", "traced")
    ACKED_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    TRACED_FIELD_NUMBER: _ClassVar[int]
    acked: _common_pb2.RangeSet
    credit: int
    traced: _containers.RepeatedCompositeFieldContainer[FrameTimes]
    def __init__(self, acked: _Optional[_Union[_common_pb2.RangeSet, _Mapping]] = ..., credit: _Optional[int] = ..., traced: _Optional[_Iterable[_Union[FrameTimes, _Mapping]]] = ...) -> None: ...

class FrameTimes(_message.Message):
    __slots__ = ("start", "stop", "received", "wanted", "decoded", "taken")
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    DECODED_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    start: int
    stop: int
    received: float
    wanted: float
    decoded: float
    taken: float
    def __init__(self, start: _Optional[int] = ..., stop: _Optional[int] = ..., received: _Optional[float] = ..., wanted: _Optional[float] = ..., decoded: _Optional[float] = ..., taken: _Optional[float] = ...) -> None: ...

class TraceRequest(_message.Message):
    __slots__ = ("after",)
    AFTER_FIELD_NUMBER: _ClassVar[int]
    after: int
    def __init__(self, after: _Optional[int] = ...) -> None: ...

class TraceReply(_message.Message):
    __slots__ = ("events", "next", "missed")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    events: bytes
    next: int
    missed: int
    def __init__(self, events: _Optional[bytes] = ..., next: _Optional[int] = ..., missed: _Optional[int] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("subscribe", "ack")
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    subscribe: Subscribe
    ack: Ack
    def __init__(self, subscribe: _Optional[_Union[Subscribe, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ...) -> None: ...

class FrameHeader(_message.Message):
    __slots__ = ("header", "payload", "padding", "frames")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    header: bytes
    payload: bytes
    padding: bytes
    frames: _containers.RepeatedCompositeFieldContainer[FrameHeader]
    def __init__(self, header: _Optional[bytes] = ..., payload: _Optional[bytes] = ..., padding: _Optional[bytes] = ..., frames: _Optional[_Iterable[_Union[FrameHeader, _Mapping]]] = ...) -> None: ...
