"""Come in, wait, or go away: what becomes of a call at a limit."""

from abc import abstractmethod
from asyncio import AbstractEventLoop
from collections.abc import Hashable
from typing import Any, ClassVar, Final

from penstock.policies import deadline, moment
from penstock.policies.deadline import NEVER
from penstock.policies.errors import LimitExceeded
from penstock.policies.guard import everyone, guard
from penstock.policies.ledger import Ledger, Stats
from penstock.policies.limiter import Limiter, advance, expire
from penstock.policies.line import Line
from penstock.policies.options import Options
from penstock.policies.overload import SHARE, CoDel, Holds
from penstock.policies.waiter import Waiter, myself
from penstock.policies.waiting import block, wait

_SECOND: Final = 1_000_000


class Queueing(Limiter):
    """A limit at which one can wait, be refused, and be counted."""

    error: ClassVar[type[LimitExceeded]] = LimitExceeded

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self.ledger = Ledger(options.name, options.on_event, options.scope)
        self.holds = Holds()
        self.token = object()  # another one after a fork
        self.closed = False
        self.spare: list[object] = []

    @abstractmethod
    def limit(self, key: Hashable) -> int:
        """Return how many of *key* are allowed."""

    @abstractmethod
    def in_use(self, key: Hashable) -> int:
        """Return how many of *key* there are."""

    @abstractmethod
    def stats(self) -> Stats:
        """Return how things stand."""

    @abstractmethod
    def known(self, key: Hashable) -> bool:
        """Tell whether anything is remembered for *key*."""

    @abstractmethod
    def keys(self) -> int:
        """Return for how many keys anything is remembered."""

    def check_entry(self, key: Hashable, weight: int, owner: object) -> None:
        """Raise if this call can never come in."""

    def hold(self, now: int) -> object:
        """Return what is to be shown at the release of a slot taken *now*."""
        return self.token, now

    def new_line(self, key: Hashable) -> Line:
        return self.options.line(self, key)

    def ask(self, key: Hashable, weight: int, owner: object, now: int) -> bool:
        """Take what is wanted if that can be had at once and nobody waits for it."""
        if self.closed:
            return False
        self.check_entry(key, weight, owner)
        if key in self.lines or not self.room_for(key) or self.opens_at(key, weight, now) > now:
            return False
        self.take(key, weight, now, owner)
        self.note_acquired(key, 0)
        return True

    def try_acquire(self, key: Hashable, weight: int, owner: object) -> Any:
        """Take what is wanted if that can be had at once, and return a hold of it, else None."""
        with guard, guard.lock:
            now = moment.now()
            return self.hold(now) if self.ask(key, weight, owner, now) else None

    def acquire(self, key: Hashable, weight: int, owner: object, **wishes: Any) -> tuple[Any, int]:
        """Take what is wanted in a thread, and return a hold of it and how long that took."""
        waiter = self._join(key, weight, owner, None, wishes)
        if waiter is None:
            return self.hold(moment.now()), 0
        return self.finish(waiter, granted=block(waiter, self.note_cancelled))

    async def aacquire(self, key: Hashable, weight: int, owner: object, **wishes: Any) -> tuple[Any, int]:
        """Take what is wanted in a task, and return a hold of it and how long that took."""
        waiter = self._join(key, weight, owner, myself()[1], wishes)
        if waiter is None:
            return self.hold(moment.now()), 0
        return self.finish(waiter, granted=await wait(waiter, self.note_cancelled))

    def finish(self, waiter: Waiter, *, granted: bool) -> tuple[Any, int]:
        """Return what a wait came to, or raise."""
        now = moment.now()
        if not granted:
            refusal = self.refusal(waiter.key, waiter.reason)
            guard.catch_up()
            raise refusal
        self.note_acquired(waiter.key, now - waiter.joined)
        if guard.outbox:
            guard.catch_up()
        return self.hold(now), now - waiter.joined

    def close(self, drain: int) -> None:
        """Let nobody in any more, and those who wait only until *drain* from now."""
        with guard, guard.lock:
            self.closed = True
            until = moment.now() + drain
            for waiter in self._everyone():
                if waiter.until > until:
                    waiter.until, waiter.why = until, "closed"
                    waiter.remind(until, expire)

    def _everyone(self) -> list[Waiter]:
        """Return all who wait for this limit, wherever they stand: who wants several may wait for another one now."""
        lines = [line for each in list(everyone) if isinstance(each, Limiter) for line in each.lines.values()]
        entries = [entry for line in lines for entry in line.everyone() if entry.needs(self)]
        return [waiter for entry in entries for waiter in entry.everybody()]

    def refusal(self, key: Hashable, reason: str) -> LimitExceeded:
        """Note a refusal and return the error for it."""
        self.ledger.rejected[reason] += 1
        queued, in_use, limit = self.queued(key), self.in_use(key), self.limit(key)
        if self.ledger.listeners:
            self.ledger.tell("rejected", key, in_use, queued, reason=reason)
        return self.error(
            self.ledger.name, reason, key=key, limit=limit, in_use=in_use, queued=queued,
            retry_after=self.estimate(key, queued + 1) / _SECOND,
        )  # fmt: skip

    def estimate(self, key: Hashable, ahead: int) -> int:
        """Return how long it will take until *ahead* others have had their slots."""
        return ahead * self.holds.mean // max(self.limit(key), 1)

    def note_queued(self, key: Hashable, place: int) -> None:
        """Tell that somebody waits."""
        if self.ledger.listeners:
            self.ledger.tell("queued", key, self.in_use(key), place)

    def note_acquired(self, key: Hashable, waited: int) -> None:
        """Count a start."""
        self.ledger.acquired += 1
        if self.ledger.listeners:
            self.ledger.tell("acquired", key, self.in_use(key), self.queued(key), waited=waited)

    def note_cancelled(self, waiter: Waiter, key: Hashable = None) -> None:
        """Count one who left of its own accord."""
        self.ledger.cancelled += 1
        if self.ledger.listeners:
            key = waiter.key if waiter.entry is None else key
            waited = moment.now() - waiter.joined
            self.ledger.tell("cancelled", key, self.in_use(key), self.queued(key), waited=waited)
            guard.catch_up()

    def room_for(self, key: Hashable) -> bool:
        most = self.options.max_keys
        return most is None or self.known(key) or self.keys() < most

    def _join(
        self,
        key: Hashable,
        weight: int,
        owner: object,
        loop: AbstractEventLoop | None,
        wishes: dict[str, Any],
    ) -> Waiter | None:
        """Come in, or stand in line, or raise."""
        until: int = min(wishes.pop("until", NEVER), deadline.current())
        if loop is None:
            until = min(until, deadline.cut_off.get())
        with guard, guard.lock:
            now = moment.now()
            if self.ask(key, weight, owner, now):
                return None
            self.turn_away(key, until - now if until != NEVER else NEVER)
            if loop is None and myself()[1] is not None:
                raise RuntimeError(f"{self.ledger.name} would block the event loop; use `async with` there")
            waiter = Waiter(self, key, weight, owner, now, loop=loop, **wishes)
            self.bound(waiter, until)
            waiter.ready_to_wait()
            line = self.join(waiter, key)
            self.note_queued(key, line.waiting)
            # Slots that were given back without the lock meanwhile are nobody's yet.
            if self.timed or self.spare:
                advance(line, now)
            return waiter

    def turn_away(self, key: Hashable, left: int) -> None:
        """Raise if a call with so much time *left* may not wait for *key*."""
        options = self.options
        if self.closed:
            raise self.refusal(key, "closed")
        if not self.room_for(key):
            raise self.refusal(key, "too_many_keys")
        if self.full(key):
            raise self.refusal(key, "busy" if options.max_queue == 0 else "queue_full")
        if left != NEVER and (left <= 0 or self.estimate(key, self.queued(key)) > left):
            raise self.refusal(key, "deadline")

    def full(self, key: Hashable) -> bool:
        """Tell whether nobody else may wait for *key*."""
        most = self.options.max_queue
        return most is not None and self.queued(key) >= most

    def ask_once(self, key: Hashable, weight: int, owner: object) -> Any:  # noqa: ARG002
        """Ask for what is not at hand, and return a hold of it if it can be had at once: here it never can."""
        return None

    def bound(self, waiter: Waiter, until: int = NEVER) -> None:
        """Say until when *waiter* may wait, and shed load by that."""
        longest = self.options.max_wait
        if until < waiter.until:
            waiter.until, waiter.why = until, "deadline"
        if longest is not None and waiter.joined + longest < waiter.until:
            waiter.until, waiter.why = waiter.joined + longest, "wait_timeout"
        if waiter.until != NEVER:
            waiter.bounded = self.options.shed is not False
            self.watch()

    def watch(self) -> None:
        """Measure from now on how long slots are held."""

    def join(self, entry: Any, key: Hashable) -> Line:
        line = super().join(entry, key)
        head = entry.head
        if line.codel is None and head.bounded:
            line.codel = CoDel(self.options.target or (head.until - head.joined) // SHARE)
        return line

    def reset(self) -> None:
        super().reset()
        self.token = object()
