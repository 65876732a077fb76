"""Shared slots while stores fail, apps are closed and processes end: no call hangs, nothing is left."""

import asyncio
import gc
import multiprocessing
import threading
import time
import warnings
import weakref
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager

import pytest

from penstock import App
from penstock.clock import SECOND
from penstock.errors import StoreDownError, StoreReplacedError
from penstock.policies import Bulkhead, BulkheadFull
from penstock.policies.shared import borrower as borrower_module
from penstock.policies.shared import round_trips, slot_pool
from penstock.policies.shared.borrower import GLANCE, Borrower, _borrowers
from tests.support.sharing import PATIENCE, bulkhead, running, thread, until, waiting
from tests.support.sharing_faults import (
    GLIMPSE,
    LONG,
    SHORT,
    Asked,
    borrower_of,
    down,
    events_of,
    if_wanted,
    lose_the_lease,
    once,
    told,
    used_once,
)


class TestAStoreThatFails:
    def test_ends_the_waits_it_was_asked_for_and_tells_of_it(self, here, there, monkeypatch):
        slot = bulkhead(there).acquire()
        one = bulkhead(here)
        events = events_of(one)

        with thread(lambda: one.call(lambda: "in")) as answers:
            until(lambda: waiting(here) == 1)
            Asked(here.engine, monkeypatch).before = if_wanted(down)
            lose_the_lease(here)

        assert ["the store is down"] == [str(answer) for answer in answers]
        assert ["queued", "store"] == events
        assert {"store": 1} == one.stats().rejected
        slot.release()

    def test_is_not_asked_without_end_by_a_waiting_call(self, here, there, monkeypatch):
        slot, one, free = bulkhead(there).acquire(), bulkhead(here), bulkhead(here, name="free")
        borrower = one.pool._open()
        monkeypatch.setattr(borrower, "_start", lambda: None)  # no other thread asks
        mine = free.acquire()
        store = Asked(here.engine, monkeypatch)

        def fail_from_now_on(order):
            mine.release()  # so that there is something else to be done
            store.before = down

        store.after = if_wanted(once(fail_from_now_on))
        with thread(lambda: one.call(lambda: "in")) as answers:
            until(lambda: len(store.orders) > 1)
            time.sleep(GLIMPSE)
            asked = len(store.orders)
            store.before = lambda order: None
            slot.release()
            Borrower._start(borrower)

        assert 2 == asked
        assert ["in"] == answers

    def test_is_not_asked_without_end_by_the_thread_that_gives_back(self, place, monkeypatch):
        app = place(3 * SHORT)
        slot = bulkhead(app).acquire()
        store = Asked(app.engine, monkeypatch)
        store.before = down

        slot.release()
        until(lambda: store.orders)
        time.sleep(GLIMPSE)

        assert len(store.orders) < 5
        store.before = lambda order: None
        until(lambda: running(app) == 0)

    def test_is_not_asked_without_end_for_wants_of_a_block_and_the_lease_is_renewed(self, place, monkeypatch):
        app = place(SHORT)
        one = bulkhead(app, 4, block=4)
        slot = one.acquire()
        borrower = borrower_of(app)
        store = Asked(app.engine, monkeypatch, "wanted_by_others")
        store.before = down
        began, first = time.monotonic(), borrower.valid_until

        until(lambda: borrower.valid_until > first + SHORT * SECOND or slot.lost)

        assert not slot.lost
        assert store.orders
        assert len(store.orders) <= (time.monotonic() - began) * SECOND / GLANCE + 5
        slot.release()

    def test_is_not_listened_to_when_no_call_waits(self, here, there, monkeypatch):
        slot = bulkhead(there).acquire()
        one = bulkhead(here, max_wait=0.2, shed=False)
        Asked(here.engine, monkeypatch).before = lambda order: None if order.wanted else down()

        with thread(lambda: one.call(lambda: "in")) as answers:
            until(lambda: waiting(here) == 1)
        here.engine.leave(borrower_of(here)._holder)  # this process does not hear of it
        listened = Asked(here.engine, monkeypatch, "await_loan")
        time.sleep(GLIMPSE)

        assert ["wait_timeout"] == [told(answer) for answer in answers]
        assert len(listened.orders) <= 1
        slot.release()

    def test_an_interrupt_of_the_first_thread_that_asks_strands_no_call(self, here, monkeypatch):
        one = bulkhead(here, 2)
        borrower = one.pool._open()
        monkeypatch.setattr(borrower, "_start", lambda: None)  # the threads come later

        def interrupt(order):
            raise KeyboardInterrupt

        Asked(here.engine, monkeypatch).before = once(interrupt)

        borrower._lead.acquire()
        with thread(lambda: one.call(lambda: "in")) as answers:
            until(borrower._bell.is_set)  # it has left its want for others to take to the store
            borrower._lead.release()
            with pytest.raises(KeyboardInterrupt), one:
                pass
            Borrower._start(borrower)

        assert ["in"] == answers
        until(lambda: running(here) == 0)


class TestClosing:
    def test_an_app_whose_store_is_gone_tells_waiting_calls(self, here, there, monkeypatch):
        slot = bulkhead(there).acquire()
        one = bulkhead(here)
        events = events_of(one)

        with thread(lambda: one.call(lambda: "in")) as answers:
            until(lambda: waiting(here) == 1)
            engine = here.engine
            monkeypatch.setattr(engine, "leave", down)
            with pytest.raises(StoreDownError, match="is down"):
                here.close()

        assert ["the app was closed while a call waited for its slots"] == [str(each) for each in answers]
        assert ["queued", "store"] == events
        slot.release()

    def test_an_app_between_a_grant_and_its_start_makes_the_call_ask_again(self, here, there):
        one = bulkhead(here)
        used_once(one)

        async def call():
            async with one as slot:
                return slot.lost, running(there)

        async def main():
            task = asyncio.create_task(call())
            await asyncio.sleep(0)
            until(lambda: one.pool.used)
            here.close()
            return [await asyncio.wait_for(each, PATIENCE) for each in (task, call())]

        assert [(False, 1)] * 2 == asyncio.run(main())
        assert not one.pool.wait_lists
        until(lambda: running(there) == 0 and waiting(there) == 0)

    def test_an_app_that_is_being_closed_is_opened_again_by_the_next_call(self, here, monkeypatch):
        one = bulkhead(here)
        used_once(one)
        go = threading.Event()
        store = Asked(here.engine, monkeypatch, "leave")
        store.after = lambda holder: go.wait(PATIENCE)

        async def main():
            async with asyncio.timeout(PATIENCE / 2), one:
                return "in"

        with thread(here.close):
            until(lambda: store.orders)
            assert "in" == asyncio.run(main())
            assert not go.is_set()
            go.set()

    def test_an_app_that_is_closed_while_a_call_comes_tells_it(self, here, monkeypatch):
        one = bulkhead(here)
        used_once(one)
        open_ = one.pool._open

        def just_before_the_close():
            borrower = open_()
            here.close()
            return borrower

        monkeypatch.setattr(one.pool, "_open", just_before_the_close)
        with thread(lambda: one.call(lambda: "in")) as answers, thread(one.try_acquire) as others:
            pass

        assert ["the app was closed while a call asked for its slots"] * 2 == [
            str(answer) for answer in [*answers, *others]
        ]
        assert not one.pool.wait_lists

    @pytest.mark.parametrize("by", ["another thread", "this thread"])
    @pytest.mark.parametrize("kind", ["shared", "local"])
    def test_a_bulkhead_with_a_waiter_whose_event_loop_is_gone(self, here, there, kind, by):
        one = bulkhead(here) if kind == "shared" else Bulkhead(1)
        slot = bulkhead(there).acquire() if kind == "shared" else one.acquire()
        tasks = []

        def wait_and_end():
            loop = asyncio.new_event_loop()
            tasks.append(loop.create_task(one.acall(asyncio.sleep, 0)))
            while not one.stats().queued or (kind == "shared" and not waiting(here)):
                loop.run_until_complete(asyncio.sleep(0.002))
            loop.close()  # without a word to the task

        if by == "this thread":
            wait_and_end()
        else:
            with thread(wait_and_end):
                pass
        one.close(drain=0.01)

        with pytest.raises(BulkheadFull, match="closed"):
            one.acquire()
        slot.release()
        tasks[0]._log_destroy_pending = False
        until(lambda: kind == "local" or (running(there) == 0 and waiting(there) == 0))


class TestNothingIsLeft:
    @pytest.mark.parametrize("block", [1, 2])
    def test_of_keys_that_are_idle(self, here, monkeypatch, block):
        monkeypatch.setattr(slot_pool, "IDLE", 0)
        one = Bulkhead(2, key=lambda key: key, shared=here, block=block)

        for number in range(30):
            with one.slot(key=f"key{number}"):
                pass
        until(lambda: not one.pool._borrowed and not borrower_of(here)._busy())

        pool = one.pool
        kept = (pool.used, pool.wait_lists, pool._gates, pool._used_at, pool._contended, pool._announced)
        assert [0] * 6 == [len(each) for each in kept]
        assert [{}, {}, {}] == [pool._wants._brought, pool._wants._of_key, pool._wants._told]

    def test_of_calls_that_waited(self, place, there, monkeypatch):
        here, slot = place(3 * SHORT), bulkhead(there).acquire()
        one, other = bulkhead(here, max_queue=1), bulkhead(here, max_wait=0.02, shed=False)

        with thread(lambda: one.call(lambda: "in")) as answers:
            until(lambda: waiting(here) == 1)
            for each in (one, other):
                with pytest.raises(BulkheadFull), each:
                    pass
            assert other.try_acquire() is None
            slot.release()
        Asked(here.engine, monkeypatch).before = if_wanted(once(down))
        with pytest.raises(StoreDownError), one:
            pass
        borrower = borrower_of(here)
        until(lambda: not borrower._busy())

        assert ["in"] == answers
        for pool in (one.pool, other.pool):
            left = (pool.wait_lists, pool._wants._brought, pool._announced, pool._once)
            assert [0] * 6 == [len(each) for each in (*left, pool._errors, pool._lost)]
        assert [0] * 3 == [len(each) for each in (borrower._known, borrower._new, borrower._at_store)]

    def test_of_apps_that_are_closed(self, place, tmp_path):
        before = len(_borrowers)
        gone = []
        for _ in range(3):
            app = App(tmp_path / "jobs.db")
            one = bulkhead(app)
            with one:
                pass
            gone += [weakref.ref(each) for each in (app.engine, one.pool, one.pool._borrower)]
            app.close()
        del app, one

        until(lambda: gc.collect() >= 0 and not any(ref() for ref in gone))

        assert before == len(_borrowers)

    def test_of_bulkheads_that_were_dropped(self, place):
        app = place(SHORT)
        gone = []
        for _ in range(20):
            one = bulkhead(app)
            with one:
                pass
            gone.append(weakref.ref(one.pool))
        del one

        until(lambda: gc.collect() >= 0 and not any(ref() for ref in gone))

        assert not borrower_of(app)._pools


class TestProcessesThatEnd:
    @pytest.mark.parametrize("release", [True, False])
    def test_a_forked_one_gives_everything_back(self, here, tmp_path, release):
        work = (str(tmp_path / "jobs.db"), release)
        child = multiprocessing.get_context("fork").Process(target=take_a_slot, args=work, daemon=True)

        with forks():
            child.start()
        child.join(PATIENCE)

        assert 0 == child.exitcode
        assert 0 == running(here)

    def test_processes_of_an_executor_give_everything_back(self, here, tmp_path):
        urls = [str(tmp_path / "jobs.db")] * 4
        context = multiprocessing.get_context("fork")

        with forks(), ProcessPoolExecutor(2, mp_context=context) as executor:
            answers = list(executor.map(take_a_slot, urls, timeout=PATIENCE))

        assert [True] * 4 == answers
        assert 0 == running(here)


@contextmanager
def forks():
    """Let processes be forked beside threads, of which newer Pythons warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


taken = []  # so that they are not garbage collected


def take_a_slot(url, release=False):
    """Take one of many slots, in a process that ends without a word of it."""
    taken.append(Bulkhead(9, name="api", shared=App(url, lease=LONG)).acquire())
    if release:
        taken.pop().release()
    return True


class TestAfterwards:
    def test_what_the_store_did_not_hear_of_goes_back_when_it_answers_again(self, place, monkeypatch):
        monkeypatch.setattr(borrower_module, "TRIES", 600)
        app = place(3 * LONG)  # so that no renewal comes first
        slot = bulkhead(app).acquire()
        Asked(app.engine, monkeypatch).before = once(down)

        slot.release()

        until(lambda: running(app) == 0)

    def test_a_want_that_the_store_did_not_hear_of_is_asked_again_when_it_answers(
        self, place, there, monkeypatch
    ):
        """One thread is interrupted after another's want went along; that one must not wait for a renewal."""
        monkeypatch.setattr(borrower_module, "TRIES", 600)
        app = place(3 * LONG)
        one = bulkhead(app, 2)
        borrower = used_once(one)
        store = Asked(app.engine, monkeypatch)

        def interrupt(order):
            raise KeyboardInterrupt

        store.before = if_wanted(once(interrupt))
        borrower._lead.acquire()
        monkeypatch.setattr(borrower._bell, "set", lambda: None)  # the thread sleeps
        with thread(lambda: one.call(lambda: "in")) as answers:
            until(lambda: borrower._new)
            time.sleep(0.1)
            borrower._lead.release()
            with pytest.raises(KeyboardInterrupt), one:
                pass
            monkeypatch.undo()
            borrower._bell.set()
        assert ["in"] == answers

    def test_an_app_whose_store_is_gone_is_closed_all_the_same(self, here, monkeypatch):
        with bulkhead(here):
            pass
        engine = here.engine
        monkeypatch.setattr(engine, "leave", down)

        with pytest.raises(StoreDownError, match="is down"):
            here.close()

        with pytest.raises(StoreDownError, match="was closed"):
            engine.gate("api")

    def test_orders_of_a_thread_interrupted_before_the_store_was_asked_are_not_forgotten(
        self, place, monkeypatch
    ):
        app = place(3 * LONG)  # so that no renewal comes first
        one = bulkhead(app, 2)
        borrower = used_once(one)
        slot = one.acquire()

        def struck(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(borrower._bell, "set", lambda: None)  # the thread sleeps
            patch.setattr(round_trips, "Lending", struck)
            slot.release()
            with pytest.raises(KeyboardInterrupt), one:
                pass
        borrower._bell.set()

        until(lambda: running(app) == 0)

    def test_slots_held_over_a_sleep_of_the_machine_are_lost(self, here, there, monkeypatch):
        one = bulkhead(here, 2, block=2)
        used_once(one)
        assert 2 == running(there)
        awake = time.clock_gettime_ns

        monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: awake(clock) + 3_600 * 10**9)

        with bulkhead(there, 2), bulkhead(there, 2).slot():
            assert one.try_acquire() is None


def test_a_waiting_call_is_told_when_the_file_of_the_store_is_gone(tmp_path):
    file = tmp_path / "jobs.db"
    with closing(App(file, lease=60)) as here, closing(App(file, lease=60)) as there:
        with bulkhead(here), thread(lambda: bulkhead(there).call(lambda: "never")) as answers:
            until(lambda: waiting(here) == 1)
            file.unlink()
            until(lambda: answers)

        assert isinstance(answers[0], StoreReplacedError)
