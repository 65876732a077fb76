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


async def main() -> None:
    assert_type(await reserve(1), str)
    assert_type(shout("a"), int)
    bulkhead = Bulkhead(1)
    async with bulkhead as slot:
        assert_type(slot, Slot)
    with bulkhead.slot(deadline=3, weight=1) as slot:
        assert_type(slot.waited, float)
    assert_type(bulkhead.try_acquire(), Slot | None)
    assert_type(bulkhead.call(len, "abc"), int)
    assert_type(bulkhead.stats(), Stats)
    assert_type(await Route("any").source([1]).concurrency(max=1).to(print).run(), list[Any])


async def afternoon() -> str:
    return "tea"


assert_type(VirtualTime().run(afternoon()), str)

shared = Bulkhead(2, name="partner", shared=App("jobs.db"), block=4, on_lost="cancel")
