"""Can the commands of a conductor be written down?

A command that could not be stored would fail the transaction that settles the attempt, and with it the settlements
of others, again and again.  So the instance that asks for it fails, or its step.
"""

from typing import Final

from penstock.engine.enqueue import check_text
from penstock.errors import InvalidError
from penstock.job import Command, Finish, Note, Restart, Save, SetContext
from penstock.lifecycle.states import State
from penstock.limits.gate import ON_RELEASE
from penstock.names import name_problem

MAX_KEY: Final = 2_000  # bytes in UTF-8: an index of PostgreSQL takes no more than 2,700
_ENDS: Final = (State.DONE, State.FAILED, State.CANCELLED)


def check_command(command: Command) -> None:
    """Raise unless the key and the texts of a command can be stored, and a state is one of an end."""
    match command:
        case Finish(state, result, error):
            if state not in _ENDS:
                raise InvalidError("state", f"an instance cannot end as {state.value}")
            _check_texts(result=result, error=error)
        case Restart(args):
            _check_texts(args=args)
        case SetContext(context):
            _check_texts(context=context)
        case Save(entry):
            _check_key(entry.key)
            _check_texts(result=entry.result, error=entry.error, frame=entry.frame)
        case Note(key, value):
            _check_key(key)
            _check_texts(note=value)
        case _:
            _check_key(command.key)


def moment_of(field: str, now: int, at: int | None, after: int | None) -> int:
    """Return the moment *at* which, or *after* how long from *now*, something is over; raise unless one is given."""
    if (at is None) == (after is None):
        raise InvalidError(field, "give either a moment or a span")
    moment = at if at is not None else now + (after or 0)
    if not 0 <= moment < ON_RELEASE:
        raise InvalidError(field, f"{moment} is no moment that can be waited for")
    return moment


def check_signal_name(name: str) -> None:
    """Raise unless a signal can have that name."""
    if (problem := name_problem(name)) is not None:
        raise InvalidError("name", problem)


def _check_key(key: str) -> None:
    if (problem := name_problem(key, MAX_KEY)) is not None:
        raise InvalidError("key", problem)


def _check_texts(**texts: str | None) -> None:
    for field, text in texts.items():
        if text is not None:
            check_text(field, text)
