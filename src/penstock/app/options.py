"""Options of tasks and jobs: what users write, and what that comes to once it is checked."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol, TypedDict

from penstock.app.codec import UNWRITABLE, decode, encode
from penstock.app.uniqueness import Uniqueness, UniqueOption, read_unique
from penstock.errors import InvalidJobError
from penstock.job import SECRET, NewJob
from penstock.lifecycle.checks import check_cost, check_job_id, check_priority, check_queue, check_tenant
from penstock.lifecycle.retry import RetryPolicy
from penstock.limits.durations import Duration, parse_duration
from penstock.limits.spec import Spec, check_specs, resolve
from penstock.tracing import noted

RetryOption = RetryPolicy | int | Mapping[str, Any]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
# What None clears.
_CLEARED: Final = {"expires", "timeout", "id", "quiet", "max_wait"}


class TaskOptions(TypedDict, total=False):
    """What can be said of every job of a task.

    *delay* keeps a job from starting for a while, *expires* gives it up when it has not started by then.  With
    *quiet* a unique job starts once no call of its key has come for so long, *max_wait* after the first at the latest.
    What a *secret* job is given and comes to is shown to operators only.
    """

    queue: str
    tenant: str
    priority: int
    limits: Spec | Sequence[Spec]
    cost: int | Callable[..., int]
    delay: Duration | None
    expires: Duration | datetime | None
    timeout: Duration | None
    retry: RetryOption
    unique: UniqueOption
    quiet: Duration | None
    max_wait: Duration | None
    meta: Mapping[str, Any]
    secret: bool


class JobOptions(TaskOptions, total=False):
    """What can be said of one job.

    *connection* is a database connection of your own: the job exists if and only if its transaction commits.
    """

    id: str | None
    due: datetime | None
    connection: object


@dataclass(frozen=True, slots=True)
class PointInTime:
    """A moment, or a while from now."""

    microseconds: int
    from_now: bool

    def at(self, now: int) -> int:
        """Return the moment this means at *now*."""
        return now + self.microseconds if self.from_now else self.microseconds


@dataclass(frozen=True, slots=True)
class CheckedOptions:
    """CheckedOptions that were checked."""

    queue: str = "default"
    tenant: str = ""
    priority: int = 0
    limits: tuple[Spec, ...] = ()
    cost: int | Callable[[Mapping[str, object]], int] = 1
    due: PointInTime | None = None
    expires: PointInTime | None = None
    timeout: int | None = None
    retry: RetryPolicy = RetryPolicy()
    unique: Uniqueness | None = None
    quiet: int | None = None
    max_wait: int | None = None
    meta: str = "{}"
    secret: bool | None = None  # None: as meta says
    id: str | None = None
    connection: object = None

    @property
    def noted(self) -> str:
        """What is noted on a job at present: its meta, with the span and whether it is secret."""
        if self.secret is None:
            return noted(self.meta)
        return noted(encode({**decode(self.meta), SECRET: self.secret}))

    @property
    def is_secret(self) -> bool:
        """Whether the values of a job are for operators only."""
        return bool(decode(self.meta).get(SECRET)) if self.secret is None else self.secret

    def new_job(self, task: str, text: str, arguments: Mapping[str, object], now: int) -> NewJob:
        """Return the job of a call of *task* at *now*: *text* is the call as JSON, *arguments* its values by name."""
        return NewJob(
            task,
            text,
            self.queue,
            self.tenant,
            self.id,
            self.priority,
            resolve(self.limits, arguments) if self.limits else (),
            self.cost if isinstance(self.cost, int) else self.cost(arguments),
            None if self.due is None else self.due.at(now),
            None if self.expires is None else self.expires.at(now),
            self.timeout,
            self.retry,
            None if self.unique is None else self.unique.of_call(task, arguments, self.quiet, self.max_wait),
            self.noted,
        )


class TaskArguments(Protocol):
    """What a task takes: the *names* of its arguments, and how a function for a key or a cost gets them."""

    @property
    def names(self) -> Collection[str]: ...

    def fitted(self, function: Callable[..., Any]) -> Callable[[Mapping[str, object]], Any]:
        """Return *function* so that it takes a call's arguments as a mapping.

        Raises `TypeError` if it cannot take them.
        """


def change(
    options: CheckedOptions, given: Mapping[str, Any], task: str, taken: TaskArguments
) -> CheckedOptions:
    """Return *options* changed by what is *given* for *task*, whose parameters are those *taken*.

    Raises `InvalidJobError` or `InvalidLimitError` for what can be seen to be wrong before any job exists.
    """
    if given.get("delay") is not None and given.get("due") is not None:
        raise InvalidJobError("due", "give a delay or a time, not both")
    changes: dict[str, Any] = {}
    for name, value in given.items():
        match name:
            case "limits":
                changes[name] = check_specs(value, taken.names, taken.fitted)
            case "cost":
                changes[name] = _cost(value, taken)
            case "unique":
                changes[name] = read_unique(value, task, taken.names)
            case "delay" | "due":
                changes["due"] = changes.get("due") if value is None else _when(name, value)
            case "connection":
                changes[name] = value
            case _ if name in _CLEARED and value is None:
                changes[name] = None
            case _ if name in _READERS:
                changes[name] = _READERS[name](name, value)
            case _:
                raise TypeError(f"{task}: there is no option {name!r}")
    changed = replace(options, **changes)
    if changed.quiet is not None or changed.max_wait is not None:
        _check_pause(changed)
    return changed


def _check_pause(options: CheckedOptions) -> None:
    name = "max_wait" if options.quiet is None else "quiet"
    if options.unique is None:
        raise InvalidJobError(name, "give unique as well: it says which calls are the same request")
    if options.due is not None:
        raise InvalidJobError(name, "excludes a delay and a due time; None clears what the task says")
    options.unique.with_pause(options.quiet, options.max_wait)


def _kept(check: Callable[[object], None]) -> Callable[[str, Any], object]:
    """Return what reads an option that stays as it is once it has passed *check*."""

    def read(_name: str, value: object) -> object:
        check(value)
        return value

    return read


def _cost(
    value: int | Callable[..., int], taken: TaskArguments
) -> int | Callable[[Mapping[str, object]], int]:
    if not callable(value):
        check_cost(value)
        return value
    try:
        return taken.fitted(value)
    except TypeError as error:
        raise InvalidJobError("cost", str(error)) from None


def _span(name: str, value: Duration) -> int:
    return parse_duration(value, name, error=InvalidJobError)


def _when(name: str, value: Duration | datetime) -> PointInTime:
    if not isinstance(value, datetime):
        return PointInTime(parse_duration(value, name, zero=True, error=InvalidJobError), from_now=True)
    if value.tzinfo is None:
        raise InvalidJobError(
            name, f"{value.isoformat()} has no time zone; write one, as in datetime.now(UTC)"
        )
    return PointInTime((value - _EPOCH) // _MICROSECOND, from_now=False)


def _retry(name: str, value: RetryOption) -> RetryPolicy:
    match value:
        case RetryPolicy():
            return value
        case Mapping():
            try:
                return RetryPolicy.of(**value)
            except TypeError as error:
                raise InvalidJobError(name, str(error)) from None
        case _:
            return RetryPolicy.of(attempts=value)


def _meta(name: str, value: Mapping[str, Any]) -> str:
    try:
        return encode(dict(value))
    except UNWRITABLE as error:
        raise InvalidJobError(name, f"cannot be written as JSON: {error}") from error


def _secret(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidJobError(name, f"{value!r} must be True or False")
    return value


_READERS: Final[dict[str, Callable[[str, Any], object]]] = {
    "queue": _kept(check_queue),
    "tenant": _kept(check_tenant),
    "priority": _kept(check_priority),
    "expires": _when,
    "timeout": _span,
    "quiet": _span,
    "max_wait": _span,
    "retry": _retry,
    "meta": _meta,
    "secret": _secret,
    "id": _kept(check_job_id),
}
