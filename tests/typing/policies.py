"""Uses policies as users do.  Checked by mypy, never run."""

from typing import Any, assert_type

from penstock import App
from penstock.dialects.routecraft import Route
from penstock.policies import (
    AIMD,
    Breaker,
    Bulkhead,
    Limits,
    RateLimiter,
    Retrying,
    Slot,
    Stats,
    Throttler,
    Timeout,
)
from penstock.testing import VirtualTime

both = Limits(
    Bulkhead(5, max_queue=3, max_wait="2s"), Throttler(10, per=1, burst=3), RateLimiter(100, per="1m")
)


@Retrying(4, backoff=0.05, on=(ConnectionError,))
@Timeout(10)
@Breaker(5)
@both
async def reserve(order: int) -> str:
    return str(order)


@Bulkhead(AIMD(0.15), key=lambda text: text)
def shout(text: str) -> int:
    return len(text)


tokens = RateLimiter(90_000, per="1m", cost=len)


@tokens
def ask(prompt: str) -> int:
    tokens.spend(3)
    return len(prompt)


async def main() -> None:
    assert_type(ask("how?"), int)
    assert_type(await reserve(1), str)
    assert_type(shout("a"), int)
    bulkhead = Bulkhead(1)
    async with bulkhead as slot:
        assert_type(slot, Slot)
    with bulkhead.slot(deadline=3, weight=1) as slot:
        assert_type(slot.waited, float)
    assert_type(bulkhead.try_acquire(), Slot | None)
    async with tokens.slot(cost=400) as slot:
        slot.spend(300)
    with both.slot(weight=2, cost={"throttler": 1, "rate": 3}) as slot:
        slot.spend({"rate": 2})
    assert_type(bulkhead.call(len, "abc"), int)
    assert_type(bulkhead.stats(), Stats)
    assert_type(await Route("any").source([1]).concurrency(max=1).to(print).run(), list[Any])


async def afternoon() -> str:
    return "tea"


assert_type(VirtualTime().run(afternoon()), str)

shared = Bulkhead(2, name="partner", shared=App("jobs.db"), block=4, on_lost="cancel")
