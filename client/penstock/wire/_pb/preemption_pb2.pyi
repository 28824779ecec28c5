from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class PreemptionReport(_message.Message):
    __slots__ = ("group", "trainer", "steps", "rate", "noticed", "saved", "leaving", "allowed", "alone")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TRAINER_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    NOTICED_FIELD_NUMBER: _ClassVar[int]
    SAVED_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    ALONE_FIELD_NUMBER: _ClassVar[int]
    group: str
    trainer: str
    steps: int
    rate: float
    noticed: bool
    saved: bool
    leaving: bool
    allowed: int
    alone: bool
    def __init__(self, group: _Optional[str] = ..., trainer: _Optional[str] = ..., steps: _Optional[int] = ..., rate: _Optional[float] = ..., noticed: bool = ..., saved: bool = ..., leaving: bool = ..., allowed: _Optional[int] = ..., alone: bool = ...) -> None: ...

class PreemptionVerdict(_message.Message):
    __slots__ = ("allowed", "noticed", "agreed", "all_saved")
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    NOTICED_FIELD_NUMBER: _ClassVar[int]
    AGREED_FIELD_NUMBER: _ClassVar[int]
    ALL_SAVED_FIELD_NUMBER: _ClassVar[int]
    allowed: int
    noticed: bool
    agreed: int
    all_saved: bool
    def __init__(self, allowed: _Optional[int] = ..., noticed: bool = ..., agreed: _Optional[int] = ..., all_saved: bool = ...) -> None: ...
