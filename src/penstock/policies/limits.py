"""Several limits at once: all or nothing.

A call that waits holds nothing, and is in the wait list of one limit that keeps it.  Calls with the same keys wait
jointly and only the first of them is tested, so a refusal costs the same however many wait.  Once the first was refused
often it may reserve the slots it is offered, in one order for all calls, so it is not overtaken for ever.
"""

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

from penstock.limits.durations import Duration
from penstock.limits.gate import ON_RELEASE
from penstock.policies import clock
from penstock.policies.call_admission import CallAdmission
from penstock.policies.call_limit import CallLimit
from penstock.policies.clock import NEVER
from penstock.policies.errors import InvalidPolicyError
from penstock.policies.events import Listener, Stats
from penstock.policies.options import Amount, Pick, Weigh, by_name
from penstock.policies.pacing import PacedLimit
from penstock.policies.process_lock import ForkAware, lock, registry
from penstock.policies.slot import CallSlot, Slot
from penstock.policies.spending import Start
from penstock.policies.wait_list import Shut, WaitList
from penstock.policies.wait_moves import advance, block, wait
from penstock.policies.waiter import CALLED, GRANTED, WAITING, Waiter, myself

PATIENCE: Final = 20  # refusals, after which slots that are offered may be reserved

Demand = tuple[CallAdmission, Hashable, int]  # of a limit, for a key, so many slots
Demands = tuple[Demand, ...]


class Limits(CallLimit, ForkAware):
    """Bulkheads, throttlers and rate limiters that a call passes together, or not at all."""

    def __init__(self, *members: CallLimit, name: str | None = None) -> None:
        super().__init__()
        if not members or not all(isinstance(getattr(each, "pool", None), CallAdmission) for each in members):
            raise InvalidPolicyError(
                "members", "must be bulkheads, throttlers and rate limiters of this process"
            )
        for each in members:
            if (why := each.apart()) is not None:
                raise InvalidPolicyError("members", f"{each.name} {why}")
        if len({id(each) for each in members}) < len(members):
            raise InvalidPolicyError("members", "each limit can be named once")
        self.members = members
        if any(isinstance(each, PacedLimit) for each in members):
            self.call_slot = CallSlot
        self.key = None
        self._name = name or " + ".join(each.name for each in members)
        self._joints: dict[Demands, JointWaiters] = {}
        registry.add(self)

    @property
    def name(self) -> str:
        return self._name

    def parts(self) -> tuple[CallLimit, ...]:
        return self.members

    def checked(self, key: Any) -> Any:
        keys = key if isinstance(key, Mapping) else {each.name: key for each in self.members if each.key}
        return tuple(each.checked(keys.get(each.name)) for each in self.members)

    def pick_for(self, function: Callable[..., Any]) -> Pick | None:
        picks = [each.pick_for(function) for each in self.members]

        def pick(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
            return tuple(None if each is None else each(args, kwargs) for each in picks)

        return pick

    def weighed(self, weight: int | None, cost: Amount | None) -> Any:
        paced = [each for each in self.members if isinstance(each, PacedLimit)]
        if weight is not None and len(paced) == len(self.members):
            raise InvalidPolicyError("weight", f"{self.name} has no slots; say cost= for starts")
        names = [each.name for each in paced]
        costs = {} if cost is None else by_name("cost", cost, names, self.name)
        return tuple(
            each.weighed(None if each in paced else weight, costs.get(each.name)) for each in self.members
        )

    def weigher_for(self, function: Callable[..., Any]) -> Weigh | None:
        weighers = [each.weigher_for(function) for each in self.members]
        if not any(weighers):
            return None
        pairs = [
            (weigh, each.weighed(None, None) if weigh is None else None)
            for weigh, each in zip(weighers, self.members, strict=True)
        ]
        return lambda args, kwargs: tuple(
            usual if weigh is None else weigh(args, kwargs) for weigh, usual in pairs
        )

    def try_enter(self, slot: Slot) -> Any:
        demands = self._demands(slot)
        with lock, lock.mutex:
            now = clock.now()
            return self._grants(demands, now) if self._ask(demands, slot.owner, now) else None

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

    def leave(self, slot: Slot, grant: Any, error: BaseException | None) -> None:
        for (pool, key, weight), each in grant:
            pool.release(key, weight, slot.owner, each, error)

    def starts_of(self, grant: Any) -> tuple[Start, ...]:
        return tuple(each for (pool, _, _), each in grant if pool.timed)

    def watch(self) -> None:
        for each in self.members:
            each.watch()

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
        self._joints.clear()

    def _demands(self, slot: Slot) -> Demands:
        keys: Any = slot.key
        pools: list[Any] = [each.pool for each in self.members]
        return tuple(zip(pools, keys, slot.weight, strict=True))

    def _ask(self, demands: Demands, owner: object, now: int) -> bool:
        for pool, key, weight in demands:
            pool.check_entry(key, weight, owner)
        if any(
            pool.closed
            or key in pool.wait_lists
            or not pool.room_for(key)
            or pool.opens_at(key, weight, now) > now
            for pool, key, weight in demands
        ):
            return False
        for pool, key, weight in demands:
            pool.take(key, weight, now, owner)
            pool.note_acquired(key, 0)
        return True

    def _join(self, slot: Slot, loop: AbstractEventLoop | None) -> Any:
        """Return the grants, or a waiter, or raise."""
        demands = self._demands(slot)
        until = clock.latest(slot.wishes.until, in_thread=loop is None)
        with lock, lock.mutex:
            now = clock.now()
            if self._ask(demands, slot.owner, now):
                return self._grants(demands, now)
            for pool, key, weight in demands:
                if pool.closed or key in pool.wait_lists or pool.opens_at(key, weight, now) > now:
                    pool.turn_away(key, until - now if until != NEVER else NEVER)
            if loop is None and myself()[1] is not None:
                raise RuntimeError(f"{self.name} would block the event loop; use `async with` there")
            return self._enlist(demands, slot, until, loop, now)

    def _enlist(
        self, demands: Demands, slot: Slot, until: int, loop: AbstractEventLoop | None, now: int
    ) -> Waiter:
        pool, key, weight = demands[0]
        wishes = slot.wishes
        waiter = Waiter(
            pool, key, weight, slot.owner, now, loop=loop, priority=wishes.priority, group=wishes.group
        )
        for pool, _, _ in demands:
            pool.bound(waiter, min(until, waiter.until))
        waiter.ready_to_wait()
        joint = self._joints.get(demands)
        if joint is None:
            joint = self._joints[demands] = JointWaiters(demands, self._joints)
        for pool, key, _ in demands:
            pool.note_queued(key, pool.queued(key) + 1)
        joint.join(waiter, now)
        return waiter

    def _finish(self, waiter: Waiter, *, granted: bool) -> tuple[Any, int]:
        now = clock.now()
        demands = _joint(waiter).demands
        if not granted:
            errors = {pool: pool.refusal(key, waiter.reason) for pool, key, _ in demands}
            lock.catch_up()
            raise errors[waiter.admission]
        for pool, key, _ in demands:
            pool.note_acquired(key, now - waiter.joined)
        if lock.outbox:
            lock.catch_up()
        return self._grants(demands, waiter.at if waiter.entry.timed else now), now - waiter.joined

    def _cancelled(self, waiter: Waiter) -> None:
        for pool, key, _ in _joint(waiter).demands:
            pool.note_cancelled(waiter, key)

    @staticmethod
    def _grants(demands: Demands, at: int) -> Any:
        return [((pool, key, weight), pool.grant(key, weight, at)) for pool, key, weight in demands]


class JointWaiters:
    """Calls that need the same slots of the same several limits, in order; they share one `Entry`."""

    __slots__ = (
        "demands", "joints", "ordered", "refusals", "reserved", "seq", "size", "timed", "wait_list", "waiters",
    )  # fmt: skip

    def __init__(self, demands: Demands, joints: "dict[Demands, JointWaiters]") -> None:
        self.demands = demands
        self.joints = joints
        # One order for all calls that reserve slots, so that none waits for another in a circle; what opens by the
        # clock comes last.
        self.ordered = sorted(demands, key=lambda demand: (demand[0].timed, demand[0].number))
        self.timed = any(pool.timed for pool, _, _ in demands)
        self.waiters: deque[Waiter] = deque()
        self.size = 0
        self.wait_list: WaitList | None = None
        self.refusals = 0
        self.seq = 0
        self.reserved: list[Demand] = []

    @property
    def head(self) -> Waiter:
        while self.waiters[0].state not in (WAITING, CALLED):
            self.waiters.popleft()
        return self.waiters[0]

    @property
    def last(self) -> tuple[CallAdmission, Hashable]:
        """Where it waits while it is called: at a limit that opens by the clock, if there is one."""
        return self.ordered[-1][:2]

    def needs(self, admission: CallAdmission) -> bool:
        return any(pool is admission for pool, _, _ in self.demands)

    def all_waiting(self) -> list[Waiter]:
        return [waiter for waiter in self.waiters if waiter.state in (WAITING, CALLED)]

    def join(self, waiter: Waiter, now: int) -> None:
        """Add *waiter* behind the others."""
        waiter.joint = self
        self.waiters.append(waiter)
        self.size += 1
        self.seq = self.seq or waiter.seq
        if self.wait_list is not None:
            self.wait_list.waiting += 1
            return
        pool, key, _ = self.shut_by(now) or (*self.last, 0)
        advance(pool.join(self, key), now)

    def shut_by(self, now: int) -> Shut | None:
        """Return the limit that keeps the first waiter from starting, reserving on the way what it may."""
        if self.refusals >= PATIENCE:
            return self._shut_in_order(now)
        for demand in self.demands:
            shut = self._shut(demand, now)
            if shut is not None:
                return shut
        return None

    def refused(self) -> None:
        self.refusals += 1

    def take(self, now: int) -> None:
        head = self.head
        for demand in self.demands:
            if demand not in self.reserved:
                demand[0].take(demand[1], demand[2], now, head.owner)
        head.state = GRANTED
        head.at = now
        self.reserved = []
        self._without_head()

    def give_back(self, waiter: Waiter) -> list[WaitList | None]:
        """Give back what *waiter* was granted; return the wait lists that can move on."""
        for pool, key, weight in self.demands:
            pool.undo(key, weight, waiter.at, waiter.owner)
        return [pool.wait_lists.get(key) for pool, key, _ in self.demands]

    def remove(self, waiter: Waiter, now: int) -> list[WaitList | None]:
        """Remove *waiter*, and free what was reserved for it."""
        freed: list[WaitList | None] = []
        if self.reserved and waiter is self.head:
            for pool, key, weight in self.reserved:
                pool.undo(key, weight, now, waiter.owner)
                freed.append(pool.wait_lists.get(key))
            self.reserved = []
        if self.wait_list is not None:
            self.wait_list.waiting -= 1
        if waiter is self.head:
            self._without_head()
        else:
            self._one_less()
        return freed

    def _without_head(self) -> None:
        self.waiters.popleft()
        self.refusals = 0
        self._one_less()
        if self.size:
            self.seq = self.head.seq

    def _one_less(self) -> None:
        self.size -= 1
        if not self.size:
            del self.joints[self.demands]

    def _shut_in_order(self, now: int) -> Shut | None:
        for demand in self.ordered:
            if demand in self.reserved:
                continue
            shut = self._shut(demand, now)
            if shut is not None:
                return shut
            if not demand[0].timed:
                demand[0].take(demand[1], demand[2], now, self.head.owner)
                self.reserved.append(demand)
        return None

    def _shut(self, demand: Demand, now: int) -> Shut | None:
        pool, key, weight = demand
        at = pool.opens_at(key, weight, now)
        if at > now:
            return pool, key, at
        wait_list = pool.wait_lists.get(key)
        if wait_list is not None and wait_list is not self.wait_list:
            first = wait_list.first(now)
            # An elder call is about to be served there.
            if first is not None and first is not self and first.seq < self.seq:
                return pool, key, ON_RELEASE
        return None


def _joint(waiter: Waiter) -> JointWaiters:
    assert waiter.joint is not None  # noqa: S101 - set when it joined
    return waiter.joint
