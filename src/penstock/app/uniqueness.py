"""When is a call the same request again?

Users write `unique=True` (the same arguments), `unique=["account_id"]` (these arguments),
`unique="refresh:{account_id}"` (a text made of arguments), a `Unique` whose key is such a text, or a
mapping with any of the first three as *by*, and *states*, *window* or *on_duplicate*.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import InvalidError, InvalidJobError
from penstock.lifecycle.states import LIVE
from penstock.lifecycle.unique import OnDuplicate, Unique, UniqueBy, check_chosen, unique_key
from penstock.limits.durations import parse_duration
from penstock.limits.template import Template, check_template, parse_template

UniqueOption = bool | str | Sequence[str] | Unique | Mapping[str, Any] | None

_SETTINGS: Final = {"by", "states", "window", "on_duplicate"}


@dataclass(frozen=True, slots=True)
class Uniqueness:
    """How the unique key of a call is made, and what else its `Unique` says."""

    by: UniqueBy
    chosen: tuple[str, ...]
    template: Template | None
    unique: Unique
    decided: bool  # whether it was said what becomes of duplicates

    def of_call(
        self, task: str, arguments: Mapping[str, object], quiet: int | None, max_wait: int | None
    ) -> Unique:
        """Return what stands for this call of *task*, which waits for a pause in the calls if *quiet* is given."""
        key = _filled(self.template, arguments) if self.template else ""
        return self.with_pause(quiet, max_wait, unique_key(task, self.by, arguments, self.chosen, key))

    def with_pause(self, quiet: int | None, max_wait: int | None, key: str = "any") -> Unique:
        """Return what stands for a call of this *key*: with a pause the latest wins, unless it was said otherwise."""
        unique = self.unique
        latest = quiet is not None and not self.decided
        return Unique(
            key,
            unique.states,
            unique.window,
            OnDuplicate.REPLACE if latest else unique.on_duplicate,
            unique.quiet if quiet is None else quiet,
            unique.max_wait if max_wait is None else max_wait,
        )


def read_unique(value: UniqueOption, task: str, names: Collection[str]) -> Uniqueness | None:
    """Return what the option *unique* of *task* comes to, or raise `InvalidJobError`."""
    match value:
        case None | False:
            return None
        case Unique():
            return _by_text(value.key, names, value, decided=value.on_duplicate is not OnDuplicate.REUSE)
        case Mapping():
            settings, decided = _settings(value), "on_duplicate" in value
            return _by(value.get("by", True), task, names, settings, decided=decided)
        case _:
            return _by(value, task, names, Unique("any"), decided=False)


def _by(value: object, task: str, names: Collection[str], unique: Unique, *, decided: bool) -> Uniqueness:
    match value:
        case True:
            return Uniqueness(UniqueBy.ARGUMENTS, (), None, unique, decided)
        case str() if value in names:
            raise InvalidJobError("unique", f"{value!r} is an argument; write [{value!r}] or '{{{value}}}'")
        case str():
            # Two tasks that use the same words must not take each other's jobs for their own.
            return _by_text(f"{_escaped(task)}:{value}", names, unique, decided=decided)
        case [*several]:
            chosen = [name for name in several if isinstance(name, str)]
            check_chosen(chosen, names)
            return Uniqueness(UniqueBy.CHOSEN, tuple(chosen), None, unique, decided)
        case _:
            problem = (
                f"{value!r} must be True, the names of arguments, or text such as 'refresh:{{account_id}}'"
            )
            raise InvalidJobError("unique", problem)


def _by_text(text: str, names: Collection[str], unique: Unique, *, decided: bool) -> Uniqueness:
    try:
        check_template(text, names)
        return Uniqueness(UniqueBy.KEY, (), parse_template(text), unique, decided)
    except InvalidError as error:
        raise InvalidJobError("unique", error.problem) from None


def _filled(template: Template, arguments: Mapping[str, object]) -> str:
    try:
        return template.fill(arguments, instead="list the arguments that count, of which one may be None")
    except InvalidError as error:
        raise InvalidJobError("unique", error.problem) from error


def _settings(value: Mapping[str, Any]) -> Unique:
    unknown = value.keys() - _SETTINGS
    if unknown:
        problem = (
            f"{', '.join(map(repr, sorted(unknown)))} is unknown; it knows: {', '.join(sorted(_SETTINGS))}"
        )
        raise InvalidJobError("unique", problem)
    window = value.get("window")
    return Unique(
        "any",
        frozenset(value.get("states", LIVE)),
        None if window is None else parse_duration(window, "window", error=InvalidJobError),
        value.get("on_duplicate", OnDuplicate.REUSE),
    )


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
