from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class VersionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class VersionReply(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class ServiceConfigRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServiceConfigReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MetadataRequest(_message.Message):
    __slots__ = ("dataset_id",)
    DATASET_ID_FIELD_NUMBER: _ClassVar[int]
    dataset_id: str
    def __init__(self, dataset_id: _Optional[str] = ...) -> None: ...

class Metadata(_message.Message):
    __slots__ = ("element_spec", "compression", "cardinality")
    ELEMENT_SPEC_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    CARDINALITY_FIELD_NUMBER: _ClassVar[int]
    element_spec: bytes
    compression: int
    cardinality: int
    def __init__(self, element_spec: _Optional[bytes] = ..., compression: _Optional[int] = ..., cardinality: _Optional[int] = ...) -> None: ...

class MetadataReply(_message.Message):
    __slots__ = ("metadata",)
    METADATA_FIELD_NUMBER: _ClassVar[int]
    metadata: Metadata
    def __init__(self, metadata: _Optional[_Union[Metadata, _Mapping]] = ...) -> None: ...

class DisableCompressionRequest(_message.Message):
    __slots__ = ("dataset_id",)
    DATASET_ID_FIELD_NUMBER: _ClassVar[int]
    dataset_id: str
    def __init__(self, dataset_id: _Optional[str] = ...) -> None: ...

class DisableCompressionReply(_message.Message):
    __slots__ = ("compression_disabled_at_runtime", "no_compression_to_disable")
    COMPRESSION_DISABLED_AT_RUNTIME_FIELD_NUMBER: _ClassVar[int]
    NO_COMPRESSION_TO_DISABLE_FIELD_NUMBER: _ClassVar[int]
    compression_disabled_at_runtime: bool
    no_compression_to_disable: bool
    def __init__(self, compression_disabled_at_runtime: bool = ..., no_compression_to_disable: bool = ...) -> None: ...

class ProcessingMode(_message.Message):
    __slots__ = ("sharding_policy",)
    SHARDING_POLICY_FIELD_NUMBER: _ClassVar[int]
    sharding_policy: int
    def __init__(self, sharding_policy: _Optional[int] = ...) -> None: ...

class JobRequest(_message.Message):
    __slots__ = ("dataset_id", "processing_mode", "job_name", "num_consumers", "cached", "target_workers")
    DATASET_ID_FIELD_NUMBER: _ClassVar[int]
    PROCESSING_MODE_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    NUM_CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    CACHED_FIELD_NUMBER: _ClassVar[int]
    TARGET_WORKERS_FIELD_NUMBER: _ClassVar[int]
    dataset_id: str
    processing_mode: ProcessingMode
    job_name: str
    num_consumers: int
    cached: bool
    target_workers: int
    def __init__(self, dataset_id: _Optional[str] = ..., processing_mode: _Optional[_Union[ProcessingMode, _Mapping]] = ..., job_name: _Optional[str] = ..., num_consumers: _Optional[int] = ..., cached: bool = ..., target_workers: _Optional[int] = ...) -> None: ...

class JobReply(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    def __init__(self, job_id: _Optional[int] = ...) -> None: ...

class IterationRequest(_message.Message):
    __slots__ = ("job_id", "repetition")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    REPETITION_FIELD_NUMBER: _ClassVar[int]
    job_id: int
    repetition: int
    def __init__(self, job_id: _Optional[int] = ..., repetition: _Optional[int] = ...) -> None: ...

class IterationReply(_message.Message):
    __slots__ = ("client_id",)
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    client_id: int
    def __init__(self, client_id: _Optional[int] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("client_id", "current_round")
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CURRENT_ROUND_FIELD_NUMBER: _ClassVar[int]
    client_id: int
    current_round: int
    def __init__(self, client_id: _Optional[int] = ..., current_round: _Optional[int] = ...) -> None: ...

class TransferServer(_message.Message):
    __slots__ = ("protocol", "address")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    protocol: str
    address: str
    def __init__(self, protocol: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("worker_address", "task_id", "iteration_id", "worker_tags", "worker_uid", "transfer_servers")
    WORKER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ITERATION_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_TAGS_FIELD_NUMBER: _ClassVar[int]
    WORKER_UID_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_SERVERS_FIELD_NUMBER: _ClassVar[int]
    worker_address: str
    task_id: int
    iteration_id: int
    worker_tags: _containers.RepeatedScalarFieldContainer[str]
    worker_uid: int
    transfer_servers: _containers.RepeatedCompositeFieldContainer[TransferServer]
    def __init__(self, worker_address: _Optional[str] = ..., task_id: _Optional[int] = ..., iteration_id: _Optional[int] = ..., worker_tags: _Optional[_Iterable[str]] = ..., worker_uid: _Optional[int] = ..., transfer_servers: _Optional[_Iterable[_Union[TransferServer, _Mapping]]] = ...) -> None: ...

class HeartbeatReply(_message.Message):
    __slots__ = ("tasks", "finished", "deployment_mode")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    DEPLOYMENT_MODE_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    finished: bool
    deployment_mode: int
    def __init__(self, tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ..., finished: bool = ..., deployment_mode: _Optional[int] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("client_id",)
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    client_id: int
    def __init__(self, client_id: _Optional[int] = ...) -> None: ...

class ReleaseReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RemoveTaskRequest(_message.Message):
    __slots__ = ("task_id", "consumer_index", "round")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_INDEX_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    task_id: int
    consumer_index: int
    round: int
    def __init__(self, task_id: _Optional[int] = ..., consumer_index: _Optional[int] = ..., round: _Optional[int] = ...) -> None: ...

class RemoveTaskReply(_message.Message):
    __slots__ = ("removed",)
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    removed: bool
    def __init__(self, removed: bool = ...) -> None: ...

class ElementRequest(_message.Message):
    __slots__ = ("task_id", "consumer_index", "round_index", "allow_skip", "trainer_id")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_INDEX_FIELD_NUMBER: _ClassVar[int]
    ROUND_INDEX_FIELD_NUMBER: _ClassVar[int]
    ALLOW_SKIP_FIELD_NUMBER: _ClassVar[int]
    TRAINER_ID_FIELD_NUMBER: _ClassVar[int]
    task_id: int
    consumer_index: int
    round_index: int
    allow_skip: bool
    trainer_id: str
    def __init__(self, task_id: _Optional[int] = ..., consumer_index: _Optional[int] = ..., round_index: _Optional[int] = ..., allow_skip: bool = ..., trainer_id: _Optional[str] = ...) -> None: ...

class FindTaskRequest(_message.Message):
    __slots__ = ("task_id", "consumer_index", "round_index", "is_round")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_INDEX_FIELD_NUMBER: _ClassVar[int]
    ROUND_INDEX_FIELD_NUMBER: _ClassVar[int]
    IS_ROUND_FIELD_NUMBER: _ClassVar[int]
    task_id: int
    consumer_index: int
    round_index: int
    is_round: int
    def __init__(self, task_id: _Optional[int] = ..., consumer_index: _Optional[int] = ..., round_index: _Optional[int] = ..., is_round: _Optional[int] = ...) -> None: ...

class FoundTask(_message.Message):
    __slots__ = ("dataset_id", "sharding_policy", "job_name", "repetition", "num_consumers", "cached", "wanted", "start_round", "snappy", "opened")
    DATASET_ID_FIELD_NUMBER: _ClassVar[int]
    SHARDING_POLICY_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    REPETITION_FIELD_NUMBER: _ClassVar[int]
    NUM_CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    CACHED_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    START_ROUND_FIELD_NUMBER: _ClassVar[int]
    SNAPPY_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    dataset_id: str
    sharding_policy: int
    job_name: str
    repetition: int
    num_consumers: int
    cached: bool
    wanted: bool
    start_round: int
    snappy: bool
    opened: bool
    def __init__(self, dataset_id: _Optional[str] = ..., sharding_policy: _Optional[int] = ..., job_name: _Optional[str] = ..., repetition: _Optional[int] = ..., num_consumers: _Optional[int] = ..., cached: bool = ..., wanted: bool = ..., start_round: _Optional[int] = ..., snappy: bool = ..., opened: bool = ...) -> None: ...
