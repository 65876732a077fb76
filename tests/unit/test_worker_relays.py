"""Attempts that begin one after the other: in order, in one place, and not at all once they are late."""

import asyncio
import threading
from contextvars import ContextVar
from types import SimpleNamespace

import pytest

from penstock.clock import MILLISECOND, SECOND
from penstock.lifecycle.outcomes import Again, Cancelled, Done, Failed, HandedBack
from penstock.worker import Cancel, Handler, RateLimited, Retry, relay
from penstock.worker.context import CURRENT
from penstock.worker.expected import Expected
from penstock.worker.loop import Loop
from tests.support.stub_engine import StubEngine
from tests.support.working import work, working

HELD = ContextVar("HELD", default=0)


@pytest.fixture
def engine():
    return StubEngine()


@pytest.fixture
def patient(monkeypatch):
    """Relays that are not cut."""
    monkeypatch.setattr(relay, "WITHIN", 20 * SECOND)


def line(engine, task, count):
    """Enqueue a relay of so many; return their ids in order."""
    last = int(engine.enqueue(task).removeprefix("job-")) + count - 1
    engine.enqueue(task, count=count - 1, after=True)
    return [f"job-{number}" for number in range(last - count + 1, last + 1)]


class Stage:
    """Handlers that write down when they begin and end."""

    def __init__(self):
        self.seen = []
        self.running = 0
        self.most = 0

    def begin(self):
        self.running += 1
        self.most = max(self.most, self.running)
        self.seen.append(HELD.get())
        HELD.set(1)

    def end(self):
        self.running -= 1

    async def quick(self):
        self.begin()
        await asyncio.sleep(0.001)
        self.end()

    def plain(self):
        self.begin()
        threading.Event().wait(0.001)
        self.end()


@pytest.mark.parametrize("kind", ["quick", "plain"])
def test_each_begins_when_the_one_before_has_ended(engine, patient, kind):
    stage = Stage()
    handler = getattr(stage, kind).__func__

    if kind == "quick":

        async def act():
            await handler(stage)
    else:

        def act():
            handler(stage)

    ids = line(engine, "act", 9)
    work(engine, act, concurrency=3, threads=3)

    assert stage.most == 1
    assert stage.seen == [0] * 9  # none sees what another left in its context
    assert [*engine.outcomes] == ids
    assert set(engine.outcomes.values()) == {Done()}
    assert engine.batches == [9]


@pytest.mark.parametrize("number", [1, 2])
def test_a_relay_has_one_place(engine, patient, number):
    gate = asyncio.Semaphore(number)

    async def act():
        assert not gate.locked()
        async with gate:
            await asyncio.sleep(0.001)

    for _ in range(5):
        line(engine, "act", 4)
    engine.enqueue("act", count=10)
    work(engine, act, concurrency=number)

    assert list(engine.outcomes.values()) == [Done()] * 30
    assert max(count for _, count, _ in engine.claims) == number


def test_the_slot_is_handed_on_after_a_failure(engine, patient):
    ends = iter([ValueError("no"), Retry(after="1s"), Cancel("enough"), None])

    async def act():
        if (end := next(ends)) is not None:
            raise end

    line(engine, "act", 4)
    work(engine, act)

    assert [type(end) for end in engine.outcomes.values()] == [Failed, Again, Cancelled, Done]


def test_nothing_follows_a_handler_that_shuts_its_key(engine, patient):
    calls = []

    async def act():
        calls.append(1)
        raise RateLimited("1s")

    ids = line(engine, "act", 3)
    work(engine, act)

    assert len(calls) == 1
    assert [engine.outcomes[name] for name in ids[1:]] == [HandedBack()] * 2


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_the_rest_is_handed_back_while_a_late_one_runs(engine, kind):
    begun, go_on = threading.Event(), threading.Event()
    calls = []

    def hold():
        calls.append(1)
        if len(calls) == 2:
            begun.set()
            go_on.wait(10)

    async def hold_async():
        calls.append(1)
        if len(calls) == 2:
            begun.set()
            await asyncio.get_running_loop().run_in_executor(None, go_on.wait, 10)

    hold_async.__name__ = "hold"
    ids = line(engine, "hold", 5)
    with working(engine, hold if kind == "plain" else hold_async, concurrency=1, threads=1):
        assert begun.wait(10)
        engine.ended(ids[0], *ids[2:])
        assert engine.outcomes[ids[0]] == Done()
        assert [engine.outcomes[name] for name in ids[2:]] == [HandedBack()] * 3
        assert ids[1] not in engine.outcomes
        other = engine.enqueue("hold")
        go_on.set()
        engine.ended(ids[1], other)  # its place is free again, once

    assert len(calls) == 3
    assert max(count for _, count, _ in engine.claims) == 1


def test_one_that_would_begin_too_late_is_handed_back(engine, monkeypatch):
    monkeypatch.setattr(relay, "WITHIN", -1)
    calls = []

    async def act():
        calls.append(1)

    ids = line(engine, "act", 3)
    engine.enqueue("act", count=5)
    work(engine, act, concurrency=1)

    assert len(calls) == 6
    assert [engine.outcomes[name] for name in ids] == [Done(), HandedBack(), HandedBack()]
    # The place of the relay is free again, once.
    assert max(count for _, count, _ in engine.claims) == 1


def test_one_that_shall_be_cancelled_does_not_begin(engine, patient):
    begun, go_on = threading.Event(), threading.Event()
    calls = []

    def hold():
        calls.append(1)
        begun.set()
        go_on.wait(10)

    ids = line(engine, "hold", 3)
    engine.cancelled.add(ids[1])
    with working(engine, hold, lease=SECOND):
        assert begun.wait(10)
        engine.until(lambda: any(ids[1] in beat for beat in engine.beats))
        go_on.set()
        engine.ended(*ids)

    assert isinstance(engine.outcomes[ids[1]], Cancelled)
    assert [engine.outcomes[ids[0]], engine.outcomes[ids[2]]] == [Done(), Done()]
    assert len(calls) == 2


def test_one_whose_lease_was_lost_does_not_begin(engine, patient):
    begun, go_on = threading.Event(), threading.Event()
    calls = []

    def hold():
        calls.append(1)
        begun.set()
        go_on.wait(10)

    ids = line(engine, "hold", 3)
    engine.lost.add(ids[1])
    with working(engine, hold, lease=SECOND):
        assert begun.wait(10)
        engine.until(lambda: any(ids[1] in beat for beat in engine.beats))
        go_on.set()
        engine.ended(ids[0], ids[2])

    assert engine.outcomes[ids[2]] == HandedBack()
    assert len(calls) == 1


def test_a_worker_that_stops_hands_the_rest_back_at_once(engine, patient):
    begun, go_on = threading.Event(), threading.Event()

    def hold():
        begun.set()
        go_on.wait(10)

    ids = line(engine, "hold", 3)
    with working(engine, hold) as worker:
        assert begun.wait(10)
        worker.stop()
        engine.ended(*ids[1:])
        assert ids[0] not in engine.outcomes
        go_on.set()
        engine.ended(ids[0])

    assert [engine.outcomes[name] for name in ids] == [Done(), HandedBack(), HandedBack()]


def test_a_loop_that_a_handler_ends_hands_the_rest_back(engine, patient):
    calls = []

    async def act():
        calls.append(1)
        if len(calls) == 2:
            asyncio.get_running_loop().stop()
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                return  # takes no notice

    ids = line(engine, "act", 4)
    with working(engine, act, concurrency=1):
        engine.ended(*ids)
        assert len(calls) == 2
        # The next loop may not be there yet; the place is.
        while len(calls) < 3:
            engine.ended(engine.enqueue("act"))

    assert engine.outcomes[ids[0]] == Done()
    assert [engine.outcomes[name] for name in ids[2:]] == [HandedBack()] * 2


def test_a_relay_that_cannot_be_sent_is_handed_back(engine, patient, monkeypatch):
    sends = iter([True, False])
    begin = Loop.begin

    def refuse(loop, attempts):
        if next(sends, False):
            raise MemoryError
        begin(loop, attempts)

    monkeypatch.setattr(Loop, "begin", refuse)

    async def act():
        pass

    ids = line(engine, "act", 3)
    with working(engine, act, concurrency=1):
        engine.ended(*ids)
        engine.ended(engine.enqueue("act"))

    assert [engine.outcomes[name] for name in ids] == [HandedBack()] * 3


def test_a_worker_asks_for_relays_of_tasks_that_are_quick(engine):
    async def quick():
        pass

    async def slow():
        await asyncio.sleep(0.05)

    engine.enqueue("quick", count=3)
    engine.enqueue("slow")
    with working(engine, quick, slow):
        engine.until(lambda: len(engine.outcomes) == 4)
        engine.enqueue("quick")
        engine.until(lambda: any(engine.relays))

    assert engine.relays[0] == ()
    (task, span), *others = engine.relays[-1]
    assert (task, others) == ("quick", [])
    assert 1 <= span < 10 * MILLISECOND


def test_where_some_handlers_are_async_only_those_are_asked_for(engine):
    async def quick():
        pass

    def plain():
        pass

    engine.enqueue("quick", count=2)
    engine.enqueue("plain", count=2)
    with working(engine, quick, plain):
        engine.until(lambda: len(engine.outcomes) == 4)
        engine.enqueue("quick")
        engine.until(lambda: any(engine.relays))

    assert {task for asked in engine.relays for task, _ in asked} == {"quick"}


def expected_of(*spans, **facts):
    """Return what is expected after attempts that kept their place so long."""
    found = Expected({"act": Handler(asyncio.sleep, is_async=True)})
    found.learn(ended(span, **facts) for span in spans)
    return dict(found.short())


def ended(span, task="act", began=True, after=0, stands_until=0):
    claimed = SimpleNamespace(task=task, after=after)
    # It waited for its turn until just before it ended.
    began = SECOND + span - 1 if began else 0
    return SimpleNamespace(
        claimed=claimed, sent=SECOND, began=began, finished=SECOND + span, stands_until=stands_until
    )


def test_the_wait_for_a_busy_loop_counts():
    assert expected_of(40 * MILLISECOND) == {"act": 40 * MILLISECOND}
    assert expected_of(41 * MILLISECOND) == {}


def test_a_moment_of_rest_is_no_reason_to_expect_less():
    assert expected_of(*[100 * MILLISECOND] * 9, *[MILLISECOND] * 50) == {}
    assert expected_of(*[100 * MILLISECOND] * 9, *[MILLISECOND] * 500)["act"] < 2 * MILLISECOND


def test_those_that_were_claimed_for_nothing_make_a_task_slow():
    assert expected_of(MILLISECOND, began=False) == {}
    assert expected_of(MILLISECOND, began=False, after=7) == {}
    assert expected_of(MILLISECOND, began=False, stands_until=7) == {}


def test_what_is_expected_may_be_asked_while_it_is_learned():
    expected = Expected({task: Handler(asyncio.sleep, is_async=True) for task in "ab"})

    class Meddling(int):
        def __le__(self, other):
            expected.learn([ended(MILLISECOND, task="b")])
            return int(self) <= other

        def __sub__(self, _):
            return self

        __add__ = __sub__

    expected.learn(
        [
            SimpleNamespace(
                claimed=SimpleNamespace(task="a", after=0),
                sent=1,
                began=1,
                finished=Meddling(5),
                stands_until=0,
            )
        ]
    )

    assert [task for task, _ in expected.short()] == ["a"]
    assert {task for task, _ in expected.short()} == {"a", "b"}


def test_one_that_follows_could_begin_when_the_one_before_had_ended(engine, patient):
    seen = []

    async def act():
        seen.append(CURRENT.get())
        await asyncio.sleep(0.001)

    line(engine, "act", 3)
    work(engine, act)

    first, second, third = seen
    assert first.sent <= first.began < first.finished == second.sent <= second.began
    assert second.finished == third.sent <= third.began
    begins = [settlement.began_after for settlement in engine.settlements.values()]
    assert begins == sorted(begins)
    assert third.began - first.began == begins[2] - begins[0] >= 2 * MILLISECOND
