"""What one pass asks for: keys, counted by name, and commands for those that the memo does not have.

A key is the name of what is called and which call of that name it is, counted when it is called.  Each branch of a
`gather` or `first` counts for itself, so the order in which steps end changes no key.
"""

from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final

from penstock.errors import DivergedError, InvalidWorkflowError
from penstock.job import LEFT_BEHIND, Cancel, Command, Entry, EntryState, Note

MOST_STEPS: Final = 10_000


class Scope:
    """Counts the calls in a body, or in one branch of it.

    Once it is *shut*, as that of a branch that lost is, nothing is started that the memo does not have.
    """

    __slots__ = ("calls", "prefix", "shut")

    def __init__(self, prefix: str = "", *, shut: bool = False) -> None:
        self.prefix = prefix
        self.shut = shut
        self.calls: Counter[str] = Counter()


class Recorder:
    """One pass over the *entries* of a memo."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._memo = {entry.key: entry for entry in entries}
        self._asked: dict[str, None] = {}
        self._started: dict[str, Command] = {}
        self._known: dict[str, Entry] = {}  # what this pass itself brought about
        self._cancelled: list[Cancel] = []
        self._unawaited: dict[str, None] = {}
        self._scope = Scope()
        self._coroutines: list[Coroutine[Any, Any, Any]] = []
        self._over = False

    @property
    def scope(self) -> Scope:
        """Where calls are counted now."""
        return self._scope

    @contextmanager
    def within(self, scope: Scope) -> Iterator[None]:
        """Count calls in *scope* for a while."""
        before, self._scope = self._scope, scope
        try:
            yield
        finally:
            self._scope = before

    def count(self, name: str) -> str:
        """Return the key of the next call of *name*."""
        if self._over:
            # The body is being left where it waits, and what stands in its `finally` is not meant.
            raise GeneratorExit
        scope = self._scope
        while True:
            number = scope.calls[name]
            scope.calls[name] += 1
            key = f"{scope.prefix}{name}#{number}" if number else f"{scope.prefix}{name}"
            if key not in self._asked:
                return key

    def ask(self, name: str, command: Callable[[str], Command]) -> str:
        """Return the key of this call of *name*; have its *command* carried out if the memo does not have it."""
        key = self.count(name)
        self._ask(key)
        if key not in self._memo and not self._scope.shut:
            self._started[key] = command(key)
        self._unawaited[key] = None
        return key

    def entry(self, key: str) -> Entry | None:
        """Return what is known of a key, or None."""
        return self._known.get(key) or self._memo.get(key)

    def noted(self, key: str) -> str | None:
        """Return the value that was noted under *key*, or None."""
        self._ask(key)
        entry = self._memo.get(key)
        return None if entry is None else entry.result

    def note(self, key: str, value: str) -> None:
        """Have *value* remembered under *key*."""
        self._started[key] = Note(key, value)

    def awaited(self, key: str) -> None:
        """Take note that the body waits for this key."""
        self._unawaited.pop(key, None)

    def cancel(self, key: str, signal: str | None = None) -> None:
        """Let a step, which may wait for a *signal*, count as cancelled even if it ended; have it ended if it lives."""
        if self._started.pop(key, None) is None and self._lives(key):
            self._cancelled.append(Cancel(key, signal))
        self._known[key] = Entry(key, EntryState.CANCELLED)
        self.awaited(key)

    @property
    def any_cancelled(self) -> bool:
        """Whether this pass gave up anything that the memo has."""
        return bool(self._cancelled)

    def start_nothing(self) -> None:
        """Keep the notes of this pass and start nothing: the instance ends."""
        self._started = {key: each for key, each in self._started.items() if isinstance(each, Note)}

    def commands(self) -> list[Command]:
        """Return the commands of this pass.

        Raises `DivergedError` if the memo has a step that the body did not ask for.
        """
        missed = next((key for key, entry in self._memo.items() if self._must_be_asked_for(entry)), None)
        if missed is not None:
            raise DivergedError(missed, next((key for key in self._asked if key not in self._memo), None))
        # In this order, so that a signal that is given back is there for the wait that follows.
        return [*self._cancelled, *self._started.values()]

    def check_awaited(self) -> None:
        """Raise if a step was called and not waited for."""
        if self._unawaited:
            key = next(iter(self._unawaited))
            raise InvalidWorkflowError(
                "steps",
                f"{key} was called and never awaited; write `await`, or hand it to `gather` or `first`",
            )

    def drives(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Take note of a coroutine, to be closed when the pass is over."""
        self._coroutines.append(coroutine)

    def close(self) -> None:
        """Leave every coroutine where it waits; what stands in its `finally` asks for nothing any more."""
        self._over = True
        for coroutine in reversed(self._coroutines):
            # Whatever it does now does not count.
            with suppress(BaseException):
                coroutine.close()

    def _ask(self, key: str) -> None:
        if len(self._asked) >= MOST_STEPS:
            raise InvalidWorkflowError(
                "steps",
                f"an instance has at most {MOST_STEPS:,}; end this one with `return Restart(...)` before that, "
                "or move some of them to a workflow of their own",
            )
        self._asked[key] = None

    def _must_be_asked_for(self, entry: Entry) -> bool:
        """Tell whether a body that fits its memo would have asked for this entry, and did not."""
        return entry.key not in self._asked and entry.frame != LEFT_BEHIND

    def _lives(self, key: str) -> bool:
        entry = self._known.get(key) or self._memo.get(key)
        return entry is not None and entry.state is EntryState.LIVE


CURRENT: Final[ContextVar[Recorder]] = ContextVar("penstock-pass")


def current(what: str) -> Recorder:
    """Return the pass in which *what* was called; raise if that is not in the body of a workflow."""
    recorder = CURRENT.get(None)
    if recorder is None:
        raise InvalidWorkflowError(
            "workflow", f"{what} belongs in the body of a workflow, an `async def` under @app.workflow"
        )
    return recorder
