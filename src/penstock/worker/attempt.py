"""One attempt on its way through a worker, and what becomes known of it meanwhile.

Times here are microseconds since the machine was started, so that setting its clock does not matter; they
go on while the machine sleeps, as those of the store do.
"""

import asyncio
import ctypes
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.clock import MILLISECOND, Clock, since_boot
from penstock.job import Claimed, Settlement
from penstock.lifecycle.outcomes import Cancelled, HandedBack, Outcome
from penstock.worker.handler import Handler

if TYPE_CHECKING:
    from penstock.worker.relay import Relay

# How long a handler may take from its worker's look at the clock to its first line: it must have begun by what
# the gate remembers, which is `begin_by` at first and later what `began_after` reports.
BEGIN_MARGIN: Final = 5 * MILLISECOND
FIRST_LINE: Final = (
    MILLISECOND // 10
)  # how long a plain function has before another thread takes it for begun


class AttemptTimeout(BaseException):
    """Raised in the thread of a handler whose time is up."""


class HandBack(BaseException):
    """Raised in the thread of a handler whose worker must stop now."""


class Shift:
    """One run of a worker, as its attempts see it: *stopping* begins nothing more, *over* ends what runs.

    While it is *quiet* it claims nothing, and what it has claimed goes on.
    """

    __slots__ = ("clock", "note_progress", "note_spending", "over", "quiet", "stopping")

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.stopping = False
        self.quiet = False
        self.over = False
        self.note_progress: Callable[[Attempt], None] = lambda _: None
        self.note_spending: Callable[[Attempt], None] = lambda _: None

    @property
    def claims(self) -> bool:
        """Whether it takes more jobs."""
        return not self.stopping and not self.quiet


class Attempt:
    """A claimed job with its handler, leased at *renewed* for *lease*.

    *offset* is what to add to the engine's time to get the machine's own, or less; *latest* is that, or more.
    """

    __slots__ = (
        "_lock",
        "_struck",
        "_thread",
        "began",
        "begin_by",
        "begin_from",
        "begun_by",
        "cancel_asked",
        "claimed",
        "ended",
        "entered",
        "error",
        "finished",
        "handed_on",
        "handler",
        "late",
        "latest",
        "lease_end",
        "lost",
        "offset",
        "outcome",
        "overran",
        "progress",
        "relay",
        "renewed",
        "sent",
        "shift",
        "stands_until",
        "task",
        "timed_out",
        "timeout",
        "used",
    )

    def __init__(
        self,
        claimed: Claimed,
        handler: Handler,
        shift: Shift,
        *,
        offset: int,
        renewed: int,
        lease: int,
        latest: int = 0,
    ) -> None:
        self.claimed = claimed
        self.handler = handler
        self.shift = shift
        self.offset = offset
        self.latest = latest
        self.begin_by = claimed.begin_by + offset if claimed.begin_by else 0
        self.begin_from = (claimed.begin_from or claimed.started) + latest if claimed.begin_by else 0
        self.renewed = renewed
        self.lease_end = renewed + lease
        self.timeout = handler.timeout if claimed.timeout is None else claimed.timeout
        self.sent = 0  # when it could begin: given to the loop or to a thread, or the one before it in its relay ended
        self.began = 0
        self.begun_by = 0  # when the handler had begun for certain; 0 if that is not known yet
        self.entered = False
        self.ended = False
        self.finished = 0
        self.overran = False
        self.late = False
        self.lost = False
        self.cancel_asked = False
        self.timed_out = False
        self.outcome: Outcome | None = None
        self.error: BaseException | None = None
        self.progress: str | None = None
        self.relay: Relay | None = None  # in which it begins after another, or another after it
        self.stands_until = 0  # when it is handed back if it has not begun, because it stands by; else 0
        self.handed_on = False  # its place is another's now
        self.used: dict[str, int] | None = None  # of each key, as far as it is not reported yet
        self.task: asyncio.Task[None] | None = None
        self._lock: threading.Lock | None = None
        self._thread = 0
        self._struck = False

    def begin(self) -> bool:
        """Tell whether the handler may begin at this very moment, and if so remember it.

        Only for the thread that calls the handler next, with nothing in between.
        """
        if self.shift.stopping or self.lost or self.cancel_asked:
            return False
        now = since_boot()
        if self.begin_by and self.begin_from > self.begin_by - BEGIN_MARGIN:
            self.late = True  # put off for too long, or by a clock that was set
            return False
        while now < self.begin_from:
            now = since_boot()  # it was sent a little early
        if self.begin_by and now > self.begin_by - BEGIN_MARGIN:
            self.late = True
            return False
        if self.relay is not None and self.claimed.after and now > self.relay.begin_by:
            return False
        if now >= self.lease_end or (self.stands_until and now > self.stands_until):
            return False
        self.began = now
        return True

    @property
    def gates(self) -> list[str]:
        """Where its start is remembered."""
        return self.claimed.gates.split(",")

    @property
    def spaced(self) -> list[str]:
        """The gates at which it keeps its distance to the starts before it."""
        return self.claimed.spaced.split(",")

    def begun(self) -> int:
        """Return when the handler had begun for certain, the same ever after; 0 if that is not known yet.

        For other threads than the handler's: one of them comes to look only when that one has gone on.
        """
        if not self.begun_by and self.began:
            now, latest = since_boot(), self.began + BEGIN_MARGIN
            if self.ended:
                self.begun_by = min(self.finished, latest)
            elif now >= self.began + FIRST_LINE and not self.handler.is_async:
                self.begun_by = min(now, latest)
            elif now >= latest:
                self.begun_by = latest
        return self.begun_by

    def expected_after(self, planned: int) -> int:
        """Return how long after its claim a start is expected that is *planned* at a moment of this machine."""
        return planned - self.latest - self.claimed.started

    def began_after(self) -> int:
        """Return how long after its claim the handler had begun for certain, once that is known."""
        return self.begun() - self.offset - self.claimed.started

    def refusal(self) -> Outcome:
        """Return how an attempt ends that was not allowed to begin."""
        return Cancelled("cancelled before it began") if self.cancel_asked else HandedBack(begun=False)

    def end(self, outcome: Outcome) -> None:
        """Remember how the attempt ended."""
        self.finished = since_boot()
        self.outcome = outcome
        self.ended = True
        self.task = None

    def settlement(self) -> Settlement:
        """Return how this attempt ended."""
        began_after = None
        if self.began and self.begin_by:
            began_after = self.began_after()
        elif self.began and (self.relay is not None or self.stands_until):
            began_after = (
                self.began - self.offset - self.claimed.started
            )  # long after their claim, some of them
        seq, fence, outcome = self.claimed.seq, self.claimed.fence, self.outcome or self.refusal()
        return Settlement(seq, fence, outcome, began_after, used=self.used)

    @property
    def lease_lost(self) -> bool:
        """Whether the lease is known to be lost, or could not be renewed in time."""
        return self.lost or since_boot() >= self.lease_end

    @property
    def thread(self) -> int:
        """The thread that runs the handler, if it is a plain function; else 0."""
        return self._thread

    def interrupt(self) -> None:
        """Cancel the handler's task if it is under way; only for the thread of the event loop."""
        # A task cancelled before its first step would never come to report; `begin` refuses it instead.
        if self.task is not None and self.entered:
            self.task.cancel()

    def expose(self) -> None:
        """Let `strike` reach the calling thread from now on, until `shelter`."""
        self._thread = threading.get_ident()
        self._lock = threading.Lock()

    def strike(self, error: type[BaseException]) -> None:
        """Raise *error* in the thread of the handler if that still runs; only the first strike counts."""
        if self._lock is None:
            return
        with self._lock:
            if self._thread and not self._struck:
                self._struck = True
                self.timed_out = error is AttemptTimeout
                _raise_in(self._thread, error)

    def shelter(self) -> None:
        """Keep any further `strike` from the calling thread; one that is on its way may still surface here."""
        if self._lock is None:
            return
        with self._lock:
            thread, self._thread = self._thread, 0
            if self._struck:
                _raise_in(thread, None)


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if error is None else ctypes.py_object(error)
    )
