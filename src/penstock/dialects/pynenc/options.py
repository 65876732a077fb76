"""The options of a task, and what they mean in penstock's words."""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final, Self

import msgspec

from penstock.app.options import TaskOptions
from penstock.app.parameters import Parameters
from penstock.dialects.pynenc.errors import InvalidTaskOptionsError
from penstock.errors import InvalidJobError
from penstock.lifecycle.checks import check_known, check_whole
from penstock.lifecycle.retry import MAX_ATTEMPTS
from penstock.limits.rules import OnLimit
from penstock.limits.spec import Concurrency

# A text that is unambiguous without its quotes.
# A key that is longer, or has white space or control characters, is a digest.
_PLAIN: Final = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,256}")
_QUEUE: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._:-]{0,254}")
_WORD: Final = re.compile(r'"(?!(?:true|false|null)")([A-Za-z][A-Za-z0-9_.@-]*)"')
# The task itself says which errors are worth another attempt (see `retrying`), so any other is final.
_RETRY_AT_ONCE: Final = {"backoff": "fixed", "delay": 0, "jitter": False, "never": ["BaseException"]}
# Equal values, equal text.
canonical: Final = msgspec.json.Encoder(order="deterministic").encode


class ConcurrencyControlType(StrEnum):
    """What counts as the same: nothing, the task, all its arguments, or its key arguments."""

    DISABLED = "disabled"
    TASK = "task"
    ARGUMENTS = "arguments"
    KEYS = "keys"


Mode = ConcurrencyControlType


@dataclass(frozen=True, slots=True)
class PynencOptions:
    """The options of `@app.task`, with pynenc's defaults.

    *parallel_batch_size* and *disable_cache_args* change nothing here: a batch is one transaction, and
    arguments are not cached.
    """

    running_concurrency: Mode = Mode.DISABLED
    registration_concurrency: Mode = Mode.DISABLED
    key_arguments: tuple[str, ...] = ()
    reroute_on_concurrency_control: bool = False
    on_diff_non_key_args_raise: bool = False
    max_retries: int = 0
    retry_for: tuple[type[Exception], ...] = ()
    queue: str = "default"
    priority: int = 0
    parallel_batch_size: int = 100
    disable_cache_args: tuple[str, ...] = ()

    @classmethod
    def of(cls, task: str, given: Mapping[str, Any], parameters: frozenset[str]) -> Self:
        """Return the options *given* for *task*, or raise for what cannot be kept."""
        try:
            return cls._checked(given, parameters)
        except InvalidJobError as error:
            raise InvalidTaskOptionsError(task, str(error)) from None

    @classmethod
    def _checked(cls, given: Mapping[str, Any], parameters: frozenset[str]) -> Self:
        known = [each.name for each in fields(cls)]
        for name in given:
            if name not in known:
                raise InvalidJobError(name, f"there is no such option; the options are: {', '.join(known)}")
        options = cls(**given)
        options = replace(
            options,
            running_concurrency=read_mode("running_concurrency", options.running_concurrency),
            registration_concurrency=read_mode("registration_concurrency", options.registration_concurrency),
            key_arguments=_listed(options.key_arguments),
            retry_for=_errors(options.retry_for),
        )
        check_known("key_arguments", options.key_arguments, parameters)
        check_whole("max_retries", options.max_retries, 0, MAX_ATTEMPTS - 1)
        if not _QUEUE.fullmatch(str(options.queue)):
            how = "letters, digits and . _ : - and begin with a letter or a digit, at most 255 characters"
            raise InvalidJobError("queue", f"{options.queue!r} must be {how}")
        if (
            Mode.KEYS in {options.running_concurrency, options.registration_concurrency}
            and not options.key_arguments
        ):
            raise InvalidJobError("key_arguments", "KEYS needs to know which arguments make the key")
        return options


def read_mode(field: str, value: Mode | str) -> Mode:
    """Return the mode that *value* names, in capitals or not."""
    try:
        return Mode(str(value).lower())
    except ValueError:
        raise InvalidJobError(field, f"{value!r} must be one of: {', '.join(Mode)}") from None


def translate(options: PynencOptions, task: str, parameters: Parameters) -> TaskOptions:
    """Return *options* in penstock's words."""
    translated: TaskOptions = {"queue": options.queue, "priority": options.priority}
    running = _counted(options.running_concurrency, options, parameters)
    if running is not None:
        on_limit = OnLimit.WAIT if options.reroute_on_concurrency_control else OnLimit.DROP
        translated["limits"] = [
            Concurrency(1, key=_key_of_call(task, parameters, running), on_limit=on_limit)
        ]
    registered = _counted(options.registration_concurrency, options, parameters)
    if registered is not None:
        translated["unique"] = registered or "any"
    if options.max_retries:
        translated["retry"] = _RETRY_AT_ONCE | {"attempts": options.max_retries + 1}
    return translated


def gate_key(task: str, arguments: Mapping[str, object]) -> str:
    """Return the gate's key for *arguments* of *task*: readable if they are simple, else a digest.

    Different arguments never give the same key.
    """
    shown = ",".join(f"{name}={_shown(value)}" for name, value in arguments.items())
    key = f"pynenc:{task}:{shown}" if shown else f"pynenc:{task}"
    digest = hashlib.sha256(key.encode()).hexdigest()[:32]
    return next(filter(_PLAIN.fullmatch, (key, f"pynenc:{task}#{digest}", f"pynenc:#{digest}")))


def _counted(mode: Mode, options: PynencOptions, parameters: Parameters) -> tuple[str, ...] | None:
    """Return the arguments that count in *mode*, or None if nothing does."""
    match mode:
        case Mode.DISABLED:
            return None
        case Mode.TASK:
            return ()
        case Mode.ARGUMENTS:
            return tuple(sorted(parameters.names))
        case Mode.KEYS:
            return options.key_arguments


def _key_of_call(task: str, parameters: Parameters, names: tuple[str, ...]) -> Callable[..., str]:
    def key(*args: object, **kwargs: object) -> str:
        arguments = parameters.bind(args, kwargs)
        return gate_key(task, {name: arguments[name] for name in names})

    return key


def _shown(value: object) -> str:
    text = canonical(value).decode()
    word = _WORD.fullmatch(text)
    return word[1] if word else text


def _listed(names: object) -> tuple[str, ...]:
    match names:
        case str():
            return (names,)
        case [*several]:
            return tuple(map(str, several))
        case _:
            raise InvalidJobError("key_arguments", f"{names!r} must be the names of arguments")


def _errors(kinds: object) -> tuple[type[Exception], ...]:
    several = kinds if isinstance(kinds, tuple | list) else (kinds,)
    if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in several):
        raise InvalidJobError("retry_for", f"{kinds!r} must be classes of errors")
    return tuple(several)
