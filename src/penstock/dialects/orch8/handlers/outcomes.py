"""How the server's own handlers end a step that neither succeeds nor raises."""

from penstock.clock import Clock
from penstock.lifecycle.outcomes import Failed, Outcome
from penstock.worker.handler_outcomes import HandlerOutcome


class StepFailed(HandlerOutcome):
    """The step failed, with an error of that *kind*; *final* allows no other attempt."""

    def __init__(self, kind: str, message: str, *, final: bool) -> None:
        super().__init__(message)
        self._kind = kind
        self._final = final

    def outcome(self, clock: Clock) -> Outcome:  # noqa: ARG002 - it ends now
        return Failed(self._kind, self.reason, ancestry=(self._kind,), final=self._final)
