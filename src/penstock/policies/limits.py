"""Several limits at once: all or nothing.

Whoever waits holds nothing, and stands in the line of one limit that keeps it.  Calls that want the same keys form a
lane, of which only the first is tested, so a refusal costs the same however many wait.  A lane whose first was refused
often may keep what it is offered, in one order for everybody, so it is not overtaken for ever.
"""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from penstock.limits.durations import Duration
from penstock.policies import deadline, moment
from penstock.policies.deadline import NEVER
from penstock.policies.errors import InvalidPolicyError
from penstock.policies.events import Listener
from penstock.policies.forms import Limit
from penstock.policies.guard import Resets, everyone, guard
from penstock.policies.keys import Pick
from penstock.policies.lane import Lane, Stand
from penstock.policies.ledger import Stats
from penstock.policies.queueing import Queueing
from penstock.policies.slot import Slot
from penstock.policies.waiter import Waiter, myself
from penstock.policies.waiting import block, wait

Stands = tuple[Stand, ...]


class Limits(Limit, Resets):
    """Bulkheads, throttles and rates that a call passes together, or not at all."""

    def __init__(self, *members: Limit, name: str | None = None) -> None:
        super().__init__()
        if not members or not all(isinstance(getattr(each, "pool", None), Queueing) for each in members):
            raise InvalidPolicyError("members", "must be bulkheads, throttles and rates of this process")
        for each in members:
            if (why := each.apart()) is not None:
                raise InvalidPolicyError("members", f"{each.name} {why}")
        if len({id(each) for each in members}) < len(members):
            raise InvalidPolicyError("members", "each limit can be named once")
        self.members = members
        self.weight = 1
        self.key = None
        self._name = name or " + ".join(each.name for each in members)
        self._lanes: dict[Stands, Lane] = {}
        everyone.add(self)

    @property
    def name(self) -> str:
        return self._name

    def parts(self) -> tuple[Limit, ...]:
        return self.members

    def checked(self, key: Any) -> Any:
        keys = key if isinstance(key, Mapping) else {each.name: key for each in self.members if each.key}
        return tuple(each.checked(keys.get(each.name)) for each in self.members)

    def pick_for(self, function: Callable[..., Any]) -> Pick | None:
        picks = [each.pick_for(function) for each in self.members]

        def pick(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
            return tuple(None if each is None else each(args, kwargs) for each in picks)

        return pick

    def try_enter(self, slot: Slot) -> Any:
        stands = self._stands(slot)
        with guard, guard.lock:
            now = moment.now()
            return self._held(stands, now) if self._ask(stands, slot.owner, now) else None

    def enter(self, slot: Slot) -> tuple[Any, int]:
        waiter = self._join(slot, None)
        if isinstance(waiter, Waiter):
            return self._finish(waiter, granted=block(waiter, self._cancelled))
        return waiter, 0

    async def aenter(self, slot: Slot) -> tuple[Any, int]:
        waiter = self._join(slot, myself()[1])
        if isinstance(waiter, Waiter):
            return self._finish(waiter, granted=await wait(waiter, self._cancelled))
        return waiter, 0

    def leave(self, slot: Slot, hold: Any, error: BaseException | None) -> None:
        for (pool, key, weight), each in hold:
            pool.release(key, weight, slot.owner, each, error)

    def slot(self, key: Any = None, **options: Any) -> Slot:
        slot = Limit.slot(self, key, **{**options, "deadline": None})
        if options.get("deadline") is not None:
            until = moment.now() + moment.span(options["deadline"], "deadline", zero=True)
            slot.wishes = {**(slot.wishes or {}), "until": until}
            for each in self.members:
                each.pool.watch()
        return slot

    def stats(self) -> Stats:
        raise TypeError("ask each of the limits for its own")

    def listen(self, listener: Listener) -> None:
        """Tell *listener* of every event of each limit."""
        for each in self.members:
            each.listen(listener)

    def close(self, drain: Duration = 30) -> None:
        """Close each of the limits."""
        for each in self.members:
            each.close(drain)

    def reset(self) -> None:
        self._lanes.clear()

    def _stands(self, slot: Slot) -> Stands:
        keys: Any = slot.key
        pools: list[Any] = [each.pool for each in self.members]
        return tuple(
            (pool, key, each.weight * slot.weight)
            for pool, key, each in zip(pools, keys, self.members, strict=True)
        )

    def _ask(self, stands: Stands, owner: object, now: int) -> bool:
        for pool, key, weight in stands:
            pool.check_entry(key, weight, owner)
        if any(
            pool.closed
            or key in pool.lines
            or not pool.room_for(key)
            or pool.opens_at(key, weight, now) > now
            for pool, key, weight in stands
        ):
            return False
        for pool, key, weight in stands:
            pool.take(key, weight, now, owner)
            pool.note_acquired(key, 0)
        return True

    def _join(self, slot: Slot, loop: AbstractEventLoop | None) -> Any:
        stands = self._stands(slot)
        wishes = dict(slot.wishes or {})
        until: int = min(wishes.pop("until", NEVER), deadline.current())
        if loop is None:
            until = min(until, deadline.cut_off.get())
        with guard, guard.lock:
            now = moment.now()
            if self._ask(stands, slot.owner, now):
                return self._held(stands, now)
            for pool, key, weight in stands:
                if pool.closed or key in pool.lines or pool.opens_at(key, weight, now) > now:
                    pool.turn_away(key, until - now if until != NEVER else NEVER)
            if loop is None and myself()[1] is not None:
                raise RuntimeError(f"{self.name} would block the event loop; use `async with` there")
            return self._stand(stands, slot, until, loop, wishes, now)

    def _stand(
        self,
        stands: Stands,
        slot: Slot,
        until: int,
        loop: AbstractEventLoop | None,
        wishes: Any,
        now: int,
    ) -> Waiter:
        waiter = Waiter(stands[0][0], stands[0][1], slot.weight, slot.owner, now, loop=loop, **wishes)
        for pool, _, _ in stands:
            pool.bound(waiter, min(until, waiter.until))
        waiter.ready_to_wait()
        lane = self._lanes.get(stands)
        if lane is None:
            lane = self._lanes[stands] = Lane(stands, self._lanes)
        for pool, key, _ in stands:
            if pool.ledger.listeners:
                pool.ledger.tell("queued", key, pool.in_use(key), pool.queued(key) + 1)
        lane.join(waiter, now)
        return waiter

    def _finish(self, waiter: Waiter, *, granted: bool) -> tuple[Any, int]:
        now = moment.now()
        lane: Lane = waiter.entry
        if not granted:
            errors = {pool: pool.refusal(key, waiter.reason) for pool, key, _ in lane.stands}
            guard.catch_up()
            raise next(error for pool, error in errors.items() if pool is waiter.limiter)
        for pool, key, _ in lane.stands:
            pool.note_acquired(key, now - waiter.joined)
        if guard.outbox:
            guard.catch_up()
        return self._held(lane.stands, now), now - waiter.joined

    def _cancelled(self, waiter: Waiter) -> None:
        for pool, key, _ in waiter.entry.stands:
            pool.note_cancelled(waiter, key)

    @staticmethod
    def _held(stands: Stands, now: int) -> Any:
        return [(stand, stand[0].hold(now)) for stand in stands]
