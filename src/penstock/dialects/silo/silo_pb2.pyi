from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GubernatorAlgorithm(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOKEN_BUCKET: _ClassVar[GubernatorAlgorithm]
    LEAKY_BUCKET: _ClassVar[GubernatorAlgorithm]

class GubernatorBehavior(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BATCHING: _ClassVar[GubernatorBehavior]
    NO_BATCHING: _ClassVar[GubernatorBehavior]
    GLOBAL: _ClassVar[GubernatorBehavior]
    DURATION_IS_GREGORIAN: _ClassVar[GubernatorBehavior]
    RESET_REMAINING: _ClassVar[GubernatorBehavior]
    DRAIN_OVER_LIMIT: _ClassVar[GubernatorBehavior]

class JobStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCHEDULED: _ClassVar[JobStatus]
    RUNNING: _ClassVar[JobStatus]
    SUCCEEDED: _ClassVar[JobStatus]
    FAILED: _ClassVar[JobStatus]
    CANCELLED: _ClassVar[JobStatus]

class AttemptStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ATTEMPT_RUNNING: _ClassVar[AttemptStatus]
    ATTEMPT_SUCCEEDED: _ClassVar[AttemptStatus]
    ATTEMPT_FAILED: _ClassVar[AttemptStatus]
    ATTEMPT_CANCELLED: _ClassVar[AttemptStatus]
TOKEN_BUCKET: GubernatorAlgorithm
LEAKY_BUCKET: GubernatorAlgorithm
BATCHING: GubernatorBehavior
NO_BATCHING: GubernatorBehavior
GLOBAL: GubernatorBehavior
DURATION_IS_GREGORIAN: GubernatorBehavior
RESET_REMAINING: GubernatorBehavior
DRAIN_OVER_LIMIT: GubernatorBehavior
SCHEDULED: JobStatus
RUNNING: JobStatus
SUCCEEDED: JobStatus
FAILED: JobStatus
CANCELLED: JobStatus
ATTEMPT_RUNNING: AttemptStatus
ATTEMPT_SUCCEEDED: AttemptStatus
ATTEMPT_FAILED: AttemptStatus
ATTEMPT_CANCELLED: AttemptStatus

class SerializedBytes(_message.Message):
    __slots__ = ("msgpack",)
    MSGPACK_FIELD_NUMBER: _ClassVar[int]
    msgpack: bytes
    def __init__(self, msgpack: _Optional[bytes] = ...) -> None: ...

class RetryPolicy(_message.Message):
    __slots__ = ("retry_count", "initial_interval_ms", "max_interval_ms", "randomize_interval", "backoff_factor")
    RETRY_COUNT_FIELD_NUMBER: _ClassVar[int]
    INITIAL_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    RANDOMIZE_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_FACTOR_FIELD_NUMBER: _ClassVar[int]
    retry_count: int
    initial_interval_ms: int
    max_interval_ms: int
    randomize_interval: bool
    backoff_factor: float
    def __init__(self, retry_count: _Optional[int] = ..., initial_interval_ms: _Optional[int] = ..., max_interval_ms: _Optional[int] = ..., randomize_interval: _Optional[bool] = ..., backoff_factor: _Optional[float] = ...) -> None: ...

class ConcurrencyLimit(_message.Message):
    __slots__ = ("key", "max_concurrency")
    KEY_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    key: str
    max_concurrency: int
    def __init__(self, key: _Optional[str] = ..., max_concurrency: _Optional[int] = ...) -> None: ...

class FloatingConcurrencyLimit(_message.Message):
    __slots__ = ("key", "default_max_concurrency", "refresh_interval_ms", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_MAX_CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    REFRESH_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    key: str
    default_max_concurrency: int
    refresh_interval_ms: int
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, key: _Optional[str] = ..., default_max_concurrency: _Optional[int] = ..., refresh_interval_ms: _Optional[int] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class RateLimitRetryPolicy(_message.Message):
    __slots__ = ("initial_backoff_ms", "max_backoff_ms", "backoff_multiplier", "max_retries")
    INITIAL_BACKOFF_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_BACKOFF_MS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    MAX_RETRIES_FIELD_NUMBER: _ClassVar[int]
    initial_backoff_ms: int
    max_backoff_ms: int
    backoff_multiplier: float
    max_retries: int
    def __init__(self, initial_backoff_ms: _Optional[int] = ..., max_backoff_ms: _Optional[int] = ..., backoff_multiplier: _Optional[float] = ..., max_retries: _Optional[int] = ...) -> None: ...

class GubernatorRateLimit(_message.Message):
    __slots__ = ("name", "unique_key", "limit", "duration_ms", "hits", "algorithm", "behavior", "retry_policy")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_KEY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    BEHAVIOR_FIELD_NUMBER: _ClassVar[int]
    RETRY_POLICY_FIELD_NUMBER: _ClassVar[int]
    name: str
    unique_key: str
    limit: int
    duration_ms: int
    hits: int
    algorithm: GubernatorAlgorithm
    behavior: int
    retry_policy: RateLimitRetryPolicy
    def __init__(self, name: _Optional[str] = ..., unique_key: _Optional[str] = ..., limit: _Optional[int] = ..., duration_ms: _Optional[int] = ..., hits: _Optional[int] = ..., algorithm: _Optional[_Union[GubernatorAlgorithm, str]] = ..., behavior: _Optional[int] = ..., retry_policy: _Optional[_Union[RateLimitRetryPolicy, _Mapping]] = ...) -> None: ...

class Limit(_message.Message):
    __slots__ = ("concurrency", "rate_limit", "floating_concurrency")
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    RATE_LIMIT_FIELD_NUMBER: _ClassVar[int]
    FLOATING_CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    concurrency: ConcurrencyLimit
    rate_limit: GubernatorRateLimit
    floating_concurrency: FloatingConcurrencyLimit
    def __init__(self, concurrency: _Optional[_Union[ConcurrencyLimit, _Mapping]] = ..., rate_limit: _Optional[_Union[GubernatorRateLimit, _Mapping]] = ..., floating_concurrency: _Optional[_Union[FloatingConcurrencyLimit, _Mapping]] = ...) -> None: ...

class EnqueueRequest(_message.Message):
    __slots__ = ("shard", "id", "priority", "start_at_ms", "retry_policy", "payload", "limits", "tenant", "metadata", "task_group")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SHARD_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    START_AT_MS_FIELD_NUMBER: _ClassVar[int]
    RETRY_POLICY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    TASK_GROUP_FIELD_NUMBER: _ClassVar[int]
    shard: str
    id: str
    priority: int
    start_at_ms: int
    retry_policy: RetryPolicy
    payload: SerializedBytes
    limits: _containers.RepeatedCompositeFieldContainer[Limit]
    tenant: str
    metadata: _containers.ScalarMap[str, str]
    task_group: str
    def __init__(self, shard: _Optional[str] = ..., id: _Optional[str] = ..., priority: _Optional[int] = ..., start_at_ms: _Optional[int] = ..., retry_policy: _Optional[_Union[RetryPolicy, _Mapping]] = ..., payload: _Optional[_Union[SerializedBytes, _Mapping]] = ..., limits: _Optional[_Iterable[_Union[Limit, _Mapping]]] = ..., tenant: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., task_group: _Optional[str] = ...) -> None: ...

class EnqueueResponse(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("shard", "id", "tenant", "include_attempts")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    shard: str
    id: str
    tenant: str
    include_attempts: bool
    def __init__(self, shard: _Optional[str] = ..., id: _Optional[str] = ..., tenant: _Optional[str] = ..., include_attempts: _Optional[bool] = ...) -> None: ...

class JobAttempt(_message.Message):
    __slots__ = ("job_id", "attempt_number", "task_id", "status", "started_at_ms", "finished_at_ms", "result", "error_code", "error_data")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_DATA_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    attempt_number: int
    task_id: str
    status: AttemptStatus
    started_at_ms: int
    finished_at_ms: int
    result: SerializedBytes
    error_code: str
    error_data: SerializedBytes
    def __init__(self, job_id: _Optional[str] = ..., attempt_number: _Optional[int] = ..., task_id: _Optional[str] = ..., status: _Optional[_Union[AttemptStatus, str]] = ..., started_at_ms: _Optional[int] = ..., finished_at_ms: _Optional[int] = ..., result: _Optional[_Union[SerializedBytes, _Mapping]] = ..., error_code: _Optional[str] = ..., error_data: _Optional[_Union[SerializedBytes, _Mapping]] = ...) -> None: ...

class GetJobResponse(_message.Message):
    __slots__ = ("id", "priority", "enqueue_time_ms", "payload", "retry_policy", "limits", "metadata", "status", "status_changed_at_ms", "attempts", "next_attempt_starts_after_ms", "task_group", "result")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    ENQUEUE_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    RETRY_POLICY_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    STATUS_CHANGED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_ATTEMPT_STARTS_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    TASK_GROUP_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    id: str
    priority: int
    enqueue_time_ms: int
    payload: SerializedBytes
    retry_policy: RetryPolicy
    limits: _containers.RepeatedCompositeFieldContainer[Limit]
    metadata: _containers.ScalarMap[str, str]
    status: JobStatus
    status_changed_at_ms: int
    attempts: _containers.RepeatedCompositeFieldContainer[JobAttempt]
    next_attempt_starts_after_ms: int
    task_group: str
    result: SerializedBytes
    def __init__(self, id: _Optional[str] = ..., priority: _Optional[int] = ..., enqueue_time_ms: _Optional[int] = ..., payload: _Optional[_Union[SerializedBytes, _Mapping]] = ..., retry_policy: _Optional[_Union[RetryPolicy, _Mapping]] = ..., limits: _Optional[_Iterable[_Union[Limit, _Mapping]]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., status: _Optional[_Union[JobStatus, str]] = ..., status_changed_at_ms: _Optional[int] = ..., attempts: _Optional[_Iterable[_Union[JobAttempt, _Mapping]]] = ..., next_attempt_starts_after_ms: _Optional[int] = ..., task_group: _Optional[str] = ..., result: _Optional[_Union[SerializedBytes, _Mapping]] = ...) -> None: ...

class GetJobResultRequest(_message.Message):
    __slots__ = ("shard", "id", "tenant")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    shard: str
    id: str
    tenant: str
    def __init__(self, shard: _Optional[str] = ..., id: _Optional[str] = ..., tenant: _Optional[str] = ...) -> None: ...

class JobFailure(_message.Message):
    __slots__ = ("error_code", "error_data")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_DATA_FIELD_NUMBER: _ClassVar[int]
    error_code: str
    error_data: SerializedBytes
    def __init__(self, error_code: _Optional[str] = ..., error_data: _Optional[_Union[SerializedBytes, _Mapping]] = ...) -> None: ...

class JobCancelled(_message.Message):
    __slots__ = ("cancelled_at_ms",)
    CANCELLED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    cancelled_at_ms: int
    def __init__(self, cancelled_at_ms: _Optional[int] = ...) -> None: ...

class GetJobResultResponse(_message.Message):
    __slots__ = ("id", "status", "finished_at_ms", "success_data", "failure", "cancelled")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_DATA_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    id: str
    status: JobStatus
    finished_at_ms: int
    success_data: SerializedBytes
    failure: JobFailure
    cancelled: JobCancelled
    def __init__(self, id: _Optional[str] = ..., status: _Optional[_Union[JobStatus, str]] = ..., finished_at_ms: _Optional[int] = ..., success_data: _Optional[_Union[SerializedBytes, _Mapping]] = ..., failure: _Optional[_Union[JobFailure, _Mapping]] = ..., cancelled: _Optional[_Union[JobCancelled, _Mapping]] = ...) -> None: ...

class DeleteJobRequest(_message.Message):
    __slots__ = ("shard", "id", "tenant")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    shard: str
    id: str
    tenant: str
    def __init__(self, shard: _Optional[str] = ..., id: _Optional[str] = ..., tenant: _Optional[str] = ...) -> None: ...

class DeleteJobResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CancelJobRequest(_message.Message):
    __slots__ = ("shard", "id", "tenant")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    shard: str
    id: str
    tenant: str
    def __init__(self, shard: _Optional[str] = ..., id: _Optional[str] = ..., tenant: _Optional[str] = ...) -> None: ...

class CancelJobResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RestartJobRequest(_message.Message):
    __slots__ = ("shard", "id", "tenant")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    shard: str
    id: str
    tenant: str
    def __init__(self, shard: _Optional[str] = ..., id: _Optional[str] = ..., tenant: _Optional[str] = ...) -> None: ...

class RestartJobResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExpediteJobRequest(_message.Message):
    __slots__ = ("shard", "id", "tenant")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    shard: str
    id: str
    tenant: str
    def __init__(self, shard: _Optional[str] = ..., id: _Optional[str] = ..., tenant: _Optional[str] = ...) -> None: ...

class ExpediteJobResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Task(_message.Message):
    __slots__ = ("id", "job_id", "tenant_id", "attempt_number", "relative_attempt_number", "is_last_attempt", "metadata", "limits", "payload", "priority", "shard", "task_group", "lease_ms")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    RELATIVE_ATTEMPT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    TASK_GROUP_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    id: str
    job_id: str
    tenant_id: str
    attempt_number: int
    relative_attempt_number: int
    is_last_attempt: bool
    metadata: _containers.ScalarMap[str, str]
    limits: _containers.RepeatedCompositeFieldContainer[Limit]
    payload: SerializedBytes
    priority: int
    shard: str
    task_group: str
    lease_ms: int
    def __init__(self, id: _Optional[str] = ..., job_id: _Optional[str] = ..., tenant_id: _Optional[str] = ..., attempt_number: _Optional[int] = ..., relative_attempt_number: _Optional[int] = ..., is_last_attempt: _Optional[bool] = ..., metadata: _Optional[_Mapping[str, str]] = ..., limits: _Optional[_Iterable[_Union[Limit, _Mapping]]] = ..., payload: _Optional[_Union[SerializedBytes, _Mapping]] = ..., priority: _Optional[int] = ..., shard: _Optional[str] = ..., task_group: _Optional[str] = ..., lease_ms: _Optional[int] = ...) -> None: ...

class RefreshFloatingLimitTask(_message.Message):
    __slots__ = ("id", "queue_key", "current_max_concurrency", "last_refreshed_at_ms", "metadata", "lease_ms", "shard", "task_group", "tenant_id")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_KEY_FIELD_NUMBER: _ClassVar[int]
    CURRENT_MAX_CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    LAST_REFRESHED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    TASK_GROUP_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    queue_key: str
    current_max_concurrency: int
    last_refreshed_at_ms: int
    metadata: _containers.ScalarMap[str, str]
    lease_ms: int
    shard: str
    task_group: str
    tenant_id: str
    def __init__(self, id: _Optional[str] = ..., queue_key: _Optional[str] = ..., current_max_concurrency: _Optional[int] = ..., last_refreshed_at_ms: _Optional[int] = ..., metadata: _Optional[_Mapping[str, str]] = ..., lease_ms: _Optional[int] = ..., shard: _Optional[str] = ..., task_group: _Optional[str] = ..., tenant_id: _Optional[str] = ...) -> None: ...

class LeaseTaskRequest(_message.Message):
    __slots__ = ("shard", "id", "tenant", "worker_id")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    shard: str
    id: str
    tenant: str
    worker_id: str
    def __init__(self, shard: _Optional[str] = ..., id: _Optional[str] = ..., tenant: _Optional[str] = ..., worker_id: _Optional[str] = ...) -> None: ...

class LeaseTaskResponse(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: Task
    def __init__(self, task: _Optional[_Union[Task, _Mapping]] = ...) -> None: ...

class LeaseTasksRequest(_message.Message):
    __slots__ = ("shard", "worker_id", "max_tasks", "task_group")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_TASKS_FIELD_NUMBER: _ClassVar[int]
    TASK_GROUP_FIELD_NUMBER: _ClassVar[int]
    shard: str
    worker_id: str
    max_tasks: int
    task_group: str
    def __init__(self, shard: _Optional[str] = ..., worker_id: _Optional[str] = ..., max_tasks: _Optional[int] = ..., task_group: _Optional[str] = ...) -> None: ...

class LeaseTasksResponse(_message.Message):
    __slots__ = ("tasks", "refresh_tasks")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    REFRESH_TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    refresh_tasks: _containers.RepeatedCompositeFieldContainer[RefreshFloatingLimitTask]
    def __init__(self, tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ..., refresh_tasks: _Optional[_Iterable[_Union[RefreshFloatingLimitTask, _Mapping]]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("code", "data")
    CODE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    code: str
    data: SerializedBytes
    def __init__(self, code: _Optional[str] = ..., data: _Optional[_Union[SerializedBytes, _Mapping]] = ...) -> None: ...

class Cancelled(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReportOutcomeRequest(_message.Message):
    __slots__ = ("shard", "task_id", "success", "failure", "cancelled", "tenant_id")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    shard: str
    task_id: str
    success: SerializedBytes
    failure: Failure
    cancelled: Cancelled
    tenant_id: str
    def __init__(self, shard: _Optional[str] = ..., task_id: _Optional[str] = ..., success: _Optional[_Union[SerializedBytes, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., cancelled: _Optional[_Union[Cancelled, _Mapping]] = ..., tenant_id: _Optional[str] = ...) -> None: ...

class ReportOutcomeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RefreshSuccess(_message.Message):
    __slots__ = ("new_max_concurrency",)
    NEW_MAX_CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    new_max_concurrency: int
    def __init__(self, new_max_concurrency: _Optional[int] = ...) -> None: ...

class RefreshFailure(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class ReportRefreshOutcomeRequest(_message.Message):
    __slots__ = ("shard", "task_id", "success", "failure", "tenant_id")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    shard: str
    task_id: str
    success: RefreshSuccess
    failure: RefreshFailure
    tenant_id: str
    def __init__(self, shard: _Optional[str] = ..., task_id: _Optional[str] = ..., success: _Optional[_Union[RefreshSuccess, _Mapping]] = ..., failure: _Optional[_Union[RefreshFailure, _Mapping]] = ..., tenant_id: _Optional[str] = ...) -> None: ...

class ReportRefreshOutcomeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("shard", "worker_id", "task_id", "tenant_id")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_ID_FIELD_NUMBER: _ClassVar[int]
    shard: str
    worker_id: str
    task_id: str
    tenant_id: str
    def __init__(self, shard: _Optional[str] = ..., worker_id: _Optional[str] = ..., task_id: _Optional[str] = ..., tenant_id: _Optional[str] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("cancelled", "cancelled_at_ms")
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    cancelled: bool
    cancelled_at_ms: int
    def __init__(self, cancelled: _Optional[bool] = ..., cancelled_at_ms: _Optional[int] = ...) -> None: ...

class QueryNull(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class QueryParameter(_message.Message):
    __slots__ = ("bool_value", "int64_value", "uint64_value", "float64_value", "string_value", "bytes_value", "null_value")
    BOOL_VALUE_FIELD_NUMBER: _ClassVar[int]
    INT64_VALUE_FIELD_NUMBER: _ClassVar[int]
    UINT64_VALUE_FIELD_NUMBER: _ClassVar[int]
    FLOAT64_VALUE_FIELD_NUMBER: _ClassVar[int]
    STRING_VALUE_FIELD_NUMBER: _ClassVar[int]
    BYTES_VALUE_FIELD_NUMBER: _ClassVar[int]
    NULL_VALUE_FIELD_NUMBER: _ClassVar[int]
    bool_value: bool
    int64_value: int
    uint64_value: int
    float64_value: float
    string_value: str
    bytes_value: bytes
    null_value: QueryNull
    def __init__(self, bool_value: _Optional[bool] = ..., int64_value: _Optional[int] = ..., uint64_value: _Optional[int] = ..., float64_value: _Optional[float] = ..., string_value: _Optional[str] = ..., bytes_value: _Optional[bytes] = ..., null_value: _Optional[_Union[QueryNull, _Mapping]] = ...) -> None: ...

class QueryRequest(_message.Message):
    __slots__ = ("shard", "sql", "tenant", "parameters")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    SQL_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    shard: str
    sql: str
    tenant: str
    parameters: _containers.RepeatedCompositeFieldContainer[QueryParameter]
    def __init__(self, shard: _Optional[str] = ..., sql: _Optional[str] = ..., tenant: _Optional[str] = ..., parameters: _Optional[_Iterable[_Union[QueryParameter, _Mapping]]] = ...) -> None: ...

class ColumnInfo(_message.Message):
    __slots__ = ("name", "data_type")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    data_type: str
    def __init__(self, name: _Optional[str] = ..., data_type: _Optional[str] = ...) -> None: ...

class QueryResponse(_message.Message):
    __slots__ = ("columns", "rows", "row_count")
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedCompositeFieldContainer[ColumnInfo]
    rows: _containers.RepeatedCompositeFieldContainer[SerializedBytes]
    row_count: int
    def __init__(self, columns: _Optional[_Iterable[_Union[ColumnInfo, _Mapping]]] = ..., rows: _Optional[_Iterable[_Union[SerializedBytes, _Mapping]]] = ..., row_count: _Optional[int] = ...) -> None: ...

class ImportAttempt(_message.Message):
    __slots__ = ("status", "started_at_ms", "finished_at_ms", "result", "error_code", "error_data")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_DATA_FIELD_NUMBER: _ClassVar[int]
    status: AttemptStatus
    started_at_ms: int
    finished_at_ms: int
    result: SerializedBytes
    error_code: str
    error_data: SerializedBytes
    def __init__(self, status: _Optional[_Union[AttemptStatus, str]] = ..., started_at_ms: _Optional[int] = ..., finished_at_ms: _Optional[int] = ..., result: _Optional[_Union[SerializedBytes, _Mapping]] = ..., error_code: _Optional[str] = ..., error_data: _Optional[_Union[SerializedBytes, _Mapping]] = ...) -> None: ...

class ImportJobRequest(_message.Message):
    __slots__ = ("shard", "id", "priority", "enqueue_time_ms", "start_at_ms", "retry_policy", "payload", "limits", "tenant", "metadata", "task_group", "attempts")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SHARD_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    ENQUEUE_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    START_AT_MS_FIELD_NUMBER: _ClassVar[int]
    RETRY_POLICY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    TASK_GROUP_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    shard: str
    id: str
    priority: int
    enqueue_time_ms: int
    start_at_ms: int
    retry_policy: RetryPolicy
    payload: SerializedBytes
    limits: _containers.RepeatedCompositeFieldContainer[Limit]
    tenant: str
    metadata: _containers.ScalarMap[str, str]
    task_group: str
    attempts: _containers.RepeatedCompositeFieldContainer[ImportAttempt]
    def __init__(self, shard: _Optional[str] = ..., id: _Optional[str] = ..., priority: _Optional[int] = ..., enqueue_time_ms: _Optional[int] = ..., start_at_ms: _Optional[int] = ..., retry_policy: _Optional[_Union[RetryPolicy, _Mapping]] = ..., payload: _Optional[_Union[SerializedBytes, _Mapping]] = ..., limits: _Optional[_Iterable[_Union[Limit, _Mapping]]] = ..., tenant: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., task_group: _Optional[str] = ..., attempts: _Optional[_Iterable[_Union[ImportAttempt, _Mapping]]] = ...) -> None: ...

class ImportJobsRequest(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[ImportJobRequest]
    def __init__(self, jobs: _Optional[_Iterable[_Union[ImportJobRequest, _Mapping]]] = ...) -> None: ...

class ImportJobResult(_message.Message):
    __slots__ = ("id", "success", "error", "status")
    ID_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    id: str
    success: bool
    error: str
    status: JobStatus
    def __init__(self, id: _Optional[str] = ..., success: _Optional[bool] = ..., error: _Optional[str] = ..., status: _Optional[_Union[JobStatus, str]] = ...) -> None: ...

class ImportJobsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ImportJobResult]
    def __init__(self, results: _Optional[_Iterable[_Union[ImportJobResult, _Mapping]]] = ...) -> None: ...

class GetClusterInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ShardOwner(_message.Message):
    __slots__ = ("shard_id", "grpc_addr", "node_id", "range_start", "range_end", "placement_ring")
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    GRPC_ADDR_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    RANGE_START_FIELD_NUMBER: _ClassVar[int]
    RANGE_END_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_RING_FIELD_NUMBER: _ClassVar[int]
    shard_id: str
    grpc_addr: str
    node_id: str
    range_start: str
    range_end: str
    placement_ring: str
    def __init__(self, shard_id: _Optional[str] = ..., grpc_addr: _Optional[str] = ..., node_id: _Optional[str] = ..., range_start: _Optional[str] = ..., range_end: _Optional[str] = ..., placement_ring: _Optional[str] = ...) -> None: ...

class ClusterMember(_message.Message):
    __slots__ = ("node_id", "grpc_addr", "placement_rings")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    GRPC_ADDR_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_RINGS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    grpc_addr: str
    placement_rings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node_id: _Optional[str] = ..., grpc_addr: _Optional[str] = ..., placement_rings: _Optional[_Iterable[str]] = ...) -> None: ...

class GetClusterInfoResponse(_message.Message):
    __slots__ = ("num_shards", "shard_owners", "this_node_id", "this_grpc_addr", "members")
    NUM_SHARDS_FIELD_NUMBER: _ClassVar[int]
    SHARD_OWNERS_FIELD_NUMBER: _ClassVar[int]
    THIS_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    THIS_GRPC_ADDR_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    num_shards: int
    shard_owners: _containers.RepeatedCompositeFieldContainer[ShardOwner]
    this_node_id: str
    this_grpc_addr: str
    members: _containers.RepeatedCompositeFieldContainer[ClusterMember]
    def __init__(self, num_shards: _Optional[int] = ..., shard_owners: _Optional[_Iterable[_Union[ShardOwner, _Mapping]]] = ..., this_node_id: _Optional[str] = ..., this_grpc_addr: _Optional[str] = ..., members: _Optional[_Iterable[_Union[ClusterMember, _Mapping]]] = ...) -> None: ...

class ResetShardsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResetShardsResponse(_message.Message):
    __slots__ = ("shards_reset",)
    SHARDS_RESET_FIELD_NUMBER: _ClassVar[int]
    shards_reset: int
    def __init__(self, shards_reset: _Optional[int] = ...) -> None: ...
