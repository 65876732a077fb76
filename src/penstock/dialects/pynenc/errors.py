"""The errors of pynenc."""

import builtins

from penstock.errors import ConflictError, InvalidJobError


class RetryError(Exception):
    """Raised by a task to run once more."""


class InvalidTaskOptionsError(InvalidJobError):
    """A task was declared with options that cannot be kept."""

    def __init__(self, task_id: str, problem: str) -> None:
        super().__init__(task_id, problem)
        self.task_id = task_id


class InvocationConcurrencyWithDifferentArgumentsError(ConflictError):
    """An earlier call stands for this one, with other arguments."""

    def __init__(self, task_id: str, existing_invocation_id: str, new_call_id: str, diff: str) -> None:
        super().__init__(
            f"{task_id}: invocation {existing_invocation_id} stands for this call, but differs\n{diff}"
        )
        self.task_id = task_id
        self.existing_invocation_id = existing_invocation_id
        self.new_call_id = new_call_id
        self.diff = diff


def original(kind: str, message: str) -> Exception | None:
    """Return the error a task raised if it is a built-in one, else None."""
    known = RetryError if kind == RetryError.__name__ else getattr(builtins, kind, None)
    if not (isinstance(known, type) and issubclass(known, Exception)):
        return None
    try:
        return known(message)
    except TypeError:
        # Some built-in errors are made of more than a message.
        return None
