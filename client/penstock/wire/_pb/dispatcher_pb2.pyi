from penstock.wire._pb import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RegisterDatasetRequest(_message.Message):
    __slots__ = ("definition", "versions")
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    definition: bytes
    versions: _common_pb2.Versions
    def __init__(self, definition: _Optional[bytes] = ..., versions: _Optional[_Union[_common_pb2.Versions, _Mapping]] = ...) -> None: ...

class RegisterDatasetReply(_message.Message):
    __slots__ = ("dataset",)
    DATASET_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    def __init__(self, dataset: _Optional[str] = ...) -> None: ...

class GetDefinitionRequest(_message.Message):
    __slots__ = ("dataset", "python")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    PYTHON_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    python: str
    def __init__(self, dataset: _Optional[str] = ..., python: _Optional[str] = ...) -> None: ...

class GetDefinitionReply(_message.Message):
    __slots__ = ("definition",)
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    definition: bytes
    def __init__(self, definition: _Optional[bytes] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("worker",)
    WORKER_FIELD_NUMBER: _ClassVar[int]
    worker: str
    def __init__(self, worker: _Optional[str] = ...) -> None: ...

class DrainReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class OpenIterationRequest(_message.Message):
    __slots__ = ("versions", "dataset", "mode", "job_name", "repetition", "codec", "num_consumers", "trainer", "target_workers", "ordered", "remainder", "restore", "replaces")
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    REPETITION_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    NUM_CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    TRAINER_FIELD_NUMBER: _ClassVar[int]
    TARGET_WORKERS_FIELD_NUMBER: _ClassVar[int]
    ORDERED_FIELD_NUMBER: _ClassVar[int]
    REMAINDER_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    versions: _common_pb2.Versions
    dataset: str
    mode: _common_pb2.Mode
    job_name: str
    repetition: int
    codec: _common_pb2.Codec
    num_consumers: int
    trainer: str
    target_workers: str
    ordered: bool
    remainder: str
    restore: bytes
    replaces: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, versions: _Optional[_Union[_common_pb2.Versions, _Mapping]] = ..., dataset: _Optional[str] = ..., mode: _Optional[_Union[_common_pb2.Mode, str]] = ..., job_name: _Optional[str] = ..., repetition: _Optional[int] = ..., codec: _Optional[_Union[_common_pb2.Codec, str]] = ..., num_consumers: _Optional[int] = ..., trainer: _Optional[str] = ..., target_workers: _Optional[str] = ..., ordered: bool = ..., remainder: _Optional[str] = ..., restore: _Optional[bytes] = ..., replaces: _Optional[_Iterable[str]] = ...) -> None: ...

class OpenIterationReply(_message.Message):
    __slots__ = ("iteration", "job_name", "beat_interval", "reader_lease", "read_before")
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    BEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    READER_LEASE_FIELD_NUMBER: _ClassVar[int]
    READ_BEFORE_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    job_name: str
    beat_interval: float
    reader_lease: float
    read_before: str
    def __init__(self, iteration: _Optional[int] = ..., job_name: _Optional[str] = ..., beat_interval: _Optional[float] = ..., reader_lease: _Optional[float] = ..., read_before: _Optional[str] = ...) -> None: ...

class ElementCounts(_message.Message):
    __slots__ = ("made", "remade", "sent", "given_back", "skipped", "inexact")
    MADE_FIELD_NUMBER: _ClassVar[int]
    REMADE_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    GIVEN_BACK_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    INEXACT_FIELD_NUMBER: _ClassVar[int]
    made: int
    remade: int
    sent: int
    given_back: int
    skipped: int
    inexact: int
    def __init__(self, made: _Optional[int] = ..., remade: _Optional[int] = ..., sent: _Optional[int] = ..., given_back: _Optional[int] = ..., skipped: _Optional[int] = ..., inexact: _Optional[int] = ...) -> None: ...

class AttemptProgress(_message.Message):
    __slots__ = ("attempt", "made", "taken", "state", "done", "failure", "work", "doubted", "lacking")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    MADE_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    WORK_FIELD_NUMBER: _ClassVar[int]
    DOUBTED_FIELD_NUMBER: _ClassVar[int]
    LACKING_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    made: int
    taken: _common_pb2.AckedSet
    state: _common_pb2.Checkpoint
    done: bool
    failure: _common_pb2.Failure
    work: ElementCounts
    doubted: int
    lacking: str
    def __init__(self, attempt: _Optional[int] = ..., made: _Optional[int] = ..., taken: _Optional[_Union[_common_pb2.AckedSet, _Mapping]] = ..., state: _Optional[_Union[_common_pb2.Checkpoint, _Mapping]] = ..., done: bool = ..., failure: _Optional[_Union[_common_pb2.Failure, _Mapping]] = ..., work: _Optional[_Union[ElementCounts, _Mapping]] = ..., doubted: _Optional[int] = ..., lacking: _Optional[str] = ...) -> None: ...

class WorkerHeartbeat(_message.Message):
    __slots__ = ("worker", "incarnation", "as_of", "progress", "ended", "draining", "versions", "stats")
    class ProgressEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: AttemptProgress
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[AttemptProgress, _Mapping]] = ...) -> None: ...
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    worker: str
    incarnation: int
    as_of: int
    progress: _containers.MessageMap[int, AttemptProgress]
    ended: _containers.RepeatedScalarFieldContainer[int]
    draining: bool
    versions: _common_pb2.Versions
    stats: bytes
    def __init__(self, worker: _Optional[str] = ..., incarnation: _Optional[int] = ..., as_of: _Optional[int] = ..., progress: _Optional[_Mapping[int, AttemptProgress]] = ..., ended: _Optional[_Iterable[int]] = ..., draining: bool = ..., versions: _Optional[_Union[_common_pb2.Versions, _Mapping]] = ..., stats: _Optional[bytes] = ...) -> None: ...

class SplitRequest(_message.Message):
    __slots__ = ("worker", "incarnation", "task", "attempt", "stream", "position")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    worker: str
    incarnation: int
    task: int
    attempt: int
    stream: int
    position: int
    def __init__(self, worker: _Optional[str] = ..., incarnation: _Optional[int] = ..., task: _Optional[int] = ..., attempt: _Optional[int] = ..., stream: _Optional[int] = ..., position: _Optional[int] = ...) -> None: ...

class WorkerEvent(_message.Message):
    __slots__ = ("worker_heartbeat", "split_request")
    WORKER_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    SPLIT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    worker_heartbeat: WorkerHeartbeat
    split_request: SplitRequest
    def __init__(self, worker_heartbeat: _Optional[_Union[WorkerHeartbeat, _Mapping]] = ..., split_request: _Optional[_Union[SplitRequest, _Mapping]] = ...) -> None: ...

class TaskAssignment(_message.Message):
    __slots__ = ("task", "index", "attempt", "iteration", "dataset", "seed", "codec", "state", "logs", "taken", "held")
    class HeldEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: _common_pb2.RangeSet
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[_common_pb2.RangeSet, _Mapping]] = ...) -> None: ...
    TASK_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    task: int
    index: int
    attempt: int
    iteration: int
    dataset: str
    seed: int
    codec: _common_pb2.Codec
    state: _common_pb2.Checkpoint
    logs: _containers.RepeatedCompositeFieldContainer[_common_pb2.SplitLog]
    taken: _common_pb2.AckedSet
    held: _containers.MessageMap[int, _common_pb2.RangeSet]
    def __init__(self, task: _Optional[int] = ..., index: _Optional[int] = ..., attempt: _Optional[int] = ..., iteration: _Optional[int] = ..., dataset: _Optional[str] = ..., seed: _Optional[int] = ..., codec: _Optional[_Union[_common_pb2.Codec, str]] = ..., state: _Optional[_Union[_common_pb2.Checkpoint, _Mapping]] = ..., logs: _Optional[_Iterable[_Union[_common_pb2.SplitLog, _Mapping]]] = ..., taken: _Optional[_Union[_common_pb2.AckedSet, _Mapping]] = ..., held: _Optional[_Mapping[int, _common_pb2.RangeSet]] = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("as_of", "incarnation", "runs", "readers", "beat_interval", "drain")
    class ReadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: _common_pb2.ReaderStatus
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[_common_pb2.ReaderStatus, str]] = ...) -> None: ...
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    BEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    as_of: int
    incarnation: int
    runs: _containers.RepeatedCompositeFieldContainer[TaskAssignment]
    readers: _containers.ScalarMap[int, _common_pb2.ReaderStatus]
    beat_interval: float
    drain: bool
    def __init__(self, as_of: _Optional[int] = ..., incarnation: _Optional[int] = ..., runs: _Optional[_Iterable[_Union[TaskAssignment, _Mapping]]] = ..., readers: _Optional[_Mapping[int, _common_pb2.ReaderStatus]] = ..., beat_interval: _Optional[float] = ..., drain: bool = ...) -> None: ...

class SplitGrant(_message.Message):
    __slots__ = ("task", "attempt", "stream", "position", "splits")
    TASK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    task: int
    attempt: int
    stream: int
    position: int
    splits: _containers.RepeatedCompositeFieldContainer[_common_pb2.Split]
    def __init__(self, task: _Optional[int] = ..., attempt: _Optional[int] = ..., stream: _Optional[int] = ..., position: _Optional[int] = ..., splits: _Optional[_Iterable[_Union[_common_pb2.Split, _Mapping]]] = ...) -> None: ...

class WorkerRefused(_message.Message):
    __slots__ = ("failure",)
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    failure: _common_pb2.Failure
    def __init__(self, failure: _Optional[_Union[_common_pb2.Failure, _Mapping]] = ...) -> None: ...

class WorkerCommand(_message.Message):
    __slots__ = ("assignment", "split_grant", "worker_refused")
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    SPLIT_GRANT_FIELD_NUMBER: _ClassVar[int]
    WORKER_REFUSED_FIELD_NUMBER: _ClassVar[int]
    assignment: Assignment
    split_grant: SplitGrant
    worker_refused: WorkerRefused
    def __init__(self, assignment: _Optional[_Union[Assignment, _Mapping]] = ..., split_grant: _Optional[_Union[SplitGrant, _Mapping]] = ..., worker_refused: _Optional[_Union[WorkerRefused, _Mapping]] = ...) -> None: ...

class TaskReport(_message.Message):
    __slots__ = ("fence", "taken", "buffered")
    FENCE_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    BUFFERED_FIELD_NUMBER: _ClassVar[int]
    fence: int
    taken: _common_pb2.AckedSet
    buffered: _common_pb2.RangeSet
    def __init__(self, fence: _Optional[int] = ..., taken: _Optional[_Union[_common_pb2.AckedSet, _Mapping]] = ..., buffered: _Optional[_Union[_common_pb2.RangeSet, _Mapping]] = ...) -> None: ...

class SaveBarrier(_message.Message):
    __slots__ = ("number", "label", "timeout", "without_missing")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_MISSING_FIELD_NUMBER: _ClassVar[int]
    number: int
    label: str
    timeout: float
    without_missing: bool
    def __init__(self, number: _Optional[int] = ..., label: _Optional[str] = ..., timeout: _Optional[float] = ..., without_missing: bool = ...) -> None: ...

class SaveResult(_message.Message):
    __slots__ = ("number", "label", "state", "failure", "missing")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    number: int
    label: str
    state: bytes
    failure: _common_pb2.Failure
    missing: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, number: _Optional[int] = ..., label: _Optional[str] = ..., state: _Optional[bytes] = ..., failure: _Optional[_Union[_common_pb2.Failure, _Mapping]] = ..., missing: _Optional[_Iterable[str]] = ...) -> None: ...

class ReaderProcess(_message.Message):
    __slots__ = ("host", "pid", "rank", "penstock", "python")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    PENSTOCK_FIELD_NUMBER: _ClassVar[int]
    PYTHON_FIELD_NUMBER: _ClassVar[int]
    host: str
    pid: int
    rank: int
    penstock: str
    python: str
    def __init__(self, host: _Optional[str] = ..., pid: _Optional[int] = ..., rank: _Optional[int] = ..., penstock: _Optional[str] = ..., python: _Optional[str] = ...) -> None: ...

class UnreachableWorker(_message.Message):
    __slots__ = ("incarnation", "seconds")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    seconds: float
    def __init__(self, incarnation: _Optional[int] = ..., seconds: _Optional[float] = ...) -> None: ...

class ReaderHeartbeat(_message.Message):
    __slots__ = ("iteration", "token", "reader", "beat", "holdings", "leaving", "cut", "handed", "process", "unreached")
    class HoldingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: TaskReport
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[TaskReport, _Mapping]] = ...) -> None: ...
    class UnreachedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: UnreachableWorker
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[UnreachableWorker, _Mapping]] = ...) -> None: ...
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    HOLDINGS_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    CUT_FIELD_NUMBER: _ClassVar[int]
    HANDED_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    UNREACHED_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    token: str
    reader: int
    beat: int
    holdings: _containers.MessageMap[int, TaskReport]
    leaving: bool
    cut: SaveBarrier
    handed: int
    process: ReaderProcess
    unreached: _containers.MessageMap[str, UnreachableWorker]
    def __init__(self, iteration: _Optional[int] = ..., token: _Optional[str] = ..., reader: _Optional[int] = ..., beat: _Optional[int] = ..., holdings: _Optional[_Mapping[int, TaskReport]] = ..., leaving: bool = ..., cut: _Optional[_Union[SaveBarrier, _Mapping]] = ..., handed: _Optional[int] = ..., process: _Optional[_Union[ReaderProcess, _Mapping]] = ..., unreached: _Optional[_Mapping[str, UnreachableWorker]] = ...) -> None: ...

class TaskView(_message.Message):
    __slots__ = ("attempt", "worker", "failure", "incarnation")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    worker: str
    failure: _common_pb2.Failure
    incarnation: int
    def __init__(self, attempt: _Optional[int] = ..., worker: _Optional[str] = ..., failure: _Optional[_Union[_common_pb2.Failure, _Mapping]] = ..., incarnation: _Optional[int] = ...) -> None: ...

class ReaderView(_message.Message):
    __slots__ = ("as_of", "token", "reader", "standing", "beat", "tasks", "finished", "waiting_for", "verdicts", "saves", "on_readers", "held_by")
    class TasksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: TaskView
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[TaskView, _Mapping]] = ...) -> None: ...
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    SAVES_FIELD_NUMBER: _ClassVar[int]
    ON_READERS_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    as_of: int
    token: str
    reader: int
    standing: _common_pb2.ReaderStatus
    beat: int
    tasks: _containers.MessageMap[int, TaskView]
    finished: bool
    waiting_for: str
    verdicts: _containers.RepeatedCompositeFieldContainer[SaveResult]
    saves: int
    on_readers: bool
    held_by: str
    def __init__(self, as_of: _Optional[int] = ..., token: _Optional[str] = ..., reader: _Optional[int] = ..., standing: _Optional[_Union[_common_pb2.ReaderStatus, str]] = ..., beat: _Optional[int] = ..., tasks: _Optional[_Mapping[int, TaskView]] = ..., finished: bool = ..., waiting_for: _Optional[str] = ..., verdicts: _Optional[_Iterable[_Union[SaveResult, _Mapping]]] = ..., saves: _Optional[int] = ..., on_readers: bool = ..., held_by: _Optional[str] = ...) -> None: ...
