"""Stop calling a backend that keeps failing; later, try it with a few calls."""

from collections import deque
from collections.abc import Callable
from typing import Any, Literal, Self

from penstock.clock import SECOND
from penstock.limits.durations import Duration
from penstock.policies import clock
from penstock.policies.errors import AttemptTimeout, CircuitOpen, InvalidPolicyError
from penstock.policies.events import Counters, Listener, Listeners, Stats
from penstock.policies.options import whole
from penstock.policies.process_lock import lock
from penstock.policies.wrapper import Entered, Wrapper

State = Literal["closed", "open", "half_open"]


class Breaker(Wrapper):
    """Opens after *failures* within *window*; after *cooldown* lets *probes* through, and closes if they succeed.

    A probe that has not ended after *probe_timeout* (the cooldown, unless told otherwise) counts as failed, and
    its end counts for nothing.  No lock is held during a call.
    """

    def __init__(
        self,
        failures: int = 5,
        *,
        window: Duration = 60,
        cooldown: Duration = 30,
        probes: int = 1,
        probe_timeout: Duration | None = None,
        is_failure: Callable[[BaseException], bool] | None = None,
        fallback: Callable[..., Any] | None = None,
        name: str | None = None,
        on_event: Listeners = None,
    ) -> None:
        self._threshold = whole("failures", failures)
        self._window = clock.span(window, "window")
        self._cooldown = clock.span(cooldown, "cooldown")
        self._probes = whole("probes", probes)
        self._patience = (
            self._cooldown if probe_timeout is None else clock.span(probe_timeout, "probe_timeout")
        )
        if fallback is not None and not callable(fallback):
            raise InvalidPolicyError("fallback", f"{fallback!r} must be a function of the call's arguments")
        self._is_failure = is_failure
        self._fallback = fallback
        self._failed: deque[int] = deque()
        self._state: State = "closed"
        self._until = 0  # open until then; half open: a probe may take until then
        self._epoch = 0
        self._out = 0
        self._good = 0
        self._entered: Entered[int] = Entered()
        self._counters = Counters(name or "breaker", on_event)

    @property
    def name(self) -> str:
        return self._counters.name

    @property
    def state(self) -> State:
        """Its state; what the clock alone changes shows at the next call."""
        return self._state

    def __enter__(self) -> Self:
        self._entered.push(self.admit())
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self.settle(self._entered.pop(), error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self.settle(self._entered.pop(), error)

    def listen(self, listener: Listener) -> None:
        """Tell *listener* of every event from now on."""
        self._counters.listeners.append(listener)

    def stats(self) -> Stats:
        """Return a snapshot: calls under way, and what happened so far."""
        return self._counters.stats(self._threshold, self._out)

    def admit(self) -> int:
        """Let a call through and return the epoch it belongs to, or raise `CircuitOpen`."""
        if self._state == "closed":
            self._counters.acquired += 1
            return self._epoch
        with lock, lock.mutex:
            now = clock.now()
            if now >= self._until:
                # Probes of an earlier epoch are not waited for any longer.
                self._move("half_open", now + self._patience)
            if (self._state == "half_open" and self._out >= self._probes) or self._state == "open":
                self._counters.rejected[self._state] += 1
                self._tell("rejected", self._state)
                raise CircuitOpen(self.name, self._state, max(self._until - now, 0) / SECOND)
            self._out += self._state == "half_open"
            self._counters.acquired += 1
            return self._epoch

    def settle(self, epoch: int, error: BaseException | None) -> None:
        """Note how a call of *epoch* ended."""
        if error is None and self._state == "closed":
            return
        failed = error is not None and self._counts(error)
        with lock, lock.mutex:
            # What began before the last change says nothing about what is now.
            if epoch != self._epoch:
                return
            now = clock.now()
            if self._state == "closed":
                if failed:
                    self._fail(now)
            elif failed:
                self._move("open", now + self._cooldown)
            elif error is not None:
                self._out -= 1
            else:
                self._good += 1
                if self._good >= self._probes:
                    self._move("closed", 0)

    def _fail(self, now: int) -> None:
        self._failed.append(now)
        while self._failed[0] <= now - self._window:
            self._failed.popleft()
        if len(self._failed) >= self._threshold:
            self._move("open", now + self._cooldown)

    def _move(self, state: State, until: int) -> None:
        self._state = state
        self._until = until
        self._epoch += 1
        self._out = self._good = 0
        self._failed.clear()
        self._tell("opened" if state == "open" else state)

    def _tell(self, kind: Any, reason: str | None = None) -> None:
        if self._counters.listeners:
            self._counters.tell(kind, None, self._out, 0, reason=reason)

    def _counts(self, error: BaseException) -> bool:
        if self._is_failure is None:
            return isinstance(error, AttemptTimeout) or (
                isinstance(error, Exception) and getattr(error, "retryable", True)
            )
        try:
            return self._is_failure(error)
        except Exception:  # noqa: BLE001 - a function that fails says nothing about the backend
            return True

    def _around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                epoch = self.admit()
            except CircuitOpen:
                if self._fallback is None:
                    raise
                return self._fallback(*args, **kwargs)
            try:
                result = function(*args, **kwargs)
            except BaseException as error:
                self.settle(epoch, error)
                raise
            self.settle(epoch, None)
            return result

        return guarded

    def _around_async(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                epoch = self.admit()
            except CircuitOpen:
                if self._fallback is None:
                    raise
                answer = self._fallback(*args, **kwargs)
                return await answer if hasattr(answer, "__await__") else answer
            try:
                result = await function(*args, **kwargs)
            except BaseException as error:
                self.settle(epoch, error)
                raise
            self.settle(epoch, None)
            return result

        return guarded
