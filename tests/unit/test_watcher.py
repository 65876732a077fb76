"""Coroutines that wait for a change in the store miss none, and one thread serves them all."""

import asyncio
import threading
from contextlib import suppress

import pytest

from penstock.background import watcher as watcher_module
from penstock.background.watcher import Watcher
from penstock.errors import StoreDownError

PATIENCE = 20.0
LONG = 1_000.0


class Store:
    """A number of commits to wait for; `before_answer` runs in the thread between a wait and its answer."""

    def __init__(self):
        self.commits = 0
        self.waits = 0
        self.error = None
        self.before_answer = lambda: None
        self._changed = threading.Condition()

    def commit(self, error=None):
        with self._changed:
            self.commits += 1
            self.error = error
            self._changed.notify_all()

    def read(self):
        return self.commits

    def wait(self, revision, timeout):
        with self._changed:
            self.waits += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.commits != revision, timeout)
            if self.error:
                raise self.error
            now = self.commits
        self.before_answer()
        return now

    def until_waited_for(self, times):
        with self._changed:
            assert self._changed.wait_for(lambda: self.waits >= times, PATIENCE)


@pytest.fixture
def store(monkeypatch):
    monkeypatch.setattr(watcher_module, "SLICE", 0.01)
    return Store()


@pytest.fixture
def watcher(store):
    watcher = Watcher(store.read, store.wait)
    yield watcher
    watcher.close()
    until_the_thread_has_ended()


def threads():
    return [each for each in threading.enumerate() if each.name == "penstock-watcher"]


def until_the_thread_has_ended():
    for each in threads():
        each.join(PATIENCE)
    assert [] == threads()


def run(work):
    return asyncio.run(asyncio.wait_for(work, PATIENCE))


async def waiting(watcher, count):
    """Return so many tasks that wait for a change after now."""
    revision = watcher.look()
    tasks = [asyncio.create_task(watcher.changed(revision, LONG)) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


def test_all_that_wait_are_woken_by_one_thread(store, watcher):
    async def work():
        tasks = await waiting(watcher, 100)
        assert 1 == len(threads())
        store.commit()
        await asyncio.gather(*tasks)

    run(work())


def test_coroutines_on_several_event_loops_are_woken(store, watcher):
    async def work():
        await asyncio.gather(*await waiting(watcher, 1))

    loops = [threading.Thread(target=run, args=(work(),)) for _ in range(3)]
    for each in loops:
        each.start()
    while watcher._waiting < len(loops):
        store.until_waited_for(store.waits + 1)
    store.commit()
    for each in loops:
        each.join(PATIENCE)
    assert not any(each.is_alive() for each in loops)


def test_a_change_between_the_look_and_the_wait_is_not_missed(store, watcher):
    async def work():
        revision = watcher.look()
        store.commit()
        # Once the thread waits for the next change, it has told of this one.
        await asyncio.to_thread(store.until_waited_for, store.waits + 2)
        await watcher.changed(revision, LONG)

    run(work())


def test_a_change_that_the_thread_has_seen_and_not_yet_told_is_not_missed(store, watcher):
    """The coroutine looks at the very moment at which the thread knows of one change and not of the next."""
    seen, told = threading.Event(), threading.Event()

    def hold():
        if not seen.is_set() and store.commits:
            seen.set()
            told.wait(PATIENCE)

    store.before_answer = hold

    async def work():
        watcher.look()
        store.commit()
        await asyncio.to_thread(seen.wait, PATIENCE)
        revision = watcher.look()
        store.commit()
        told.set()
        await watcher.changed(revision, LONG)

    run(work())


def test_a_change_after_the_thread_has_ended_is_not_missed(store, watcher, monkeypatch):
    monkeypatch.setattr(watcher_module, "LINGER", -1)

    async def work():
        revision = watcher.look()
        await asyncio.to_thread(until_the_thread_has_ended)
        store.commit()
        await watcher.changed(revision, LONG)
        (task,) = await waiting(watcher, 1)
        store.commit()
        await task

    run(work())


def test_the_thread_goes_on_while_a_coroutine_waits_and_ends_soon_after(store, watcher, monkeypatch):
    monkeypatch.setattr(watcher_module, "LINGER", 0)

    async def work():
        revision = watcher.look()
        task = asyncio.create_task(watcher.changed(revision, LONG))
        await asyncio.sleep(0)
        if watcher._waiting and watcher.look() == revision:
            await asyncio.to_thread(store.until_waited_for, store.waits + 3)
            assert 1 == len(threads())
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await asyncio.to_thread(until_the_thread_has_ended)

    run(work())
    assert 0 == watcher._waiting


def test_what_is_given_up_after_a_time_looks_like_a_change(watcher):
    run(watcher.changed(watcher.look(), 0.001))


def test_closing_wakes_all_and_lets_none_wait(watcher):
    async def work():
        tasks = await waiting(watcher, 2)
        watcher.close()
        await asyncio.gather(*tasks)
        await watcher.changed(watcher.look(), LONG)

    run(work())
    until_the_thread_has_ended()


def test_a_failure_wakes_all_once_and_changes_are_heard_of_after_it(store, watcher, monkeypatch):
    monkeypatch.setattr(watcher_module, "RECOVERY", 0.001)

    async def work():
        tasks = await waiting(watcher, 2)
        store.commit(StoreDownError("away"))
        await asyncio.gather(*tasks)
        (task,) = await waiting(watcher, 1)
        await asyncio.to_thread(store.until_waited_for, store.waits + 5)
        assert not task.done()
        store.commit()
        await task

    run(work())
