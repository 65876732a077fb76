"""One pass: read what an instance remembers, replay its body over it, and return the commands."""

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from penstock.app.backend import AnyEngine
from penstock.app.codec import UNWRITABLE, encode
from penstock.app.parameters import Parameters
from penstock.clock import SECOND, Clock
from penstock.engine.wording import error_text
from penstock.errors import DivergedError
from penstock.job import PASS_OF, Command, Finish, Memo
from penstock.job import Restart as RestartCommand
from penstock.lifecycle.outcomes import Conducted, Failed, HandedBack, Outcome
from penstock.lifecycle.states import State
from penstock.names import one_line
from penstock.replay import Ended, Raised, Restart, replay
from penstock.worker import Cancel, current_job
from penstock.worker.context import CURRENT
from penstock.worker.failure import failure, trimmed
from penstock.worker.handler_outcomes import HandlerOutcome

Body = Callable[..., Coroutine[Any, Any, object]]

# How long an instance is left alone that this worker cannot move on: until another does, or after a deploy.
DIVERGED_PAUSE: Final = 30 * SECOND
UNKNOWN_PAUSE: Final = 10 * SECOND
MOST_RESULT: Final = 1024 * 1024

log = logging.getLogger("penstock.jobs")


class UnknownStep(BaseException):
    """This worker does not know a task that the workflow names; another may."""


class _Answer(HandlerOutcome):
    """What a pass asks for."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self._outcome = outcome

    def outcome(self, clock: Clock) -> Outcome:  # noqa: ARG002 - no time is in it
        return self._outcome


class Passing:
    """Passes over the instances of the workflow called *name*."""

    def __init__(self, name: str, body: Body, parameters: Parameters) -> None:
        self._name = name
        self._body = body
        self._parameters = parameters

    def conduct(self, engine: AnyEngine) -> HandlerOutcome:
        """Make the pass that the current job is, and return its outcome."""
        job = current_job()
        instance = job.meta.get(PASS_OF)
        if not isinstance(instance, str):
            problem = f"{self._name} is a workflow and is started, not enqueued: {self._name}.start(...)"
            return _Answer(Failed("InvalidWorkflowError", problem, final=True))
        memo = engine.memo(instance, job.tenant)
        try:
            return _Answer(Conducted(self.commands(memo), memo.version))
        except DivergedError as error:
            log.error("%s %s: %s", self._name, one_line(instance), error)  # noqa: TRY400 - it says where
            return _Answer(HandedBack(begun=True, after=DIVERGED_PAUSE, reason=str(error)))
        except UnknownStep as error:
            return _Answer(HandedBack(begun=True, after=UNKNOWN_PAUSE, reason=str(error)))

    def commands(self, memo: Memo) -> tuple[Command, ...]:
        """Return what follows from a memo."""

        async def body() -> object:
            args, kwargs = self._parameters.decode(memo.args)
            return await self._body(*args, **kwargs)

        return replay(body, memo.entries, self._end)

    def _end(self, ended: Ended) -> Command:
        came_to = ended.error if isinstance(ended, Raised) else ended.value
        match came_to:
            case Restart():
                return self._restart(came_to)
            case Cancel():
                return Finish(State.CANCELLED, error=error_text(Failed("Cancel", came_to.reason)))
            case UnknownStep():
                raise came_to
            case _ if isinstance(ended, Raised):
                return self._failed(ended.error)
            case _:
                return self._done(came_to)

    def _restart(self, asked: Restart) -> Command:
        try:
            self._parameters.bind(asked.args, asked.kwargs)
            return RestartCommand(self._parameters.encode(asked.args, asked.kwargs))
        except Exception as error:  # noqa: BLE001 - arguments that do not fit
            return self._failed(error)

    def _done(self, value: object) -> Command:
        try:
            text = encode(value)
        except UNWRITABLE as error:
            problem = f"{self._name} returned a {type(value).__name__} that has no JSON form: {error}"
            return Finish(State.FAILED, error=error_text(Failed("ResultNotJSON", problem)))
        if len(text) > MOST_RESULT:
            problem = (
                f"{self._name} returned {len(text):,} characters of JSON, and at most {MOST_RESULT:,} may be"
            )
            return Finish(State.FAILED, error=error_text(Failed("ResultTooLarge", problem)))
        return Finish(State.DONE, text)

    def _failed(self, error: BaseException) -> Command:
        attempt = CURRENT.get(None)
        if attempt is not None:
            attempt.error = trimmed(error)
        return Finish(State.FAILED, error=error_text(failure(error)))
