"""Refreshes of floating limits that workers ask for at once, and what they report at once, are one transaction."""

import asyncio
import threading

from penstock.clock import SECOND
from penstock.engine import open_engine
from penstock.http.engine_service import EngineService
from penstock.job import NewJob, RefreshesFor, RefreshReport
from penstock.limits.rules import Floating, Limit, Numbers


def floating(key):
    return Limit(key, Numbers(slots=1), floating=Floating("", 60 * SECOND))


def held(service, name):
    """Note how many came together, and hold the first until it is let go."""
    batcher, sizes, first = getattr(service, name), [], threading.Event()
    together = batcher._together

    def note(questions):
        sizes.append(len(questions))
        if len(sizes) == 1:
            first.wait(10)
        return together(questions)

    batcher._together = note
    return sizes, first


async def all_at_once(calls, go):
    asked = [asyncio.ensure_future(call) for call in calls]
    await asyncio.sleep(0)
    go.set()
    return await asyncio.gather(*asked)


def test_polls_and_reports_that_come_together_are_answered_together(tmp_path):
    async def play():
        engine = open_engine(str(tmp_path / "jobs.db"))
        engine.enqueue([NewJob("t", queue="q", limits=(floating(f"k{n}"),)) for n in range(9)])
        service = EngineService(engine)
        polls, go = held(service, "_refreshing")
        asked = [service.refreshes(RefreshesFor(1, f"w{n}", queues=("q",))) for n in range(9)]
        lent = [refresh for some in await all_at_once(asked, go) for refresh in some]
        reports, go = held(service, "_refreshed")
        told = [service.refreshed(RefreshReport(each.gate, each.fence, 5)) for each in lent]
        taken = await all_at_once(told, go)
        values = {view.value for view in engine.floating_limits()[0]}
        service.close()
        engine.close()
        return polls, {refresh.key for refresh in lent}, reports, taken, values

    polls, keys, reports, taken, values = asyncio.run(play())

    assert [1, 8] == polls
    assert {f"k{n}" for n in range(9)} == keys
    assert [1, 8] == reports
    assert [True] * 9 == taken
    assert {5} == values
