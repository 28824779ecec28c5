from penstock.wire._pb import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WhenFull(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WHEN_FULL_UNSPECIFIED: _ClassVar[WhenFull]
    WHEN_FULL_SKIP: _ClassVar[WhenFull]
    WHEN_FULL_WAIT: _ClassVar[WhenFull]

class Remainder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REMAINDER_UNSPECIFIED: _ClassVar[Remainder]
    REMAINDER_DROP: _ClassVar[Remainder]
    REMAINDER_PAD: _ClassVar[Remainder]
    REMAINDER_REPEAT: _ClassVar[Remainder]

class TargetWorkers(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TARGET_WORKERS_UNSPECIFIED: _ClassVar[TargetWorkers]
    TARGET_WORKERS_AUTO: _ClassVar[TargetWorkers]
    TARGET_WORKERS_ANY: _ClassVar[TargetWorkers]
    TARGET_WORKERS_LOCAL: _ClassVar[TargetWorkers]

class OnError(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_ERROR_UNSPECIFIED: _ClassVar[OnError]
    ON_ERROR_RAISE: _ClassVar[OnError]
    ON_ERROR_SKIP: _ClassVar[OnError]

class SaveStage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SAVE_STAGE_UNSPECIFIED: _ClassVar[SaveStage]
    SAVE_STAGE_OPEN: _ClassVar[SaveStage]
    SAVE_STAGE_COMPLETE: _ClassVar[SaveStage]
    SAVE_STAGE_FAILED: _ClassVar[SaveStage]
    SAVE_STAGE_CANCELLED: _ClassVar[SaveStage]
    SAVE_STAGE_REMOVED: _ClassVar[SaveStage]
WHEN_FULL_UNSPECIFIED: WhenFull
WHEN_FULL_SKIP: WhenFull
WHEN_FULL_WAIT: WhenFull
REMAINDER_UNSPECIFIED: Remainder
REMAINDER_DROP: Remainder
REMAINDER_PAD: Remainder
REMAINDER_REPEAT: Remainder
TARGET_WORKERS_UNSPECIFIED: TargetWorkers
TARGET_WORKERS_AUTO: TargetWorkers
TARGET_WORKERS_ANY: TargetWorkers
TARGET_WORKERS_LOCAL: TargetWorkers
ON_ERROR_UNSPECIFIED: OnError
ON_ERROR_RAISE: OnError
ON_ERROR_SKIP: OnError
SAVE_STAGE_UNSPECIFIED: SaveStage
SAVE_STAGE_OPEN: SaveStage
SAVE_STAGE_COMPLETE: SaveStage
SAVE_STAGE_FAILED: SaveStage
SAVE_STAGE_CANCELLED: SaveStage
SAVE_STAGE_REMOVED: SaveStage

class RegisterDatasetRequest(_message.Message):
    __slots__ = ("definition", "versions", "registration")
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    definition: bytes
    versions: _common_pb2.Versions
    registration: Registration
    def __init__(self, definition: _Optional[bytes] = ..., versions: _Optional[_Union[_common_pb2.Versions, _Mapping]] = ..., registration: _Optional[_Union[Registration, _Mapping]] = ...) -> None: ...

class Registration(_message.Message):
    __slots__ = ("dataset_id", "codec", "element_spec")
    DATASET_ID_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    ELEMENT_SPEC_FIELD_NUMBER: _ClassVar[int]
    dataset_id: str
    codec: _common_pb2.Codec
    element_spec: bytes
    def __init__(self, dataset_id: _Optional[str] = ..., codec: _Optional[_Union[_common_pb2.Codec, str]] = ..., element_spec: _Optional[bytes] = ...) -> None: ...

class RegisterDatasetReply(_message.Message):
    __slots__ = ("dataset",)
    DATASET_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    def __init__(self, dataset: _Optional[str] = ...) -> None: ...

class FindDatasetRequest(_message.Message):
    __slots__ = ("dataset_id",)
    DATASET_ID_FIELD_NUMBER: _ClassVar[int]
    dataset_id: str
    def __init__(self, dataset_id: _Optional[str] = ...) -> None: ...

class RegisteredDataset(_message.Message):
    __slots__ = ("dataset_id", "dataset", "codec", "element_spec", "definition")
    DATASET_ID_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    ELEMENT_SPEC_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    dataset_id: str
    dataset: str
    codec: _common_pb2.Codec
    element_spec: bytes
    definition: bytes
    def __init__(self, dataset_id: _Optional[str] = ..., dataset: _Optional[str] = ..., codec: _Optional[_Union[_common_pb2.Codec, str]] = ..., element_spec: _Optional[bytes] = ..., definition: _Optional[bytes] = ...) -> None: ...

class GetDefinitionRequest(_message.Message):
    __slots__ = ("dataset", "python")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    PYTHON_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    python: str
    def __init__(self, dataset: _Optional[str] = ..., python: _Optional[str] = ...) -> None: ...

class GetDefinitionReply(_message.Message):
    __slots__ = ("definition", "seal")
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    definition: bytes
    seal: bytes
    def __init__(self, definition: _Optional[bytes] = ..., seal: _Optional[bytes] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("worker",)
    WORKER_FIELD_NUMBER: _ClassVar[int]
    worker: str
    def __init__(self, worker: _Optional[str] = ...) -> None: ...

class DrainReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DrainHostRequest(_message.Message):
    __slots__ = ("boot_id",)
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    boot_id: str
    def __init__(self, boot_id: _Optional[str] = ...) -> None: ...

class DrainHostReply(_message.Message):
    __slots__ = ("workers",)
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    workers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, workers: _Optional[_Iterable[str]] = ...) -> None: ...

class OpenIterationRequest(_message.Message):
    __slots__ = ("versions", "parameters", "job_name", "repetition", "trainer", "restore", "replaces")
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    REPETITION_FIELD_NUMBER: _ClassVar[int]
    TRAINER_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    versions: _common_pb2.Versions
    parameters: JobParameters
    job_name: str
    repetition: int
    trainer: str
    restore: bytes
    replaces: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, versions: _Optional[_Union[_common_pb2.Versions, _Mapping]] = ..., parameters: _Optional[_Union[JobParameters, _Mapping]] = ..., job_name: _Optional[str] = ..., repetition: _Optional[int] = ..., trainer: _Optional[str] = ..., restore: _Optional[bytes] = ..., replaces: _Optional[_Iterable[str]] = ...) -> None: ...

class OpenIterationReply(_message.Message):
    __slots__ = ("iteration", "job_name", "heartbeat_interval", "reader_lease", "read_before")
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    READER_LEASE_FIELD_NUMBER: _ClassVar[int]
    READ_BEFORE_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    job_name: str
    heartbeat_interval: float
    reader_lease: float
    read_before: str
    def __init__(self, iteration: _Optional[int] = ..., job_name: _Optional[str] = ..., heartbeat_interval: _Optional[float] = ..., reader_lease: _Optional[float] = ..., read_before: _Optional[str] = ...) -> None: ...

class ElementCounts(_message.Message):
    __slots__ = ("produced", "replayed", "sent", "requeued", "skipped", "nondeterministic", "measures")
    PRODUCED_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    REQUEUED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    NONDETERMINISTIC_FIELD_NUMBER: _ClassVar[int]
    MEASURES_FIELD_NUMBER: _ClassVar[int]
    produced: int
    replayed: int
    sent: int
    requeued: int
    skipped: int
    nondeterministic: int
    measures: _containers.RepeatedCompositeFieldContainer[Measure]
    def __init__(self, produced: _Optional[int] = ..., replayed: _Optional[int] = ..., sent: _Optional[int] = ..., requeued: _Optional[int] = ..., skipped: _Optional[int] = ..., nondeterministic: _Optional[int] = ..., measures: _Optional[_Iterable[_Union[Measure, _Mapping]]] = ...) -> None: ...

class AttemptProgress(_message.Message):
    __slots__ = ("attempt", "head", "acked", "checkpoint", "done", "failure", "counts", "in_doubt", "lacking", "ended", "trainers", "errors", "all_sent", "processes")
    class TrainersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: TrainerProgress
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[TrainerProgress, _Mapping]] = ...) -> None: ...
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    IN_DOUBT_FIELD_NUMBER: _ClassVar[int]
    LACKING_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    TRAINERS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    ALL_SENT_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    head: int
    acked: _common_pb2.AckedSet
    checkpoint: _common_pb2.Checkpoint
    done: bool
    failure: _common_pb2.Failure
    counts: ElementCounts
    in_doubt: int
    lacking: str
    ended: bool
    trainers: _containers.MessageMap[str, TrainerProgress]
    errors: SkippedErrors
    all_sent: bool
    processes: int
    def __init__(self, attempt: _Optional[int] = ..., head: _Optional[int] = ..., acked: _Optional[_Union[_common_pb2.AckedSet, _Mapping]] = ..., checkpoint: _Optional[_Union[_common_pb2.Checkpoint, _Mapping]] = ..., done: bool = ..., failure: _Optional[_Union[_common_pb2.Failure, _Mapping]] = ..., counts: _Optional[_Union[ElementCounts, _Mapping]] = ..., in_doubt: _Optional[int] = ..., lacking: _Optional[str] = ..., ended: bool = ..., trainers: _Optional[_Mapping[str, TrainerProgress]] = ..., errors: _Optional[_Union[SkippedErrors, _Mapping]] = ..., all_sent: bool = ..., processes: _Optional[int] = ...) -> None: ...

class SkippedError(_message.Message):
    __slots__ = ("number", "letter")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LETTER_FIELD_NUMBER: _ClassVar[int]
    number: int
    letter: str
    def __init__(self, number: _Optional[int] = ..., letter: _Optional[str] = ...) -> None: ...

class SkippedErrors(_message.Message):
    __slots__ = ("count", "first")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    count: int
    first: _containers.RepeatedCompositeFieldContainer[SkippedError]
    def __init__(self, count: _Optional[int] = ..., first: _Optional[_Iterable[_Union[SkippedError, _Mapping]]] = ...) -> None: ...

class TrainerProgress(_message.Message):
    __slots__ = ("acked", "skipped", "before")
    ACKED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    acked: _common_pb2.AckedSet
    skipped: int
    before: int
    def __init__(self, acked: _Optional[_Union[_common_pb2.AckedSet, _Mapping]] = ..., skipped: _Optional[int] = ..., before: _Optional[int] = ...) -> None: ...

class Cached(_message.Message):
    __slots__ = ("job", "when_full", "trainers", "readers")
    class TrainersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: TrainerProgress
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[TrainerProgress, _Mapping]] = ...) -> None: ...
    class ReadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    JOB_FIELD_NUMBER: _ClassVar[int]
    WHEN_FULL_FIELD_NUMBER: _ClassVar[int]
    TRAINERS_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    job: str
    when_full: WhenFull
    trainers: _containers.MessageMap[str, TrainerProgress]
    readers: _containers.ScalarMap[int, str]
    def __init__(self, job: _Optional[str] = ..., when_full: _Optional[_Union[WhenFull, str]] = ..., trainers: _Optional[_Mapping[str, TrainerProgress]] = ..., readers: _Optional[_Mapping[int, str]] = ...) -> None: ...

class WorkerHeartbeat(_message.Message):
    __slots__ = ("worker", "incarnation", "revision", "progress", "ended", "draining", "versions", "stats", "profile", "seq", "recordings")
    class ProgressEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: AttemptProgress
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[AttemptProgress, _Mapping]] = ...) -> None: ...
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    RECORDINGS_FIELD_NUMBER: _ClassVar[int]
    worker: str
    incarnation: int
    revision: int
    progress: _containers.MessageMap[int, AttemptProgress]
    ended: _containers.RepeatedScalarFieldContainer[int]
    draining: bool
    versions: _common_pb2.Versions
    stats: bytes
    profile: WorkerProfile
    seq: int
    recordings: _containers.RepeatedCompositeFieldContainer[RecordingReport]
    def __init__(self, worker: _Optional[str] = ..., incarnation: _Optional[int] = ..., revision: _Optional[int] = ..., progress: _Optional[_Mapping[int, AttemptProgress]] = ..., ended: _Optional[_Iterable[int]] = ..., draining: bool = ..., versions: _Optional[_Union[_common_pb2.Versions, _Mapping]] = ..., stats: _Optional[bytes] = ..., profile: _Optional[_Union[WorkerProfile, _Mapping]] = ..., seq: _Optional[int] = ..., recordings: _Optional[_Iterable[_Union[RecordingReport, _Mapping]]] = ...) -> None: ...

class WorkerProfile(_message.Message):
    __slots__ = ("host", "transports", "tags", "slots", "boot_id", "shm_socket", "shm_token", "tensorflow", "data_port", "data_token")
    HOST_FIELD_NUMBER: _ClassVar[int]
    TRANSPORTS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    SHM_SOCKET_FIELD_NUMBER: _ClassVar[int]
    SHM_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TENSORFLOW_FIELD_NUMBER: _ClassVar[int]
    DATA_PORT_FIELD_NUMBER: _ClassVar[int]
    DATA_TOKEN_FIELD_NUMBER: _ClassVar[int]
    host: str
    transports: _containers.RepeatedScalarFieldContainer[str]
    tags: _containers.RepeatedScalarFieldContainer[str]
    slots: int
    boot_id: str
    shm_socket: str
    shm_token: str
    tensorflow: str
    data_port: int
    data_token: str
    def __init__(self, host: _Optional[str] = ..., transports: _Optional[_Iterable[str]] = ..., tags: _Optional[_Iterable[str]] = ..., slots: _Optional[int] = ..., boot_id: _Optional[str] = ..., shm_socket: _Optional[str] = ..., shm_token: _Optional[str] = ..., tensorflow: _Optional[str] = ..., data_port: _Optional[int] = ..., data_token: _Optional[str] = ...) -> None: ...

class SplitRequest(_message.Message):
    __slots__ = ("worker", "incarnation", "task", "attempt", "provider", "position")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    worker: str
    incarnation: int
    task: int
    attempt: int
    provider: int
    position: int
    def __init__(self, worker: _Optional[str] = ..., incarnation: _Optional[int] = ..., task: _Optional[int] = ..., attempt: _Optional[int] = ..., provider: _Optional[int] = ..., position: _Optional[int] = ...) -> None: ...

class WorkerEvent(_message.Message):
    __slots__ = ("worker_heartbeat", "split_request")
    WORKER_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    SPLIT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    worker_heartbeat: WorkerHeartbeat
    split_request: SplitRequest
    def __init__(self, worker_heartbeat: _Optional[_Union[WorkerHeartbeat, _Mapping]] = ..., split_request: _Optional[_Union[SplitRequest, _Mapping]] = ...) -> None: ...

class Grouped(_message.Message):
    __slots__ = ("consumers", "base", "remainder")
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    REMAINDER_FIELD_NUMBER: _ClassVar[int]
    consumers: int
    base: int
    remainder: Remainder
    def __init__(self, consumers: _Optional[int] = ..., base: _Optional[int] = ..., remainder: _Optional[_Union[Remainder, str]] = ...) -> None: ...

class StaticShard(_message.Message):
    __slots__ = ("mode", "shards")
    MODE_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    mode: _common_pb2.Mode
    shards: int
    def __init__(self, mode: _Optional[_Union[_common_pb2.Mode, str]] = ..., shards: _Optional[int] = ...) -> None: ...

class Stride(_message.Message):
    __slots__ = ("consumers", "place")
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    consumers: int
    place: int
    def __init__(self, consumers: _Optional[int] = ..., place: _Optional[int] = ...) -> None: ...

class TaskAssignment(_message.Message):
    __slots__ = ("task", "index", "attempt", "iteration", "dataset", "seed", "codec", "checkpoint", "logs", "acked", "unacked", "grouped", "cached", "skip_errors", "static", "ordered", "stride")
    class UnackedEntry(_message.Message):
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
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    UNACKED_FIELD_NUMBER: _ClassVar[int]
    GROUPED_FIELD_NUMBER: _ClassVar[int]
    CACHED_FIELD_NUMBER: _ClassVar[int]
    SKIP_ERRORS_FIELD_NUMBER: _ClassVar[int]
    STATIC_FIELD_NUMBER: _ClassVar[int]
    ORDERED_FIELD_NUMBER: _ClassVar[int]
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    task: int
    index: int
    attempt: int
    iteration: int
    dataset: str
    seed: int
    codec: _common_pb2.Codec
    checkpoint: _common_pb2.Checkpoint
    logs: _containers.RepeatedCompositeFieldContainer[_common_pb2.SplitLog]
    acked: _common_pb2.AckedSet
    unacked: _containers.MessageMap[int, _common_pb2.RangeSet]
    grouped: Grouped
    cached: Cached
    skip_errors: bool
    static: StaticShard
    ordered: bool
    stride: Stride
    def __init__(self, task: _Optional[int] = ..., index: _Optional[int] = ..., attempt: _Optional[int] = ..., iteration: _Optional[int] = ..., dataset: _Optional[str] = ..., seed: _Optional[int] = ..., codec: _Optional[_Union[_common_pb2.Codec, str]] = ..., checkpoint: _Optional[_Union[_common_pb2.Checkpoint, _Mapping]] = ..., logs: _Optional[_Iterable[_Union[_common_pb2.SplitLog, _Mapping]]] = ..., acked: _Optional[_Union[_common_pb2.AckedSet, _Mapping]] = ..., unacked: _Optional[_Mapping[int, _common_pb2.RangeSet]] = ..., grouped: _Optional[_Union[Grouped, _Mapping]] = ..., cached: _Optional[_Union[Cached, _Mapping]] = ..., skip_errors: bool = ..., static: _Optional[_Union[StaticShard, _Mapping]] = ..., ordered: bool = ..., stride: _Optional[_Union[Stride, _Mapping]] = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("revision", "incarnation", "tasks", "readers", "heartbeat_interval", "drain", "recordings")
    class ReadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: _common_pb2.ReaderStatus
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[_common_pb2.ReaderStatus, str]] = ...) -> None: ...
    REVISION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    RECORDINGS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    incarnation: int
    tasks: _containers.RepeatedCompositeFieldContainer[TaskAssignment]
    readers: _containers.ScalarMap[int, _common_pb2.ReaderStatus]
    heartbeat_interval: float
    drain: bool
    recordings: _containers.RepeatedCompositeFieldContainer[RecordingAssignment]
    def __init__(self, revision: _Optional[int] = ..., incarnation: _Optional[int] = ..., tasks: _Optional[_Iterable[_Union[TaskAssignment, _Mapping]]] = ..., readers: _Optional[_Mapping[int, _common_pb2.ReaderStatus]] = ..., heartbeat_interval: _Optional[float] = ..., drain: bool = ..., recordings: _Optional[_Iterable[_Union[RecordingAssignment, _Mapping]]] = ...) -> None: ...

class SplitGrant(_message.Message):
    __slots__ = ("task", "attempt", "provider", "position", "splits")
    TASK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    task: int
    attempt: int
    provider: int
    position: int
    splits: _containers.RepeatedCompositeFieldContainer[_common_pb2.Split]
    def __init__(self, task: _Optional[int] = ..., attempt: _Optional[int] = ..., provider: _Optional[int] = ..., position: _Optional[int] = ..., splits: _Optional[_Iterable[_Union[_common_pb2.Split, _Mapping]]] = ...) -> None: ...

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
    __slots__ = ("fence", "acked", "buffered")
    FENCE_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    BUFFERED_FIELD_NUMBER: _ClassVar[int]
    fence: int
    acked: _common_pb2.AckedSet
    buffered: _common_pb2.RangeSet
    def __init__(self, fence: _Optional[int] = ..., acked: _Optional[_Union[_common_pb2.AckedSet, _Mapping]] = ..., buffered: _Optional[_Union[_common_pb2.RangeSet, _Mapping]] = ...) -> None: ...

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

class GroupsHeld(_message.Message):
    __slots__ = ("task", "attempt", "groups")
    TASK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    task: int
    attempt: int
    groups: int
    def __init__(self, task: _Optional[int] = ..., attempt: _Optional[int] = ..., groups: _Optional[int] = ...) -> None: ...

class RoundsReport(_message.Message):
    __slots__ = ("index", "stamp", "start", "taken", "held", "handed")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    STAMP_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    HANDED_FIELD_NUMBER: _ClassVar[int]
    index: int
    stamp: int
    start: int
    taken: int
    held: _containers.RepeatedCompositeFieldContainer[GroupsHeld]
    handed: int
    def __init__(self, index: _Optional[int] = ..., stamp: _Optional[int] = ..., start: _Optional[int] = ..., taken: _Optional[int] = ..., held: _Optional[_Iterable[_Union[GroupsHeld, _Mapping]]] = ..., handed: _Optional[int] = ...) -> None: ...

class ReaderHeartbeat(_message.Message):
    __slots__ = ("iteration", "session", "reader", "seq", "reports", "barrier", "leaving", "consumed", "process", "unreachable", "rounds", "trainer", "in_process", "transports", "loop", "links", "consumer", "tasks_as_of", "unacked")
    class ReportsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: TaskReport
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[TaskReport, _Mapping]] = ...) -> None: ...
    class UnreachableEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: UnreachableWorker
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[UnreachableWorker, _Mapping]] = ...) -> None: ...
    class InProcessEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class TransportsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    BARRIER_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    TRAINER_FIELD_NUMBER: _ClassVar[int]
    IN_PROCESS_FIELD_NUMBER: _ClassVar[int]
    TRANSPORTS_FIELD_NUMBER: _ClassVar[int]
    LOOP_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    TASKS_AS_OF_FIELD_NUMBER: _ClassVar[int]
    UNACKED_FIELD_NUMBER: _ClassVar[int]
    iteration: int
    session: str
    reader: int
    seq: int
    reports: _containers.MessageMap[int, TaskReport]
    barrier: SaveBarrier
    leaving: bool
    consumed: int
    process: ReaderProcess
    unreachable: _containers.MessageMap[str, UnreachableWorker]
    rounds: RoundsReport
    trainer: str
    in_process: _containers.ScalarMap[str, int]
    transports: _containers.ScalarMap[str, int]
    loop: LoopTime
    links: _containers.RepeatedCompositeFieldContainer[LinkTraffic]
    consumer: int
    tasks_as_of: int
    unacked: int
    def __init__(self, iteration: _Optional[int] = ..., session: _Optional[str] = ..., reader: _Optional[int] = ..., seq: _Optional[int] = ..., reports: _Optional[_Mapping[int, TaskReport]] = ..., barrier: _Optional[_Union[SaveBarrier, _Mapping]] = ..., leaving: bool = ..., consumed: _Optional[int] = ..., process: _Optional[_Union[ReaderProcess, _Mapping]] = ..., unreachable: _Optional[_Mapping[str, UnreachableWorker]] = ..., rounds: _Optional[_Union[RoundsReport, _Mapping]] = ..., trainer: _Optional[str] = ..., in_process: _Optional[_Mapping[str, int]] = ..., transports: _Optional[_Mapping[str, int]] = ..., loop: _Optional[_Union[LoopTime, _Mapping]] = ..., links: _Optional[_Iterable[_Union[LinkTraffic, _Mapping]]] = ..., consumer: _Optional[int] = ..., tasks_as_of: _Optional[int] = ..., unacked: _Optional[int] = ...) -> None: ...

class LinkTraffic(_message.Message):
    __slots__ = ("worker", "transport", "frames", "nbytes", "raw_nbytes", "rate", "compression", "held", "room")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    NBYTES_FIELD_NUMBER: _ClassVar[int]
    RAW_NBYTES_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    ROOM_FIELD_NUMBER: _ClassVar[int]
    worker: str
    transport: str
    frames: int
    nbytes: int
    raw_nbytes: int
    rate: float
    compression: str
    held: int
    room: int
    def __init__(self, worker: _Optional[str] = ..., transport: _Optional[str] = ..., frames: _Optional[int] = ..., nbytes: _Optional[int] = ..., raw_nbytes: _Optional[int] = ..., rate: _Optional[float] = ..., compression: _Optional[str] = ..., held: _Optional[int] = ..., room: _Optional[int] = ...) -> None: ...

class LoopTime(_message.Message):
    __slots__ = ("steps", "seconds", "waited", "p50", "p99", "waiting", "waits_for", "total", "waits_here", "waited_here", "slowest_here", "worked_here", "cpu_here", "wanted")
    STEPS_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    WAITED_FIELD_NUMBER: _ClassVar[int]
    P50_FIELD_NUMBER: _ClassVar[int]
    P99_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    WAITS_HERE_FIELD_NUMBER: _ClassVar[int]
    WAITED_HERE_FIELD_NUMBER: _ClassVar[int]
    SLOWEST_HERE_FIELD_NUMBER: _ClassVar[int]
    WORKED_HERE_FIELD_NUMBER: _ClassVar[int]
    CPU_HERE_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    steps: int
    seconds: float
    waited: float
    p50: float
    p99: float
    waiting: float
    waits_for: str
    total: int
    waits_here: bool
    waited_here: float
    slowest_here: str
    worked_here: float
    cpu_here: float
    wanted: float
    def __init__(self, steps: _Optional[int] = ..., seconds: _Optional[float] = ..., waited: _Optional[float] = ..., p50: _Optional[float] = ..., p99: _Optional[float] = ..., waiting: _Optional[float] = ..., waits_for: _Optional[str] = ..., total: _Optional[int] = ..., waits_here: bool = ..., waited_here: _Optional[float] = ..., slowest_here: _Optional[str] = ..., worked_here: _Optional[float] = ..., cpu_here: _Optional[float] = ..., wanted: _Optional[float] = ...) -> None: ...

class TaskView(_message.Message):
    __slots__ = ("attempt", "worker", "failure", "incarnation", "released", "floor", "profile")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    worker: str
    failure: _common_pb2.Failure
    incarnation: int
    released: int
    floor: int
    profile: WorkerProfile
    def __init__(self, attempt: _Optional[int] = ..., worker: _Optional[str] = ..., failure: _Optional[_Union[_common_pb2.Failure, _Mapping]] = ..., incarnation: _Optional[int] = ..., released: _Optional[int] = ..., floor: _Optional[int] = ..., profile: _Optional[_Union[WorkerProfile, _Mapping]] = ...) -> None: ...

class LostConsumer(_message.Message):
    __slots__ = ("index", "description")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    index: int
    description: str
    def __init__(self, index: _Optional[int] = ..., description: _Optional[str] = ...) -> None: ...

class RoundsView(_message.Message):
    __slots__ = ("start", "first", "entries", "last", "failure", "lost")
    START_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    start: int
    first: int
    entries: _containers.RepeatedScalarFieldContainer[int]
    last: int
    failure: _common_pb2.Failure
    lost: _containers.RepeatedCompositeFieldContainer[LostConsumer]
    def __init__(self, start: _Optional[int] = ..., first: _Optional[int] = ..., entries: _Optional[_Iterable[int]] = ..., last: _Optional[int] = ..., failure: _Optional[_Union[_common_pb2.Failure, _Mapping]] = ..., lost: _Optional[_Iterable[_Union[LostConsumer, _Mapping]]] = ...) -> None: ...

class ReaderView(_message.Message):
    __slots__ = ("revision", "session", "reader", "status", "seq", "tasks", "finished", "save_results", "next_save", "waiting_for", "on_readers", "held_by", "rounds", "cache", "more_tasks", "changes_since", "over", "life", "deferred")
    class TasksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: TaskView
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[TaskView, _Mapping]] = ...) -> None: ...
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    READER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    SAVE_RESULTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_SAVE_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    ON_READERS_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    CACHE_FIELD_NUMBER: _ClassVar[int]
    MORE_TASKS_FIELD_NUMBER: _ClassVar[int]
    CHANGES_SINCE_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    LIFE_FIELD_NUMBER: _ClassVar[int]
    DEFERRED_FIELD_NUMBER: _ClassVar[int]
    revision: int
    session: str
    reader: int
    status: _common_pb2.ReaderStatus
    seq: int
    tasks: _containers.MessageMap[int, TaskView]
    finished: bool
    save_results: _containers.RepeatedCompositeFieldContainer[SaveResult]
    next_save: int
    waiting_for: str
    on_readers: bool
    held_by: str
    rounds: RoundsView
    cache: CacheView
    more_tasks: bool
    changes_since: int
    over: _containers.RepeatedScalarFieldContainer[int]
    life: int
    deferred: bool
    def __init__(self, revision: _Optional[int] = ..., session: _Optional[str] = ..., reader: _Optional[int] = ..., status: _Optional[_Union[_common_pb2.ReaderStatus, str]] = ..., seq: _Optional[int] = ..., tasks: _Optional[_Mapping[int, TaskView]] = ..., finished: bool = ..., save_results: _Optional[_Iterable[_Union[SaveResult, _Mapping]]] = ..., next_save: _Optional[int] = ..., waiting_for: _Optional[str] = ..., on_readers: bool = ..., held_by: _Optional[str] = ..., rounds: _Optional[_Union[RoundsView, _Mapping]] = ..., cache: _Optional[_Union[CacheView, _Mapping]] = ..., more_tasks: bool = ..., changes_since: _Optional[int] = ..., over: _Optional[_Iterable[int]] = ..., life: _Optional[int] = ..., deferred: bool = ...) -> None: ...

class CacheView(_message.Message):
    __slots__ = ("skipped", "before")
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    skipped: int
    before: int
    def __init__(self, skipped: _Optional[int] = ..., before: _Optional[int] = ...) -> None: ...

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

class JobParameters(_message.Message):
    __slots__ = ("dataset", "mode", "codec", "num_consumers", "shared_cache", "target_workers", "ordered", "remainder", "patience", "when_full", "dataset_id", "on_error", "max_errors", "shards", "stride", "seed")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    NUM_CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    SHARED_CACHE_FIELD_NUMBER: _ClassVar[int]
    TARGET_WORKERS_FIELD_NUMBER: _ClassVar[int]
    ORDERED_FIELD_NUMBER: _ClassVar[int]
    REMAINDER_FIELD_NUMBER: _ClassVar[int]
    PATIENCE_FIELD_NUMBER: _ClassVar[int]
    WHEN_FULL_FIELD_NUMBER: _ClassVar[int]
    DATASET_ID_FIELD_NUMBER: _ClassVar[int]
    ON_ERROR_FIELD_NUMBER: _ClassVar[int]
    MAX_ERRORS_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    mode: _common_pb2.Mode
    codec: _common_pb2.Codec
    num_consumers: int
    shared_cache: bool
    target_workers: TargetWorkers
    ordered: bool
    remainder: Remainder
    patience: int
    when_full: str
    dataset_id: str
    on_error: OnError
    max_errors: int
    shards: int
    stride: int
    seed: int
    def __init__(self, dataset: _Optional[str] = ..., mode: _Optional[_Union[_common_pb2.Mode, str]] = ..., codec: _Optional[_Union[_common_pb2.Codec, str]] = ..., num_consumers: _Optional[int] = ..., shared_cache: bool = ..., target_workers: _Optional[_Union[TargetWorkers, str]] = ..., ordered: bool = ..., remainder: _Optional[_Union[Remainder, str]] = ..., patience: _Optional[int] = ..., when_full: _Optional[str] = ..., dataset_id: _Optional[str] = ..., on_error: _Optional[_Union[OnError, str]] = ..., max_errors: _Optional[int] = ..., shards: _Optional[int] = ..., stride: _Optional[int] = ..., seed: _Optional[int] = ...) -> None: ...

class SetWeightsRequest(_message.Message):
    __slots__ = ("job_name", "weights", "at")
    class WeightsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    job_name: str
    weights: _containers.ScalarMap[str, float]
    at: int
    def __init__(self, job_name: _Optional[str] = ..., weights: _Optional[_Mapping[str, float]] = ..., at: _Optional[int] = ...) -> None: ...

class SetWeightsReply(_message.Message):
    __slots__ = ("begin",)
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    begin: int
    def __init__(self, begin: _Optional[int] = ...) -> None: ...

class Measure(_message.Message):
    __slots__ = ("path", "operator", "name", "unit", "sum", "part")
    PATH_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    SUM_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    path: str
    operator: str
    name: str
    unit: str
    sum: float
    part: str
    def __init__(self, path: _Optional[str] = ..., operator: _Optional[str] = ..., name: _Optional[str] = ..., unit: _Optional[str] = ..., sum: _Optional[float] = ..., part: _Optional[str] = ...) -> None: ...

class StartRecordingRequest(_message.Message):
    __slots__ = ("save_id", "path", "dataset_id", "total")
    SAVE_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    DATASET_ID_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    save_id: str
    path: str
    dataset_id: str
    total: int
    def __init__(self, save_id: _Optional[str] = ..., path: _Optional[str] = ..., dataset_id: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class RecordingReply(_message.Message):
    __slots__ = ("save_id", "path", "stage", "worker", "progress", "failure")
    SAVE_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    save_id: str
    path: str
    stage: SaveStage
    worker: str
    progress: RecordingProgress
    failure: _common_pb2.Failure
    def __init__(self, save_id: _Optional[str] = ..., path: _Optional[str] = ..., stage: _Optional[_Union[SaveStage, str]] = ..., worker: _Optional[str] = ..., progress: _Optional[_Union[RecordingProgress, _Mapping]] = ..., failure: _Optional[_Union[_common_pb2.Failure, _Mapping]] = ...) -> None: ...

class FindRecordingRequest(_message.Message):
    __slots__ = ("save_id",)
    SAVE_ID_FIELD_NUMBER: _ClassVar[int]
    save_id: str
    def __init__(self, save_id: _Optional[str] = ...) -> None: ...

class CancelRecordingRequest(_message.Message):
    __slots__ = ("save_id",)
    SAVE_ID_FIELD_NUMBER: _ClassVar[int]
    save_id: str
    def __init__(self, save_id: _Optional[str] = ...) -> None: ...

class RecordingProgress(_message.Message):
    __slots__ = ("version", "elements", "chunks", "nbytes")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    NBYTES_FIELD_NUMBER: _ClassVar[int]
    version: int
    elements: int
    chunks: int
    nbytes: int
    def __init__(self, version: _Optional[int] = ..., elements: _Optional[int] = ..., chunks: _Optional[int] = ..., nbytes: _Optional[int] = ...) -> None: ...

class RecordingReport(_message.Message):
    __slots__ = ("save_id", "attempt", "stage", "progress", "failure", "died")
    SAVE_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    DIED_FIELD_NUMBER: _ClassVar[int]
    save_id: str
    attempt: int
    stage: SaveStage
    progress: RecordingProgress
    failure: _common_pb2.Failure
    died: str
    def __init__(self, save_id: _Optional[str] = ..., attempt: _Optional[int] = ..., stage: _Optional[_Union[SaveStage, str]] = ..., progress: _Optional[_Union[RecordingProgress, _Mapping]] = ..., failure: _Optional[_Union[_common_pb2.Failure, _Mapping]] = ..., died: _Optional[str] = ...) -> None: ...

class RecordingAssignment(_message.Message):
    __slots__ = ("save_id", "path", "dataset_id", "attempt", "stopping")
    SAVE_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    DATASET_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    save_id: str
    path: str
    dataset_id: str
    attempt: int
    stopping: bool
    def __init__(self, save_id: _Optional[str] = ..., path: _Optional[str] = ..., dataset_id: _Optional[str] = ..., attempt: _Optional[int] = ..., stopping: bool = ...) -> None: ...
