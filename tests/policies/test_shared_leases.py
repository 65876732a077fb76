"""Leases of shared slots that end while calls wait, begin or hold; many calls in one exchange."""

import asyncio
import threading
from collections import Counter
from contextlib import ExitStack

import pytest

from penstock.clock import SECOND, since_boot
from penstock.errors import StoreError
from penstock.policies import clock
from penstock.policies.shared import slot_pool
from tests.support.sharing import PATIENCE, bulkhead, running, thread, until, waiting
from tests.support.sharing_faults import (
    LONG,
    SHORT,
    Asked,
    borrower_of,
    down,
    events_of,
    if_wanted,
    lose_the_lease,
    once,
    one_round_trip,
    told,
    used_once,
)


class TestALeaseThatEnds:
    def test_is_noticed_while_the_store_hangs(self, place, monkeypatch):
        app, back = place(SHORT), threading.Event()
        one = bulkhead(app)
        events = events_of(one)
        slot = one.acquire()
        store = Asked(app.engine, monkeypatch)
        store.before = lambda order: back.wait(PATIENCE)

        until(lambda: "lease_lost" in events)

        assert slot.lost
        assert 1 == len(store.orders)  # which hangs still
        back.set()
        slot.release()
        assert ["acquired", "lease_lost", "released"] == events

    def test_cancels_its_tasks_while_the_store_hangs(self, place, monkeypatch):
        app, back = place(SHORT), threading.Event()
        one = bulkhead(app, on_lost="cancel")

        async def work():
            async with one:
                Asked(app.engine, monkeypatch).before = lambda order: back.wait(PATIENCE)
                await asyncio.sleep(PATIENCE)

        async def main():
            task = asyncio.create_task(work())
            await asyncio.wait([task], timeout=PATIENCE / 2)
            return task.cancelled()

        assert asyncio.run(main())
        assert not back.is_set()
        back.set()

    def test_makes_a_task_that_begins_too_late_ask_again(self, here, monkeypatch):
        one = bulkhead(here)
        borrower = used_once(one)
        store = Asked(here.engine, monkeypatch)

        async def call():
            async with one as slot:
                return slot.lost, clock.now() < borrower.valid_until, running(here)

        async def main():
            task = asyncio.create_task(call())
            await asyncio.sleep(0)
            until(lambda: one.pool.used)  # it is granted, but this loop does not let it begin
            borrower.valid_until = clock.now()
            return await asyncio.wait_for(task, PATIENCE)

        assert (False, True, 1) == asyncio.run(main())
        assert 2 == len({want.id for want in store.wants})

    def test_makes_a_thread_that_begins_too_late_ask_again(self, here, monkeypatch):
        one = bulkhead(here)
        borrower = used_once(one)
        store = Asked(here.engine, monkeypatch)
        self._halt_after_the_grant(borrower, monkeypatch)

        with thread(lambda: one.call(lambda: (clock.now() < borrower.valid_until, running(here)))) as answers:
            pass

        assert [(True, 1)] == answers
        assert 2 == len({want.id for want in store.wants})

    def test_leaves_a_call_that_asks_once_and_begins_too_late_with_nothing(self, here, monkeypatch):
        one = bulkhead(here)
        self._halt_after_the_grant(used_once(one), monkeypatch)

        assert one.try_acquire() is None

        until(lambda: running(here) == 0)
        with one.try_acquire() as slot:
            assert not slot.lost

    @staticmethod
    def _halt_after_the_grant(borrower, monkeypatch):
        block = slot_pool.block
        halt = once(lambda: setattr(borrower, "valid_until", clock.now()))

        def halted(*waiter):
            granted = block(*waiter)
            halt()
            return granted

        monkeypatch.setattr(slot_pool, "block", halted)

    def test_strands_no_call_whose_answer_comes_after_it(self, here, monkeypatch):
        one = bulkhead(here, 2)
        slot = one.acquire()
        borrower = borrower_of(here)
        store = Asked(here.engine, monkeypatch)
        store.after = if_wanted(once(lambda order: setattr(borrower, "valid_until", clock.now())))

        with thread(lambda: one.call(lambda: "in")) as answers:
            pass

        assert ["in"] == answers
        assert slot.lost
        slot.release()
        until(lambda: running(here) == 0)

    def test_strands_no_call_that_asks_while_the_store_hangs(self, place, monkeypatch):
        app, back = place(SHORT), threading.Event()
        one = bulkhead(app, 2)
        slot = one.acquire()
        store = Asked(app.engine, monkeypatch)
        store.after = if_wanted(once(lambda order: back.wait(PATIENCE)))

        with thread(lambda: one.call(lambda: "in")) as answers:
            until(lambda: slot.lost and not borrower_of(app)._holder)
            back.set()

        assert ["in"] == answers
        slot.release()
        until(lambda: running(app) == 0)

    @pytest.mark.parametrize("most", [1, None])
    def test_refuses_no_waiting_call_and_tells_of_the_wait_once(self, here, there, most):
        slot = bulkhead(there).acquire()
        one = bulkhead(here, max_queue=most)
        events = events_of(one)

        with thread(lambda: one.call(lambda: "in")) as answers:
            until(lambda: waiting(here) == 1)
            lose_the_lease(here)
            until(lambda: waiting(here) == 1)
            slot.release()

        assert ["in"] == answers
        assert ["queued", "acquired", "released"] == events

    def test_is_told_of_once_for_each_slot_however_often_it_happens(self, here):
        one = bulkhead(here, 2)
        events = events_of(one)
        slots = []
        for _ in range(2):
            slots.append(one.acquire())
            lose_the_lease(here)

        for slot in slots:
            slot.release()

        assert [*["acquired", "lease_lost"] * 2, *["released"] * 2] == events
        assert not one.pool._lost

    @pytest.mark.parametrize("ask", ["acquire", "try_acquire"])
    def test_leaves_nothing_of_an_idle_block_to_serve_from(self, here, monkeypatch, ask):
        one = bulkhead(here, 4, block=4)
        used_once(one)
        Asked(here.engine, monkeypatch).before = down
        assert {None: 4} == one.pool._borrowed

        monkeypatch.setattr(clock, "now", lambda: since_boot() + LONG * SECOND)

        with pytest.raises(StoreError):
            getattr(one, ask)()


class TestManyAtOnce:
    @pytest.mark.parametrize("ask", ["reject", "try"])
    def test_a_light_call_does_not_hang_behind_a_heavy_one_that_is_refused(self, here, ask):
        one = bulkhead(here, 2, **({"mode": "reject"} if ask == "reject" else {}))
        slot = one.acquire()

        def call(weight):
            if ask == "reject":
                with one.slot(weight=weight):
                    return "in"
            found = one.try_acquire(weight=weight)
            if found is None:
                return "busy"
            found.release()
            return "in"

        with ExitStack() as threads, one_round_trip(borrower_of(here), 2):
            heavy = threads.enter_context(thread(lambda: call(2)))
            until(lambda: borrower_of(here)._new)
            light = threads.enter_context(thread(lambda: call(1)))

        assert (["busy"], ["in"]) == ([told(answer) for answer in heavy], light)
        slot.release()
        until(lambda: running(here) == 0)

    def test_all_calls_that_ask_once_get_in_if_there_are_slots(self, here):
        one = bulkhead(here, 5)
        used_once(one)

        with ExitStack() as threads, one_round_trip(borrower_of(here), 5):
            answers = [threads.enter_context(thread(one.try_acquire)) for _ in range(5)]

        assert 5 == running(here)
        for (slot,) in answers:
            assert slot is not None
            slot.release()

    def test_another_bulkhead_of_the_name_is_served_from_an_idle_block(self, here, monkeypatch):
        monkeypatch.setattr(
            slot_pool, "IDLE", PATIENCE * 10 * SECOND
        )  # it comes back only if another pool wants it
        one, other = bulkhead(here, 5, block=5), bulkhead(here, 5)
        with one:
            assert 5 == running(here)

            with thread(lambda: other.call(lambda: "in")) as answers:
                pass

        assert ["in"] == answers


class TestPriority:
    def test_no_call_hangs_if_one_of_two_is_refused(self, here):
        one = bulkhead(here, 2, mode="reject", order="priority")
        events = events_of(one)
        slot = one.acquire()

        def call(priority):
            with one.slot(priority=priority):
                return "in"

        with ExitStack() as threads, one_round_trip(borrower_of(here), 2):
            low = threads.enter_context(thread(lambda: call(0)))
            until(lambda: borrower_of(here)._new)
            high = threads.enter_context(thread(lambda: call(5)))
        slot.release()

        assert ["busy", "in"] == sorted(told(answer) for answer in [*low, *high])
        until(lambda: Counter(acquired=2, released=2, busy=1) == Counter(events))

    def test_no_call_hangs_if_the_want_that_stands_for_it_fails(self, here, there, monkeypatch):
        """The one with priority takes what the other asked for; then the other waits by the first one's want."""
        slot = bulkhead(there).acquire()
        one = bulkhead(here, order="priority")
        events = events_of(one)
        go = threading.Event()

        def work(priority):
            with one.slot(priority=priority):
                go.wait(PATIENCE)

        with thread(lambda: work(0)) as low, thread(lambda: work(5)) as high:
            until(lambda: waiting(here) == 2)
            slot.release()
            until(lambda: "acquired" in events)
            Asked(here.engine, monkeypatch).before = if_wanted(down)
            lose_the_lease(here)
            until(lambda: low or high)
            go.set()

        assert [None] == high
        assert ["the store is down"] == [str(answer) for answer in low]
        assert Counter(queued=2, acquired=1, lease_lost=1, released=1, store=1) == Counter(events)
