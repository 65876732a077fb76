"""Transactions at once, step by step: one is held before its commit while another tries."""

import threading
import time
from contextlib import contextmanager, suppress

import psycopg
import pytest

from penstock.engine import open_engine
from penstock.limits.rules import Numbers
from tests.support.desk import Desk, slots
from tests.support.postgres import split_schema

HELD = 9.0  # less than the server's patience with a transaction that does nothing
PATIENCE = 4.0  # less than that, so that a thread that waits for it does not seem idle
QUIET = 0.3  # longer than the pauses of a process that polls because it cannot listen
PLAYERS = 4  # how many may be under way in one race
LIMITED = (slots("X", 1),)
FREE_OR_LIMITED = pytest.mark.parametrize("limits", [(), LIMITED], ids=["free", "limited"])

WAITS = """
    SELECT l.locktype, l.objid, l.objsubid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE NOT l.granted AND a.application_name = %s
"""


def quiet(engine):
    """Have an engine listen; return its revision once nothing more arrives."""
    end = time.monotonic() + PATIENCE
    revision = engine.revision()
    while (after := engine.wait(revision, QUIET)) != revision:
        assert time.monotonic() < end
        revision = after
    return revision


class _Do:
    """What a rival does: `do.claim(1)` is a call of its desk or, where a desk has no such verb, of its engine."""

    def __getattr__(self, verb):
        def say(*values, **options):
            return lambda desk: getattr(desk if hasattr(desk, verb) else desk.engine, verb)(
                *values, **options
            )

        return say


do = _Do()


class Undone(Exception):
    """A transaction was to be rolled back."""


class Try:
    """What one of the rivals tries, in a thread of its own."""

    def __init__(self, race, desk, name, action):
        self._race = race
        self._desk = desk
        self._name = name
        self._ended = threading.Event()
        self._answer = None
        self._error = None
        self.thread = threading.Thread(target=self._run, args=(action,), name=name)

    def _run(self, action):
        try:
            self._answer = action(self._desk)
        except BaseException as error:  # noqa: BLE001 - raised where the answer is asked for
            self._error = error
        finally:
            self._ended.set()

    def answer(self):
        """Return what came of it, once it has ended."""
        assert self._ended.wait(PATIENCE), f"{self._name} does not end; it waits for {self._waits()}"
        if self._error is not None:
            raise self._error
        return self._answer

    def waits_for(self, what):
        """Wait until it waits for that: the gates, the starts, a name or a row."""
        end = time.monotonic() + PATIENCE
        while not self._ended.is_set() and time.monotonic() < end:
            waits = self._waits()
            if waits:
                assert waits == [what], f"{self._name} waits for {waits}"
                return
            time.sleep(0.002)
        raise AssertionError(f"{self._name} did not wait: {self._answer!r} {self._error!r}")

    def _waits(self):
        rows = self._race.connection.execute(WAITS, (self._race.known_as(self._name),)).fetchall()
        return [_lock(*row) for row in rows]


class Held(Try):
    """A transaction that has done all its work and waits before its commit."""

    def __init__(self, race, desk, name, action):
        super().__init__(race, desk, name, action)
        self._reached = threading.Event()
        self._go = threading.Event()
        self._undo = False
        self.forgotten = False

    def begin(self):
        self._desk.engine.store.write = self._write
        self.thread.start()

    def reach_commit(self):
        """Wait until all its work is done."""
        while not self._reached.wait(0.005):
            assert not self._ended.is_set(), f"{self._name} ended: {self._answer!r} {self._error!r}"
        del self._desk.engine.store.write

    def commit(self):
        """Let it go on; return what came of it."""
        self._go.set()
        return self.answer()

    def roll_back(self):
        """Let it come to nothing."""
        self._undo = True
        with suppress(Undone):
            self.commit()

    def _write(self, work, **options):
        def held(db):
            answer = work(db)
            self._reached.set()
            self.forgotten = not self._go.wait(HELD)
            if self._undo or self.forgotten:
                raise Undone
            return answer

        return type(self._desk.engine.store).write(self._desk.engine.store, held, **options)


class Race:
    """A store and several who use it, each with connections of its own that are known by name."""

    def __init__(self, url, clock):
        self.url = url
        self.clock = clock
        self.connection = psycopg.connect(split_schema(url)[0], autocommit=True)
        self.desk = self._open("desk")
        # Open all of them now: opening the store waits for the gates.
        self._players = [(name, self._open(name)) for name in (f"player{n}" for n in range(PLAYERS))]
        self._desks = [self.desk, *(desk for _, desk in self._players)]
        self._tries = []

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        try:
            if not failed:
                self.finish()
                assert self.desk.engine.doctor() == []
        finally:
            self.close()

    def hold(self, action):
        """Have a rival do this, and hold the transaction before its commit."""
        held = self._next(Held, action)
        held.begin()
        held.reach_commit()
        return held

    def hold_once_it_gets(self, action, what):
        """Have a rival do this that waits for *what* first; `reach_commit` waits until it has it and has done all."""
        held = self._next(Held, action)
        held.begin()
        held.waits_for(what)
        return held

    @contextmanager
    def gates_taken(self):
        """Have a rival keep the gates for that long."""
        held = self.hold(do.override("unused", Numbers(slots=1)))
        yield
        held.commit()

    def start(self, action):
        """Have a rival try this."""
        tried = self._next(Try, action)
        tried.thread.start()
        return tried

    def meet(self, first, second, *, at):
        """Hold the *first* action before its commit; have another rival try the *second* until it waits there."""
        held = self.hold(first)
        tried = self.start(second)
        tried.waits_for(at)
        return held, tried

    def finish(self):
        """Let all rivals go on, and wait for them."""
        for tried in self._tries:
            if isinstance(tried, Held):
                tried._go.set()
        for tried in self._tries:
            tried.thread.join(HELD)
            assert not tried.thread.is_alive()
        # The transaction that holds something while others try must have held it all that time.
        assert not any(isinstance(tried, Held) and tried.forgotten for tried in self._tries)

    def close(self):
        self.finish()
        for desk in self._desks:
            desk.engine.close()
        self.connection.close()

    def _next(self, kind, action):
        name, desk = self._players.pop(0)
        tried = kind(self, desk, name, action)
        self._tries.append(tried)
        return tried

    def known_as(self, name):
        """Return by what name the server knows a rival."""
        return f"{split_schema(self.url)[1]}.{name}"

    def _open(self, name):
        url = f"{self.url}&application_name={self.known_as(name)}"
        desk = Desk(open_engine(url, clock=self.clock), self.clock)
        if name != "desk":
            desk.attempts = self.desk.attempts
        return desk


def _lock(kind, number, parts):
    if kind != "advisory":
        return "a row"
    return {(1, 2): "the gates", (2, 2): "the starts"}.get((number, parts), "a name")
