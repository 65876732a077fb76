"""Attempts that stand by until a hand is free: in order, never more at once than hands, and not at all once late."""

import asyncio
import threading
import time
from contextvars import ContextVar
from itertools import pairwise

import pytest

from penstock.clock import MILLISECOND, SECOND
from penstock.lifecycle.outcomes import Again, Cancelled, Done, Failed, HandedBack, Limited
from penstock.worker import Cancel, RateLimited, Retry, expected, standby
from penstock.worker.context import CURRENT
from penstock.worker.leases import Leases
from penstock.worker.loop import Loop
from penstock.worker.threads import Threads
from tests.support.stub_engine import StubEngine
from tests.support.working import work, working

HELD = ContextVar("HELD", default=0)
KINDS = pytest.mark.parametrize("kind", ["async", "plain"])


@pytest.fixture
def engine():
    return StubEngine(most_standing=50)


@pytest.fixture
def patient(monkeypatch):
    """What stands by is not handed back, and all tasks count as short, however slow the machine is."""
    monkeypatch.setattr(standby, "WITHIN", 20 * SECOND)
    monkeypatch.setattr(standby, "FIRST", 200)
    monkeypatch.setattr(expected, "STANDBY", 10 * SECOND)


class Stage:
    """A handler called *act* that does for the job of each number what *parts* says; others end at once."""

    def __init__(self, kind="async", parts=None):
        self.parts = parts or {}
        self.begun = []
        self.ended = []
        self.finished = []  # those that ended by themselves
        self.most = 0
        self._context_was_clean = []
        self._lock = threading.Lock()
        self.act = self._async() if kind == "async" else self._plain()

    @property
    def is_clean(self):
        """Whether none saw what another left in its context."""
        return not any(self._context_was_clean)

    def _plain(self):
        def act():
            part = self._enter()
            try:
                if part is None:
                    threading.Event().wait(0.0005)
                else:
                    part()
            finally:
                self._leave()

        return act

    def _async(self):
        async def act():
            part = self._enter()
            try:
                if part is None:
                    await asyncio.sleep(0.0005)
                    self.finished.append(CURRENT.get().claimed.seq)
                elif asyncio.iscoroutinefunction(part):
                    await part()
                else:
                    await asyncio.get_running_loop().run_in_executor(None, part)
            finally:
                self._leave()

        return act

    def _enter(self):
        number = CURRENT.get().claimed.seq
        with self._lock:
            self.begun.append(number)
            self.most = max(self.most, len(self.begun) - len(self.ended))
        self._context_was_clean.append(HELD.get())
        HELD.set(1)
        return self.parts.get(number)

    def _leave(self):
        with self._lock:
            self.ended.append(CURRENT.get().claimed.seq)


class Pause:
    """What a handler does that holds its hand until the test lets it go on."""

    def __init__(self):
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self):
        self.begun.set()
        assert self.go_on.wait(10)


def ids(*numbers):
    return [f"job-{number}" for number in numbers]


def held(kind, parts=None):
    """Return a stage and what holds the hand of its second job; what is behind that stands by if there is one hand."""
    pause = Pause()
    return Stage(kind, {2: pause, **(parts or {})}), pause


def standing(engine, pause, count):
    """Wait until the second job runs and so many stand by."""
    assert pause.begun.wait(10)
    engine.until(lambda: len(engine._running) == count + 1)


def has_all_hands(engine, kind, number):
    """See that the worker has so many hands for a task *meet*, neither more nor fewer; return that handler."""
    barrier = threading.Barrier(number)
    most = []

    def wait():
        most.append(1)
        barrier.wait(10)

    async def wait_async():
        await asyncio.get_running_loop().run_in_executor(None, wait)

    wait.__name__ = wait_async.__name__ = "meet"

    def check():
        last = int(engine.enqueue("meet", count=number).removeprefix("job-"))
        engine.ended(*ids(*range(last - number + 1, last + 1)))
        assert len(most) == number

    return (wait if kind == "plain" else wait_async), check


@KINDS
@pytest.mark.parametrize("hands", [1, 3])
def test_each_begins_when_a_hand_is_free_and_never_more_than_hands(engine, patient, kind, hands):
    stage = Stage(kind)
    engine.enqueue("act", count=60)
    work(engine, stage.act, concurrency=hands, threads=hands)

    assert stage.most <= hands
    assert stage.is_clean
    if kind == "async" or hands == 1:
        assert stage.begun == list(range(1, 61))
    assert [*engine.outcomes.values()] == [Done()] * 60
    assert max(engine.standbys) > 0
    assert len(engine.claims) < 20  # far fewer exchanges than jobs
    assert max(count for _, count, _ in engine.claims) == hands


@KINDS
def test_what_came_when_a_hand_was_free_already_begins_at_once(engine, patient, kind):
    second, third_goes_on = Pause(), threading.Event()
    stage = Stage(kind, {2: second, 3: lambda: third_goes_on.wait(10), 4: third_goes_on.set})
    asked = []

    def hook(verb):
        if verb == "claim":
            asked.append(verb)
            if len(asked) == 2:
                assert second.begun.wait(10)
                second.go_on.set()
                # The hand of the second is free before this claim is answered.
                while 2 not in stage.ended:
                    time.sleep(0.001)
                time.sleep(0.02)

    engine.enqueue("act", count=6)
    engine.hook = hook
    work(engine, stage.act, concurrency=2, threads=2)

    assert sorted(stage.begun) == [1, 2, 3, 4, 5, 6]
    assert stage.most == 2
    assert third_goes_on.is_set()


@pytest.mark.parametrize(
    "end", [ValueError("no"), Retry(after="1s"), Cancel("no"), RateLimited("1s"), SystemExit()]
)
@KINDS
def test_however_a_handler_ends_its_hand_takes_the_next(engine, patient, kind, end):
    def fail():
        raise end

    async def fail_async():
        raise end

    stage, pause = held(kind, {3: fail if kind == "plain" else fail_async})
    meet, check = has_all_hands(engine, kind, 1)
    engine.enqueue("act", count=5)
    with working(engine, stage.act, meet, concurrency=1, threads=1):
        standing(engine, pause, 3)
        pause.go_on.set()
        engine.ended(*ids(1, 2, 3, 4, 5))
        check()

    assert stage.begun == [1, 2, 3, 4, 5]
    assert stage.most == 1
    if not isinstance(end, SystemExit):
        kinds = {ValueError: Failed, Retry: Again, Cancel: Cancelled, RateLimited: Limited}
        assert type(engine.outcomes["job-3"]) is kinds[type(end)]
    assert [engine.outcomes[name] for name in ids(4, 5)] == [Done()] * 2


@KINDS
def test_a_timeout_ends_the_one_that_took_too_long_and_not_the_next(engine, patient, kind):
    async def lasts_async():
        await asyncio.sleep(10)

    def lasts():
        while True:
            threading.Event().wait(0.001)

    stage, pause = held(kind, {3: lasts if kind == "plain" else lasts_async})
    engine.enqueue("act", count=2)
    engine.enqueue("act", timeout=20 * MILLISECOND)
    engine.enqueue("act", count=3)
    with working(engine, stage.act, concurrency=1, threads=1):
        standing(engine, pause, 4)
        pause.go_on.set()
        engine.ended(*ids(1, 2, 3, 4, 5, 6))

    assert isinstance(engine.outcomes["job-3"], Failed)
    assert [engine.outcomes[name] for name in ids(4, 5, 6)] == [Done()] * 3
    assert stage.most == 1


@KINDS
def test_what_has_stood_by_for_too_long_is_handed_back_unbegun_while_the_hand_is_busy(
    engine, monkeypatch, kind
):
    monkeypatch.setattr(expected, "STANDBY", 10 * SECOND)
    stage, pause = held(kind)
    meet, check = has_all_hands(engine, kind, 1)
    engine.enqueue("act", count=5)
    with working(engine, stage.act, meet, concurrency=1, threads=1):
        assert pause.begun.wait(10)
        began = time.monotonic()
        engine.ended(*ids(1, 3, 4, 5))
        took = time.monotonic() - began
        assert "job-2" not in engine.outcomes
        pause.go_on.set()
        check()

    assert stage.begun == [1, 2]
    assert [engine.outcomes[name] for name in ids(3, 4, 5)] == [HandedBack(begun=False)] * 3
    assert took < 2  # seconds; eighty milliseconds where the machine is not busy


@KINDS
def test_one_that_would_begin_too_late_is_handed_back(engine, monkeypatch, kind):
    monkeypatch.setattr(standby, "WITHIN", -1)
    monkeypatch.setattr(expected, "STANDBY", 10 * SECOND)
    monkeypatch.setattr(standby.Standby, "cut", lambda _, **__: [])  # the hand comes first
    stage = Stage(kind)
    engine.enqueue("act", count=10)
    with working(engine, stage.act, concurrency=1, threads=1):
        engine.ended(*ids(*range(1, 11)))

    refused = [name for name, outcome in engine.outcomes.items() if outcome == HandedBack(begun=False)]
    assert len(refused) + len(stage.begun) == 10
    assert len(refused) > 5
    assert stage.most == 1


@pytest.mark.parametrize("what", ["cancelled", "lost"])
@KINDS
def test_one_that_is_known_to_be_cancelled_or_lost_does_not_begin(engine, patient, monkeypatch, kind, what):
    beat, heard = Leases._beat, threading.Event()

    def noted(leases, now):
        kept = beat(leases, now)
        if engine.beats:
            heard.set()
        return kept

    monkeypatch.setattr(Leases, "_beat", noted)
    stage, pause = held(kind)
    meet, check = has_all_hands(engine, kind, 1)
    engine.enqueue("act", count=5)
    getattr(engine, what).add("job-3")
    with working(engine, stage.act, meet, concurrency=1, threads=1, lease=SECOND):
        standing(engine, pause, 3)
        # Leases of those that stand by are kept.
        engine.until(lambda: any(set(ids(2, 3, 4, 5)) <= set(beat) for beat in engine.beats))
        assert heard.wait(10)
        pause.go_on.set()
        engine.ended(*ids(1, 2, 4, 5))
        check()

    assert stage.begun == [1, 2, 4, 5]
    if what == "cancelled":
        assert isinstance(engine.outcomes["job-3"], Cancelled)
    assert [engine.outcomes[name] for name in ids(4, 5)] == [Done()] * 2


@KINDS
def test_a_worker_that_stops_hands_back_what_stands_by_at_once(engine, patient, kind):
    stage, pause = held(kind)
    engine.enqueue("act", count=5)
    with working(engine, stage.act, concurrency=1, threads=1) as worker:
        standing(engine, pause, 3)
        worker.stop()
        engine.ended(*ids(3, 4, 5))
        assert "job-2" not in engine.outcomes
        pause.go_on.set()
        engine.ended("job-2")

    assert stage.begun == [1, 2]
    assert [engine.outcomes[name] for name in ids(2, 3, 4, 5)] == [Done(), *[HandedBack(begun=False)] * 3]


def test_in_a_loop_that_a_handler_ends_none_begins_that_is_left_half_done(engine, patient):
    async def end():
        asyncio.get_running_loop().stop()
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return  # takes no notice

    stage, pause = held("async", {3: end})
    engine.enqueue("act", count=7)
    with working(engine, stage.act, concurrency=1):
        standing(engine, pause, 5)
        pause.go_on.set()
        engine.ended(*ids(*range(1, 8)))
        # The next loop may not be there yet; the hand is.
        while stage.begun[-1] < 8:
            engine.ended(engine.enqueue("act"))

    assert stage.most == 1
    assert stage.finished == [1, *[number for number in stage.begun if number > 3]]
    done = [name for name in ids(4, 5, 6, 7) if engine.outcomes[name] == Done()]
    assert done == ids(*[number for number in stage.begun if 3 < number < 8])
    assert {engine.outcomes[name] for name in ids(4, 5, 6, 7)} <= {Done(), HandedBack(begun=False)}


@KINDS
@pytest.mark.parametrize("send", [1, 2])
def test_if_attempts_cannot_be_sent_no_hand_is_lost_nor_given_twice(engine, patient, monkeypatch, kind, send):
    owner = Loop if kind == "async" else Threads
    begin, calls = owner.begin, []

    def refuse(self, attempts):
        calls.append(1)
        if len(calls) == send:
            raise MemoryError
        begin(self, attempts)

    monkeypatch.setattr(owner, "begin", refuse)
    stage = Stage(kind)
    meet, check = has_all_hands(engine, kind, 2)
    engine.enqueue("act", count=30)
    with working(engine, stage.act, meet, concurrency=2, threads=2):
        engine.ended(*ids(*range(1, 31)))
        check()

    assert stage.most <= 2
    assert {type(outcome) for outcome in engine.outcomes.values()} == {Done, HandedBack}


def test_none_is_asked_for_before_the_hands_are_filled(engine, patient):
    stage = Stage()
    with working(engine, stage.act, concurrency=8):
        for _ in range(5):
            engine.ended(engine.enqueue("act", count=7))

    assert max(engine.standbys) == 0


def test_none_is_asked_for_unless_something_is_settled(engine, patient):
    stage, verbs = Stage(), []
    engine.hook = verbs.append
    engine.enqueue("act", count=200)
    work(engine, stage.act, concurrency=4)

    before = [verbs[number - 1] for number, verb in enumerate(verbs) if verb == "claim"]
    assert len(before) == len(engine.standbys)
    assert {verb for verb, asked in zip(before, engine.standbys, strict=True) if asked} == {"settle"}
    assert engine.standbys[0] == 0


@pytest.mark.parametrize("hands", [99, 100])
def test_workers_of_a_hundred_hands_ask_for_none(engine, patient, hands):
    stage = Stage()
    engine.enqueue("act", count=5 * hands)
    work(engine, stage.act, concurrency=hands)

    assert max(engine.standbys) == (1 if hands == 99 else 0)
    assert stage.most == hands


def test_so_many_are_asked_for_as_are_worth_an_exchange_and_begin_soon(engine, monkeypatch):
    monkeypatch.setattr(standby, "WITHIN", 20 * SECOND)
    monkeypatch.setattr(standby, "FIRST", 200)
    monkeypatch.setattr(
        expected.Expected, "short", lambda _: [("act", 10 * MILLISECOND), ("other", MILLISECOND)]
    )
    monkeypatch.setattr(expected, "STANDBY", 50 * MILLISECOND)
    stage, standing_then = Stage(), []
    room = standby.Standby.room

    def noted(self, *facts):
        asked = room(self, *facts)
        standing_then.append(len(self) + asked)
        return asked

    monkeypatch.setattr(standby.Standby, "room", noted)
    engine.enqueue("act", count=100)
    work(engine, stage.act, concurrency=3)

    assert max(standing_then) == 3 * 5  # five of the slowest for each hand
    assert max(engine.standbys) == 3 * 5


def test_a_few_are_asked_for_at_first_and_then_twice_as_many_as_there_were(engine, patient, monkeypatch):
    monkeypatch.setattr(standby, "FIRST", 8)
    stage = Stage()
    engine.enqueue("act", count=200)
    work(engine, stage.act, concurrency=2)

    asked = [each for each in engine.standbys if each]
    assert asked[0] == 8
    assert 8 < max(asked) <= 98


def test_none_of_slow_tasks_is_asked_for(engine, monkeypatch):
    monkeypatch.setattr(expected, "STANDBY", 0)
    stage = Stage()
    engine.enqueue("act", count=30)
    work(engine, stage.act, concurrency=2)

    assert max(engine.standbys) == 0


def test_after_a_claim_that_found_none_none_is_asked_for_a_while(engine, patient, monkeypatch):
    monkeypatch.setattr(standby, "NONE_FOR", 20 * SECOND)
    engine.most_standing = 0
    stage = Stage()
    engine.enqueue("act", count=60)
    work(engine, stage.act, concurrency=2)

    assert len([asked for asked in engine.standbys if asked]) == 1
    assert len(engine.outcomes) == 60


@pytest.mark.parametrize(
    "queues", [{"queues": ["default", "other"], "strict": True}, {"queues": {"default": 2, "other": 1}}]
)
def test_none_is_asked_for_where_queues_have_shares(engine, patient, queues):
    stage = Stage()
    engine.enqueue("act", count=60)
    work(engine, stage.act, concurrency=2, **queues)

    assert len(engine.outcomes) == 60
    assert max(engine.standbys) == 0


@KINDS
def test_what_has_ended_is_settled_soon_though_many_stand_by(engine, patient, kind):
    third, long = Pause(), Pause()
    stage = Stage(kind, {3: third, 5: long})
    engine.enqueue("act", count=60)
    with working(engine, stage.act, concurrency=1, threads=1):
        assert third.begun.wait(10)
        engine.until(lambda: len(engine._running) > 40)
        third.go_on.set()
        assert long.begun.wait(10)
        began = time.monotonic()
        engine.ended(*ids(3, 4))
        took = time.monotonic() - began
        long.go_on.set()

    assert took < 2  # seconds; twenty milliseconds where the machine is not busy


def test_where_some_handlers_are_async_only_those_stand_by(engine, patient):
    stage, plain_calls = Stage(), []

    def plain():
        plain_calls.append(1)

    for _ in range(20):
        engine.enqueue("plain")
        engine.enqueue("act")
    with working(engine, stage.act, plain, concurrency=1, threads=1):
        engine.until(lambda: len(engine.outcomes) == 40)

    assert {task for asked in engine.relays for task, _ in asked} == {"act"}


def test_when_each_began_is_told(engine, patient):
    seen = []

    async def act():
        seen.append(CURRENT.get())
        await asyncio.sleep(0.001)

    engine.enqueue("act", count=8)
    work(engine, act, concurrency=1)

    stood = [attempt for attempt in seen if attempt.stands_until]
    assert len(stood) >= 4
    for earlier, later in pairwise(stood):
        assert earlier.finished <= later.sent <= later.began
    begins = [engine.settlements[attempt.claimed.id].began_after for attempt in stood]
    assert begins == sorted(begins)
    assert begins[-1] - begins[0] >= (len(stood) - 1) * MILLISECOND
