"""Two exchanges of one worker under way at once: when, and what stays true then."""

import threading
from contextlib import contextmanager

import pytest

from penstock.errors import StoreBusyError
from penstock.lifecycle.outcomes import Done
from penstock.worker import Worker, beginnings, exchanges, pump
from tests.support.stub_engine import StubEngine
from tests.support.working import handlers, holding, work, working

PLACES = 8


@pytest.fixture
def engine(monkeypatch):
    monkeypatch.setattr(pump, "LEAST_SHARE", 2)
    return StubEngine(overlaps=True)


async def quick():
    pass


def is_second():
    return threading.current_thread().name == "penstock-second pump"


class Ledger:
    """Watches the claims of *engine*, and holds each for a moment so that others may come beside it."""

    def __init__(self, engine, moment=0.002):
        self.most = 0  # claims under way
        self.second = 0  # claims of the second pump
        self.overdrawn = []
        self._engine = engine
        self._moment = moment
        self._lock = threading.Lock()
        self._settling = set()
        self._asked = {}
        self._claim, self._exchange = engine.claim, engine.exchange
        engine.claim = lambda queues, count, **terms: self._claims((), queues, count, terms)[1]
        engine.exchange = lambda settlements, queues, count, **terms: self._claims(
            settlements, queues, count, terms
        )

    @property
    def under_way(self):
        return len(self._asked)

    def _claims(self, settlements, queues, count, terms):
        me, seqs = threading.get_ident(), {each.seq for each in settlements}
        with self._lock:
            self.second += is_second()
            self._asked[me] = count
            self._settling |= seqs
            self.most = max(self.most, len(self._asked))
            begun = len(self._engine._running.keys() - self._settling)
            if begun + sum(self._asked.values()) > PLACES:
                self.overdrawn.append((begun, dict(self._asked)))
        threading.Event().wait(self._moment)
        with self._lock:
            answers = self._engine.settle(settlements) if settlements else []
            claim = self._claim(queues, count, **terms)
            self._settling -= seqs
            del self._asked[me]
            return answers, claim


def test_two_exchanges_are_under_way_while_more_waits_than_there_are_places(engine):
    ledger = Ledger(engine)
    engine.enqueue("quick", count=400)
    work(engine, quick, concurrency=PLACES)

    assert len(engine.outcomes) == 400
    assert {type(outcome) for outcome in engine.outcomes.values()} == {Done}
    assert ledger.most == 2
    assert ledger.second > 10


def test_two_claims_together_ask_for_no_more_than_can_begin_at_once(engine):
    ledger = Ledger(engine)
    engine.enqueue("quick", count=400)
    work(engine, quick, concurrency=PLACES)

    assert ledger.second
    assert ledger.overdrawn == []


def test_no_second_exchange_begins_where_one_would_hold_up_the_other(engine):
    engine.overlaps = False
    ledger = Ledger(engine)
    engine.enqueue("quick", count=100)
    work(engine, quick, concurrency=PLACES)

    assert len(engine.outcomes) == 100
    assert ledger.most == 1


def test_no_second_exchange_begins_where_few_can_be_at_work(engine, monkeypatch):
    monkeypatch.setattr(pump, "LEAST_SHARE", PLACES // 2 + 1)
    ledger = Ledger(engine)
    engine.enqueue("quick", count=100)
    work(engine, quick, concurrency=PLACES)

    assert ledger.most == 1


@pytest.mark.parametrize("queues", [["a", "b"], {"a": 2, "b": 1}])
def test_no_second_exchange_begins_where_queues_come_in_an_order(engine, queues):
    ledger = Ledger(engine)
    engine.enqueue("quick", queue="a", count=50)
    engine.enqueue("quick", queue="b", count=50)
    work(engine, quick, concurrency=PLACES, queues=queues, strict=isinstance(queues, list))

    assert len(engine.outcomes) == 100
    assert ledger.most == 1


def test_no_claim_is_asked_beside_another_while_starts_have_their_moment(engine, monkeypatch):
    ledger, seen, wrong = Ledger(engine), [], []
    run = exchanges.Exchanges._run

    def watched(self, *args, **options):
        if self._beginnings or self._starter.holds_any:
            seen.append(is_second())
            if is_second() or ledger.under_way:
                wrong.append(is_second())
        return run(self, *args, **options)

    monkeypatch.setattr(exchanges.Exchanges, "_run", watched)
    for _ in range(40):
        engine.enqueue("quick", count=2 * PLACES)
        engine.enqueue("quick", count=2, begin_in=10_000_000)
    work(engine, quick, concurrency=PLACES)

    assert len(engine.outcomes) == 40 * (2 * PLACES + 2)
    assert ledger.most == 2
    assert seen
    assert wrong == []


def test_the_pump_waits_for_the_second_exchange_while_starts_have_their_moment(engine, monkeypatch):
    came, go_on = threading.Event(), threading.Event()
    hold, _, release = holding()
    claims, exchange, claim = [], engine.exchange, engine.claim

    def exchanged(*args, **terms):
        if is_second():
            came.set()
            assert go_on.wait(10)
        else:
            assert came.wait(10)  # so that it was asked before any start had its moment
        return exchange(*args, **terms)

    def claimed(*args, **terms):
        claims.append(is_second())
        return claim(*args, **terms)

    engine.exchange, engine.claim = exchanged, claimed
    monkeypatch.setattr(beginnings.Beginnings, "begun", lambda _: [])  # nothing is told of until it has ended
    engine.enqueue("quick", count=PLACES)
    paced = engine.enqueue("hold", begin_in=10_000_000)
    with working(engine, quick, hold, concurrency=PLACES, threads=PLACES):
        engine.until(lambda: len(engine.claims) == 2)
        late = engine.enqueue("quick")
        threading.Event().wait(0.3)

        assert claims == [False, False]
        go_on.set()
        engine.ended(late)
        release.set()
        engine.ended(paced)


@contextmanager
def second_held(monkeypatch, owner, name):
    """Hold the second pump at the first call of a step; yields what tells that it came, and what lets it go on."""
    came, go_on = threading.Event(), threading.Event()
    step = getattr(owner, name)

    def held(*args, **kwargs):
        if is_second() and not came.is_set():
            came.set()
            assert go_on.wait(10)
        return step(*args, **kwargs)

    monkeypatch.setattr(owner, name, held)
    try:
        yield came, go_on
    finally:
        go_on.set()


@pytest.mark.parametrize("stops", [True, False])
def test_a_worker_does_not_end_while_its_second_exchange_brings_jobs(engine, monkeypatch, stops):
    Ledger(engine)
    engine.enqueue("quick", count=100)
    worker = Worker(engine, handlers(quick), concurrency=PLACES)
    thread = threading.Thread(target=worker.run, kwargs={"until_idle": True})
    # What it settled no longer runs, and what it claimed does not run yet.
    with second_held(monkeypatch, exchanges.Exchanges, "_begin") as (came, go_on):
        thread.start()
        assert came.wait(10)
        if stops:
            worker.stop()
        else:
            engine.until(lambda: not engine._waiting["default"])
        thread.join(0.5)

        assert thread.is_alive()
        go_on.set()
        thread.join(10)

    assert not thread.is_alive()
    assert not engine._running
    assert sum(type(outcome) is Done for outcome in engine.outcomes.values()) == 100 or stops


def test_what_the_second_exchange_could_not_settle_it_settles_later(engine):
    Ledger(engine)
    failed = threading.Event()
    settle = engine.settle

    def busy(settlements):
        if is_second() and not failed.is_set():
            failed.set()
            raise StoreBusyError("busy")
        return settle(settlements)

    engine.settle = busy
    engine.enqueue("quick", count=100)
    work(engine, quick, concurrency=PLACES)

    assert failed.is_set()
    assert len(engine.outcomes) == 100
    assert sum(engine.batches) == 100
