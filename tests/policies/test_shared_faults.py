"""What went wrong once with slots that are shared: stores that hang or fail, leases that end, calls that leave."""

import asyncio
import gc
import multiprocessing
import threading
import time
import warnings
import weakref
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager

import pytest

from penstock import App
from penstock.clock import SECOND, since_boot
from penstock.errors import StoreDownError, StoreError, StoreReplacedError
from penstock.policies import Bulkhead, BulkheadFull, clock
from penstock.policies.shared import borrower as borrower_module
from penstock.policies.shared import slot_pool
from penstock.policies.shared.borrower import GLANCE, Borrower, _borrowers
from tests.support.sharing import PATIENCE, bulkhead, running, thread, until, waiting

LONG = 20  # a lease that does not end during a test
SHORT = 1  # one that does
GLIMPSE = 0.3  # how long something is watched that must not happen


@pytest.fixture
def place(tmp_path):
    """Return what opens apps on one file, each of which stands for a process."""
    apps = []

    def opened(lease=LONG):
        apps.append(App(tmp_path / "jobs.db", lease=lease))
        return apps[-1]

    yield opened
    for app in apps:
        assert [] == app.engine.doctor()
        app.close()


@pytest.fixture
def here(place):
    return place()


@pytest.fixture
def there(place):
    return place()


def told(answer):
    """Return why a call was refused, or what it returned."""
    return getattr(answer, "reason", answer)


def events_of(one):
    events = []
    one.listen(lambda event: events.append(event.kind if event.reason is None else event.reason))
    return events


def borrower_of(app):
    return _borrowers[id(app.engine)]


def used_once(one):
    """Have the desk of a bulkhead open, and nothing left to be done there."""
    with one:
        pass
    borrower = one.pool._borrower
    until(lambda: not borrower._busy() and not borrower._lead.locked())
    return borrower


@contextmanager
def one_exchange(borrower, wants):
    """Let so many wants come to the store together."""
    with borrower._lead:
        yield
        until(lambda: len(borrower._new) == wants)
    borrower.ring()


def lose_the_lease(app):
    """Let the store give a lease up, as after a halt, and let its process hear of it."""
    borrower = borrower_of(app)
    with borrower._lead:
        app.engine.leave(borrower._holder)
        borrower._exchange(look=True)


class Asked:
    """Stands between a desk and its store: counts what is asked, and does something else on the way."""

    def __init__(self, engine, monkeypatch, verb="lend"):
        self.orders = []
        self.before = self.after = lambda order: None
        self._real = getattr(engine, verb)
        monkeypatch.setattr(engine, verb, self)

    @property
    def wants(self):
        return [want for order in self.orders for want in order.wanted]

    def __call__(self, *order):
        self.orders.append(order[0])
        self.before(order[0])
        answer = self._real(*order)
        self.after(order[0])
        return answer


def down(*_):
    raise StoreDownError("the store is down")


def once(do):
    """Return what does something the first time only."""
    times = [do]
    return lambda *args: times.pop()(*args) if times else None


def if_wanted(do):
    """Return what does something for orders with wants."""
    return lambda order: do(order) if order.wanted else None


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

    def test_leaves_one_who_asks_once_and_begins_too_late_with_nothing(self, here, monkeypatch):
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

    def test_strands_nobody_whose_answer_comes_after_it(self, here, monkeypatch):
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

    def test_strands_nobody_who_asks_while_the_store_hangs(self, place, monkeypatch):
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
    def test_refuses_nobody_who_waits_and_tells_of_the_wait_once(self, here, there, most):
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

        with ExitStack() as threads, one_exchange(borrower_of(here), 2):
            heavy = threads.enter_context(thread(lambda: call(2)))
            until(lambda: borrower_of(here)._new)
            light = threads.enter_context(thread(lambda: call(1)))

        assert (["busy"], ["in"]) == ([told(answer) for answer in heavy], light)
        slot.release()
        until(lambda: running(here) == 0)

    def test_all_who_ask_once_get_in_if_there_are_slots(self, here):
        one = bulkhead(here, 5)
        used_once(one)

        with ExitStack() as threads, one_exchange(borrower_of(here), 5):
            answers = [threads.enter_context(thread(one.try_acquire)) for _ in range(5)]

        assert 5 == running(here)
        for (slot,) in answers:
            assert slot is not None
            slot.release()

    def test_another_bulkhead_of_the_name_is_served_from_an_idle_block(self, here, monkeypatch):
        monkeypatch.setattr(
            slot_pool, "IDLE", PATIENCE * 10 * SECOND
        )  # it comes back only if somebody wants it
        one, other = bulkhead(here, 5, block=5), bulkhead(here, 5)
        with one:
            assert 5 == running(here)

            with thread(lambda: other.call(lambda: "in")) as answers:
                pass

        assert ["in"] == answers


class TestPriority:
    def test_nobody_hangs_if_one_of_two_is_refused(self, here):
        one = bulkhead(here, 2, mode="reject", order="priority")
        events = events_of(one)
        slot = one.acquire()

        def call(priority):
            with one.slot(priority=priority):
                return "in"

        with ExitStack() as threads, one_exchange(borrower_of(here), 2):
            low = threads.enter_context(thread(lambda: call(0)))
            until(lambda: borrower_of(here)._new)
            high = threads.enter_context(thread(lambda: call(5)))
        slot.release()

        assert ["busy", "in"] == sorted(told(answer) for answer in [*low, *high])
        until(lambda: Counter(acquired=2, released=2, busy=1) == Counter(events))

    def test_nobody_hangs_if_the_want_that_stands_for_it_fails(self, here, there, monkeypatch):
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


class TestAStoreThatFails:
    def test_ends_the_waits_of_those_it_was_asked_for_and_tells_of_it(self, here, there, monkeypatch):
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

    def test_is_not_asked_without_end_by_one_who_waits(self, here, there, monkeypatch):
        slot, one, free = bulkhead(there).acquire(), bulkhead(here), bulkhead(here, name="free")
        borrower = one.pool._open()
        monkeypatch.setattr(borrower, "_start", lambda: None)  # nobody else asks
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

    def test_is_not_asked_without_end_who_wants_a_block_and_the_lease_is_renewed(self, place, monkeypatch):
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

    def test_is_not_listened_to_when_nobody_waits(self, here, there, monkeypatch):
        slot = bulkhead(there).acquire()
        one = bulkhead(here, max_wait=0.2, shed=False)
        Asked(here.engine, monkeypatch).before = lambda order: None if order.wanted else down()

        with thread(lambda: one.call(lambda: "in")) as answers:
            until(lambda: waiting(here) == 1)
        here.engine.leave(borrower_of(here)._holder)  # nobody here can hear of it
        listened = Asked(here.engine, monkeypatch, "await_loan")
        time.sleep(GLIMPSE)

        assert ["wait_timeout"] == [told(answer) for answer in answers]
        assert len(listened.orders) <= 1
        slot.release()

    def test_an_interrupt_of_the_first_who_asks_strands_nobody(self, here, monkeypatch):
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
    def test_an_app_whose_store_is_gone_tells_those_who_wait(self, here, there, monkeypatch):
        slot = bulkhead(there).acquire()
        one = bulkhead(here)
        events = events_of(one)

        with thread(lambda: one.call(lambda: "in")) as answers:
            until(lambda: waiting(here) == 1)
            engine = here.engine
            monkeypatch.setattr(engine, "leave", down)
            with pytest.raises(StoreDownError, match="is down"):
                here.close()

        assert ["the app was closed while somebody waited for its slots"] == [str(each) for each in answers]
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

    def test_an_app_that_is_being_closed_is_opened_again_by_those_who_come(self, here, monkeypatch):
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

    def test_an_app_that_is_closed_while_somebody_comes_tells_that_one(self, here, monkeypatch):
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

        assert ["the app was closed while somebody asked for its slots"] * 2 == [
            str(answer) for answer in [*answers, *others]
        ]
        assert not one.pool.wait_lists

    @pytest.mark.parametrize("kind", ["shared", "local"])
    def test_a_bulkhead_with_one_whose_event_loop_is_gone(self, here, there, kind):
        one = bulkhead(here) if kind == "shared" else Bulkhead(1)
        slot = bulkhead(there).acquire() if kind == "shared" else one.acquire()
        tasks = []

        def wait_and_end():
            loop = asyncio.new_event_loop()
            tasks.append(loop.create_task(one.acall(asyncio.sleep, 0)))
            while not one.stats().queued or (kind == "shared" and not waiting(here)):
                loop.run_until_complete(asyncio.sleep(0.002))
            loop.close()  # without a word to the task

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

    def test_of_those_who_waited(self, place, there, monkeypatch):
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
            kept = (
                pool.wait_lists,
                pool._wants._brought,
                pool._announced,
                pool._once,
                pool._errors,
                pool._lost,
            )
            assert [0] * 6 == [len(each) for each in kept]
        assert [0] * 3 == [len(each) for each in (borrower._known, borrower._new, borrower._lined)]

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

    def test_of_bulkheads_that_nobody_has_any_more(self, place):
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

    def test_those_of_an_executor_give_everything_back(self, here, tmp_path):
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


taken = []  # so that nobody gives them back who collects garbage


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

    @pytest.mark.parametrize("kind", ["shared", "local"])
    def test_a_bulkhead_with_one_whose_event_loop_is_gone_in_this_thread(self, here, there, kind):
        one = bulkhead(here) if kind == "shared" else Bulkhead(1)
        slot = bulkhead(there).acquire() if kind == "shared" else one.acquire()
        loop = asyncio.new_event_loop()
        task = loop.create_task(one.acall(asyncio.sleep, 0))
        while not one.stats().queued or (kind == "shared" and not waiting(here)):
            loop.run_until_complete(asyncio.sleep(0.002))
        loop.close()  # without a word to the task

        try:
            one.close(drain=0.01)
        finally:
            slot.release()
            task._log_destroy_pending = False

    def test_orders_of_one_who_was_struck_before_the_store_was_asked_are_not_forgotten(
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
            patch.setattr(borrower_module, "Lending", struck)
            slot.release()
            with pytest.raises(KeyboardInterrupt), one:
                pass
        borrower._bell.set()

        until(lambda: running(app) == 0)

    def test_slots_kept_over_a_sleep_of_the_machine_are_nobody_s(self, here, there, monkeypatch):
        one = bulkhead(here, 2, block=2)
        used_once(one)
        assert 2 == running(there)
        awake = time.clock_gettime_ns

        monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: awake(clock) + 3_600 * 10**9)

        with bulkhead(there, 2), bulkhead(there, 2).slot():
            assert one.try_acquire() is None


def test_one_in_line_is_told_when_the_file_of_the_store_is_gone(tmp_path):
    """B4."""
    with (
        closing(App(tmp_path / "jobs.db", lease=60)) as here,
        closing(App(tmp_path / "jobs.db", lease=60)) as there,
    ):
        with bulkhead(here), thread(lambda: bulkhead(there).call(lambda: "never")) as answers:
            until(lambda: waiting(here) == 1)
            (tmp_path / "jobs.db").unlink()
            until(lambda: answers)

        assert isinstance(answers[0], StoreReplacedError)
