"""Is this the same request again?

Pure: the window's end and the present are arguments.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

import msgspec

from penstock.errors import InvalidJobError
from penstock.lifecycle.checks import MAX_NUMBER, check_known, check_whole, choose
from penstock.lifecycle.states import LIVE, State
from penstock.names import MAX_NAME, name_problem

MAX_UNIQUE_KEY: Final = MAX_NAME + 64  # bytes: the longest name of a task, and a digest
_DIGEST: Final = 32
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class OnDuplicate(StrEnum):
    REUSE = "reuse"
    REJECT = "reject"
    REPLACE = "replace"


class UniqueBy(StrEnum):
    """What makes two requests the same."""

    TASK = "task"
    ARGUMENTS = "arguments"
    CHOSEN = "chosen"
    KEY = "key"


@dataclass(frozen=True, slots=True)
class Unique:
    """*key* stands for one job while that job is in one of *states*, or for *window* microseconds.

    With *quiet* the job waits until no call of the key has come for so many microseconds, but for no longer than
    *max_wait* after the first of them.
    """

    key: str
    states: frozenset[State] = LIVE
    window: int | None = None
    on_duplicate: OnDuplicate = OnDuplicate.REUSE
    quiet: int | None = None
    max_wait: int | None = None

    def __post_init__(self) -> None:
        _check_key(self.key)
        states = self.states if self.states is LIVE else _states(self.states)
        if not states and self.window is None:
            raise InvalidJobError("states", "name at least one state, or give a window")
        if self.window is not None:
            check_whole("window", self.window, 1, MAX_NUMBER)
        # A frozen dataclass is filled in this way.
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "on_duplicate", choose("on_duplicate", OnDuplicate, self.on_duplicate))
        if self.quiet is not None or self.max_wait is not None:
            self._check_pause()

    @property
    def pause(self) -> tuple[int, int | None] | None:
        """For how long no call may come before the job starts, and how long it waits for that at most."""
        return None if self.quiet is None else (self.quiet, self.max_wait)

    def _check_pause(self) -> None:
        if self.quiet is None:
            raise InvalidJobError("max_wait", "bounds how long a job waits for a pause: give quiet as well")
        check_whole("quiet", self.quiet, 1, MAX_NUMBER)
        if self.max_wait is not None:
            check_whole("max_wait", self.max_wait, 1, MAX_NUMBER)
            if self.max_wait < self.quiet:
                raise InvalidJobError("max_wait", "must not be shorter than quiet")
        if self.on_duplicate is not OnDuplicate.REPLACE:
            raise InvalidJobError(
                "quiet",
                f"the latest call wins: on_duplicate must be 'replace', not {self.on_duplicate.value!r}",
            )
        if self.window is not None or self.states != LIVE:
            raise InvalidJobError(
                "quiet",
                "a job that waits for a pause counts until it has ended: give no window, and no states",
            )


def pause_ends(called: int, quiet: int, max_wait: int | None, since: int) -> int:
    """Return when a job may start whose latest call came at *called*, and whose first call at *since*."""
    return called + quiet if max_wait is None else min(called + quiet, since + max_wait)


def unique_key(
    task: str,
    scope: UniqueBy,
    arguments: Mapping[str, object],
    chosen: Collection[str] = (),
    key: str = "",
) -> str:
    """Return the key that stands for one call of *task*: readable, and no longer than a task's name allows.

    *chosen* are the arguments that count when *scope* is `CHOSEN`; *key* is used as it is when it is `KEY`.
    """
    match scope:
        case UniqueBy.TASK:
            return task
        case UniqueBy.ARGUMENTS:
            return f"{task}:{_digest(arguments)}"
        case UniqueBy.CHOSEN:
            return f"{task}:{_digest({name: arguments[name] for name in chosen})}"
        case UniqueBy.KEY:
            return key
        case _:
            assert_never(scope)


def check_chosen(chosen: Iterable[str], parameter_names: Iterable[str]) -> None:
    """Raise unless a task with *parameter_names* can be unique by its *chosen* arguments."""
    names = tuple(chosen)
    if not names:
        raise InvalidJobError("unique", "name at least one argument")
    check_known("unique", names, parameter_names)


def holds(unique_states: Collection[State], window_until: int | None, state: State, now: int) -> bool:
    """Tell whether a job in *state* still stands for its key.

    With a window it does until the window ends, whatever its state; without, while in one of the states.
    """
    return state in unique_states if window_until is None else now < window_until


def _digest(arguments: Mapping[str, object]) -> str:
    try:
        text = _encode(dict(arguments))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidJobError("unique", f"the arguments cannot be written as JSON: {error}") from error
    return hashlib.sha256(text).hexdigest()[:_DIGEST]


def _states(states: Iterable[str]) -> frozenset[State]:
    return frozenset(choose("states", State, state) for state in states)


def _check_key(key: object) -> None:
    if (problem := name_problem(key, MAX_UNIQUE_KEY)) is not None:
        raise InvalidJobError("unique", problem)
