"""Bulkheads that share their slots through a store; here two apps on one file stand for two processes."""

import asyncio
import logging
import threading
import time
from contextlib import ExitStack
from functools import partial
from itertools import pairwise

import pytest

from penstock import App, Concurrency
from penstock.clock import SECOND
from penstock.errors import InvalidLimitError, StoreError
from penstock.limits.rules import Numbers, Window
from penstock.policies import (
    AIMD,
    Bulkhead,
    BulkheadFull,
    Limits,
    RateLimiter,
    ReentryError,
    Retrying,
    Timeout,
)
from penstock.store import lending as rows
from tests.support.sharing import PATIENCE, auntil, bulkhead, running, thread, until, waiting
from tests.support.sharing_faults import SHORT
from tests.support.tasks import Inside, together

LEASE = 2


@pytest.fixture
def here(place):
    return place(LEASE)


@pytest.fixture
def there(place, here):
    return place(LEASE)


async def one_after_another(app, slot, calls):
    """Let *calls* wait in this order for a *slot*, then give it back and await them."""
    tasks = []
    for call in calls:
        tasks.append(asyncio.create_task(call))
        await auntil(lambda: waiting(app) == len(tasks))
    slot.release()
    await asyncio.gather(*tasks)


class TestOneLimit:
    def test_slots_are_one_pool_wherever_they_are_asked_for(self, here, there):
        one, other = bulkhead(here, 2), bulkhead(there, 2)
        with one, other.slot():
            assert one.try_acquire() is None
            assert other.try_acquire() is None
            assert 2 == running(here)
        until(lambda: running(here) == 0)

    def test_a_slot_that_is_given_back_goes_to_the_other_process(self, here, there):
        one, other = bulkhead(here), bulkhead(there)
        slot = one.acquire()
        with thread(lambda: other.call(lambda: "in")) as answers:
            until(lambda: waiting(here) == 1)
            assert not answers
            slot.release()
        assert ["in"] == answers

    def test_the_first_to_come_is_the_first_to_be_served(self, here, there):
        order = []
        blocks = [bulkhead(here), bulkhead(there)]
        slot = blocks[0].acquire()

        async def call(number):
            async with blocks[number % 2]:
                order.append(number)

        asyncio.run(one_after_another(here, slot, map(call, range(8))))
        assert list(range(8)) == order

    def test_a_job_and_a_call_obey_one_limit(self, here, there):
        inside = []

        @there.task(limits=[Concurrency(1, key="api")])
        def job():
            inside.append(running(here))

        slot = bulkhead(here).acquire()
        job.enqueue()
        claim = there.engine.claim(["default"], 1, worker="w")
        assert [] == claim.jobs
        slot.release()
        until(lambda: running(here) == 0)
        there.work(until_idle=True)
        assert [1] == inside

    def test_what_operators_decide_counts(self, here):
        one = bulkhead(here, 5)
        here.engine.override("api", Numbers(slots=1))
        with one:
            assert one.try_acquire() is None

    @pytest.mark.parametrize("number", [3, lambda key: 3])
    def test_each_key_has_its_own(self, here, there, number):
        one = Bulkhead(number, key="account:{account}", shared=here)
        other = Bulkhead(number, key="account:{account}", shared=there)

        @one
        def both(account):
            slots = [other.acquire(f"account:{name}") for name in ("acme", "other")]
            assert (2, 1) == (running(here, "account:acme"), running(here, "account:other"))
            for slot in slots:
                slot.release()
            return account

        assert "acme" == both("acme")

    def test_threads_and_tasks_share_them(self, here):
        one, inside = bulkhead(here, 3), Inside()

        @one
        def work():
            with inside:
                time.sleep(0.002)

        @one
        async def awork():
            with inside:
                await asyncio.sleep(0.002)

        asyncio.run(together(*(asyncio.to_thread(work) for _ in range(20)), *(awork() for _ in range(20))))
        assert 3 == inside.most
        assert 40 == one.stats().acquired

    def test_a_heavy_call_takes_several(self, here, there):
        one, other = bulkhead(here, 3), bulkhead(there, 3)
        with one.slot(weight=2):
            assert 2 == running(here)
            assert other.try_acquire(weight=2) is None
            with other:
                assert 3 == running(here)


class TestWaiting:
    def test_reject_asks_once(self, here, there):
        one, other = bulkhead(here), bulkhead(there, mode="reject")
        with one, pytest.raises(BulkheadFull) as refused, other:
            pass
        assert "busy" == refused.value.reason
        until(lambda: running(here) == 0)
        with other:
            pass
        assert {"busy": 1} == other.stats().rejected
        assert 0 == waiting(here)

    def test_no_more_wait_than_may(self, here, there):
        one = bulkhead(there, max_queue=2)
        with one:
            pass
        slot = bulkhead(here).acquire()

        async def call():
            async with one:
                pass

        async def main():
            tasks = [asyncio.create_task(call()) for _ in range(5)]
            await auntil(lambda: sum(task.done() for task in tasks) == 3)
            await auntil(lambda: waiting(here) == 2)
            slot.release()
            return await asyncio.gather(*tasks, return_exceptions=True)

        reasons = [getattr(answer, "reason", "in") for answer in asyncio.run(main())]
        assert ["in", "in", "queue_full", "queue_full", "queue_full"] == reasons
        assert 0 == waiting(here)

    def test_a_wait_is_bounded(self, here, there):
        one = bulkhead(there, max_wait=0.05, shed=False)
        with bulkhead(here), pytest.raises(BulkheadFull) as refused, one:
            pass
        assert "wait_timeout" == refused.value.reason
        until(lambda: waiting(here) == 0)

    def test_one_that_is_cancelled_leaves_the_store_s_line_too(self, here, there):
        one = bulkhead(there)
        slot = bulkhead(here).acquire()

        async def main():
            task = asyncio.create_task(one.acall(asyncio.sleep, 0))
            await auntil(lambda: waiting(here) == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        until(lambda: waiting(here) == 0)
        slot.release()
        with one:
            pass
        assert 1 == one.stats().cancelled

    def test_what_is_granted_to_one_that_is_gone_goes_back(self, here, there):
        """Cancelled at every moment of asking, waiting and being granted."""
        one = bulkhead(there, 1)

        asyncio.run(self._cancel_everywhere(here, one))
        until(lambda: running(here) == 0 and waiting(here) == 0)

    @staticmethod
    async def _cancel_everywhere(here, one):
        other = bulkhead(here)
        for step in range(60):
            holder = await other.aacquire() if step % 2 else None
            task = asyncio.create_task(one.acall(asyncio.sleep, 0))
            await asyncio.sleep(step * 0.0001)
            if holder is not None:
                holder.release()
            await asyncio.sleep(step * 0.00005)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def test_a_plain_call_does_not_block_a_loop(self, here):
        one = bulkhead(here)

        async def main():
            one.try_acquire()

        with pytest.raises(RuntimeError, match="block the event loop"):
            asyncio.run(main())
        assert 0 == one.stats().queued

    def test_a_loop_that_is_gone_leaves_nothing(self, here, there):
        one = bulkhead(there)
        slot = bulkhead(here).acquire()
        loop = asyncio.new_event_loop()
        task = loop.create_task(one.acall(asyncio.sleep, 0))
        while waiting(here) == 0:
            loop.run_until_complete(asyncio.sleep(0.002))
        loop.close()  # without a word to the task
        slot.release()
        with one:
            assert 1 == running(here)
        until(lambda: running(here) == 0)
        task._log_destroy_pending = False

    def test_slots_are_not_held_between_attempts(self, here, there):
        other = bulkhead(there)
        seen = []

        @Retrying(2, backoff=0.05)
        @bulkhead(here)
        def call():
            seen.append(other.try_acquire())
            if len(seen) == 1:
                raise ConnectionError
            return "done"

        with thread(call) as answers:
            until(lambda: len(seen) == 1 and running(here) == 0)
            with other:
                pass
        assert ["done"] == answers

    def test_a_timeout_around_it_ends_the_wait(self, here, there):
        work = Timeout(0.05)(bulkhead(there)(lambda: "never"))
        with bulkhead(here), pytest.raises(TimeoutError):
            work()
        until(lambda: waiting(here) == 0)

    def test_the_same_task_does_not_wait_for_itself(self, here):
        one = bulkhead(here)
        with one, pytest.raises(ReentryError), one:
            pass

    @pytest.mark.parametrize("order", ["priority", "adaptive_lifo"])
    def test_other_orders_hold_within_the_process(self, here, there, order):
        one = bulkhead(there, order=order)
        slot = bulkhead(here).acquire()
        served = []

        async def call(number):
            async with one.slot(priority=number):
                served.append(number)

        asyncio.run(one_after_another(here, slot, map(call, range(5))))
        assert [0, 1, 2, 3, 4] == sorted(served)
        if order == "priority":
            assert [4, 3, 2, 1, 0] == served
        until(lambda: waiting(here) == 0 and running(here) == 0)


class TestLeases:
    def test_the_lease_is_kept_while_the_event_loop_is_blocked(self, here, there):
        """Test 18: renewed by a thread, whatever the loop does."""
        one = bulkhead(here)
        lost = []
        one.listen(lambda event: lost.append(event) if event.kind == "lease_lost" else None)

        async def main():
            async with one as slot:
                time.sleep(1.5 * LEASE)  # noqa: ASYNC251
                taken = there.engine.upkeep()["gone"]
                return slot.lost, taken

        assert (False, 0) == asyncio.run(main())
        assert [] == lost

    def test_a_renewal_after_the_end_is_silent(self, place, caplog):
        """A lease that is not needed any more ends silently."""
        one = bulkhead(place(SHORT))
        events = []
        one.listen(lambda event: events.append(event.kind))
        caplog.set_level(logging.INFO, logger="penstock")
        for _ in range(3):
            with one:
                pass
            time.sleep(0.4 * SHORT)  # the next renewal falls in here
        time.sleep(1.3 * SHORT)
        assert ["acquired", "released"] * 3 == events
        assert [] == caplog.records
        with one as slot:
            assert not slot.lost

    def test_a_lease_that_ended_is_told(self, here, there):
        one, other = bulkhead(here), bulkhead(there)
        events = []
        one.listen(lambda event: events.append(event.kind))
        with one as slot:
            _forget_all_holders(here)
            until(lambda: slot.lost)
            with other as theirs:
                assert not theirs.lost
        assert ["acquired", "lease_lost", "released"] == events
        assert 0 == one.stats().in_use
        with one as slot:
            assert not slot.lost

    def test_a_task_whose_lease_ended_can_be_cancelled(self, here):
        one = bulkhead(here, on_lost="cancel")

        async def work():
            async with one:
                _forget_all_holders(here)
                await asyncio.sleep(PATIENCE)

        (answer,) = asyncio.run(asyncio.wait_for(together(work(), return_exceptions=True), PATIENCE))
        assert isinstance(answer, asyncio.CancelledError)

    def test_waiting_calls_ask_again_after_a_lease_that_ended(self, here, there):
        one = bulkhead(there)
        slot = bulkhead(here).acquire()
        with thread(lambda: one.call(lambda: "in")) as answers:
            until(lambda: waiting(here) == 1)
            _forget_all_holders(here)
            until(lambda: slot.lost or answers)
        assert ["in"] == answers
        slot.release()

    def test_an_app_that_is_closed_gives_everything_back(self, here, there):
        one = bulkhead(there)
        slot = one.acquire()
        there.close()
        assert 0 == running(here)
        assert slot.lost
        slot.release()
        with one:  # the next use opens it again
            assert 1 == running(here)

    def test_waiting_calls_hear_that_the_app_was_closed(self, here, there):
        one = bulkhead(there)

        with bulkhead(here), thread(lambda: one.call(lambda: None)) as answers:
            until(lambda: waiting(here) == 1)
            there.close()
        assert ["the app was closed while a call waited for its slots"] == list(map(str, answers))
        assert 0 == waiting(here)

    def test_no_thread_is_left_of_a_closed_app(self, here, there):
        with bulkhead(there):
            pass
        there.close()
        here.close()
        until(lambda: not [t for t in threading.enumerate() if t.name.startswith("penstock-slots")])

    def test_a_store_that_fails_tells_the_caller_and_loses_nothing(self, here, monkeypatch):
        one = bulkhead(here)
        with one:
            pass
        lend = here.engine.lend
        fail = [True]

        def failing(asked):
            lent = lend(asked)  # done, but the answer is lost
            if fail and asked.wanted:
                fail.clear()
                raise StoreError("the connection was lost")
            return lent

        monkeypatch.setattr(here.engine, "lend", failing)
        with pytest.raises(StoreError, match="connection was lost"), one:
            pass
        until(lambda: running(here) == 0)
        with one:
            assert 1 == running(here)


class TestBlocks:
    def test_a_block_is_served_from_memory(self, here, there):
        one, other = bulkhead(here, 4, block=4), bulkhead(there, 4)
        with one:
            assert 4 == running(there)
        exchanges = []
        lend = here.engine.lend
        here.engine.lend = lambda asked: exchanges.append(asked) or lend(asked)
        for _ in range(50):
            with one:
                pass
        assert [] == exchanges
        with other:  # unused slots come back when another process waits
            pass

    def test_an_idle_block_comes_back(self, here, there):
        with bulkhead(here, 4, block=4):
            pass
        assert 4 == running(there)
        until(lambda: running(there) == 0)

    def test_a_busy_block_is_shared_with_waiting_calls(self, here, there):
        one, other = bulkhead(here, 2, block=2), bulkhead(there, 2, block=2)
        stop = threading.Event()
        calls = {"here": 0, "there": 0}

        def work(bounded, name):
            while not stop.is_set():
                with bounded:
                    calls[name] += 1
                    time.sleep(0.001)

        with ExitStack() as threads:
            for each in [(one, "here"), (other, "there")] * 4:
                threads.enter_context(thread(partial(work, *each)))
            until(lambda: min(calls.values()) > 50)
            stop.set()
        until(lambda: running(here) == 0)

    def test_never_more_than_there_are(self, here, there):
        inside = Inside()

        def work(bounded):
            for _ in range(100):
                with bounded, inside:
                    time.sleep(0.0005)

        blocks = [bulkhead(app, 3, block=3) for app in (here, there)]
        with ExitStack() as threads:
            for number in range(10):
                threads.enter_context(thread(partial(work, blocks[number % 2])))
        assert inside.most <= 3
        until(lambda: running(here) == 0)


class TestStarts:
    def test_calls_keep_the_rate_of_their_key(self, here, there):
        here.engine.configure("key", "api", Numbers(throttle=Window(10, SECOND)))
        begins = []

        def work():
            begins.append(time.monotonic())

        one, other = bulkhead(here, 5)(work), bulkhead(there, 5, block=5)(work)
        with thread(lambda: [one() for _ in range(4)]), thread(lambda: [other() for _ in range(4)]):
            pass
        gaps = [later - earlier for earlier, later in pairwise(begins)]
        assert 8 == len(begins)
        assert min(gaps) >= 0.1

    def test_one_that_begins_too_late_asks_again(self, here, monkeypatch):
        here.engine.configure("key", "api", Numbers(throttle=Window(20, SECOND)))
        one = bulkhead(here)
        lend, slow = here.engine.lend, [True]

        def slowly(asked):
            lent = lend(asked)
            if lent.loans and slow:
                slow.clear()
                time.sleep(0.1)
            return lent

        with bulkhead(here, name="other"):
            pass
        monkeypatch.setattr(here.engine, "lend", slowly)
        began = time.monotonic()
        with one:
            assert time.monotonic() - began >= 0.1
            assert 2 == here.engine.gate("api").recent


class TestWrongUse:
    @pytest.mark.parametrize(
        ("options", "named"),
        [
            ({"name": None}, "name"),
            ({"name": "with\nnewline"}, "key"),
            ({"block": 0}, "block"),
            ({"block": 1.5}, "block"),
            ({"on_lost": "panic"}, "on_lost"),
        ],
    )
    def test_is_refused_where_it_is_written(self, here, options, named):
        with pytest.raises(InvalidLimitError, match=named):
            bulkhead(here, **options)

    @pytest.mark.parametrize("option", [{"block": 4}, {"on_lost": "event"}])
    def test_options_of_shared_ones_need_one(self, option):
        with pytest.raises(InvalidLimitError, match="needs shared=app"):
            Bulkhead(1, **option)

    def test_what_is_shared_is_an_app(self):
        with pytest.raises(InvalidLimitError, match="must be an App"):
            Bulkhead(1, name="x", shared="jobs.db")

    def test_a_server_lends_nothing(self):
        app = App(engine=object())
        with pytest.raises(InvalidLimitError, match="SQLite or PostgreSQL"), bulkhead(app):
            pass

    @pytest.mark.parametrize("key", [7, ("a", "b"), "with\nnewline", "x" * 1025])
    def test_a_key_is_the_key_of_a_gate(self, here, key):
        one = Bulkhead(1, key=lambda: key, shared=here)
        with pytest.raises((TypeError, InvalidLimitError)):
            one.call(lambda: None)
        assert 0 == one.stats().queued

    def test_several_limits_at_once_are_of_one_process(self, here):
        with pytest.raises(InvalidLimitError, match="api is shared"):
            Limits(bulkhead(here), RateLimiter(5))

    def test_an_adaptive_number_is_of_one_process(self, here):
        with pytest.raises(InvalidLimitError, match="all agree on"):
            bulkhead(here, AIMD(latency=0.1))

    def test_nothing_is_opened_before_it_is_needed(self, tmp_path):
        app = App(tmp_path / "missing" / "jobs.db")
        one = bulkhead(app)
        one(lambda: None)
        with pytest.raises(StoreError, match="does not exist"), one:
            pass


def _forget_all_holders(app):
    """Do to all holders what happens to one that is not heard from."""

    def work(board):
        holders = rows.overdue(board.db, 2**62, 100)
        board.ring(set().union(*(board.loans.forget(holder) for holder in holders)))

    app.engine._write(work)
