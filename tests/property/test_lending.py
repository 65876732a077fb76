"""Calls that borrow slots beside jobs of the same keys, in random histories: counted by what holds something."""

from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.clock import MILLISECOND, SECOND
from penstock.engine import open_engine
from penstock.job import START_GRACE, Lending, NewJob, Settlement, Want
from penstock.lifecycle.outcomes import Done
from penstock.limits.rules import Limit, Numbers, Window
from tests.support.clock import FakeClock
from tests.support.soak import often

LEASE = 10 * SECOND
SLOTS = {"a": 2, "b": 3}
PERIOD = 5 * SECOND

keys = st.sampled_from(sorted(SLOTS))
whose = st.integers(0, 2)


class Process:
    """One that borrows: what it holds and waits for, by what it was told."""

    def __init__(self):
        self.holder = 0
        self.heard = 0  # when the store heard of it last
        self.held = {}  # want: (key, gate, slots)
        self.asked = {}  # want: key


class Histories(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.clock = FakeClock()
        self.engine = open_engine(":memory:", clock=self.clock)
        self.processes = [Process() for _ in range(3)]
        self.number = 0
        self.keys = {}
        self.lines = defaultdict(list)  # of each key, the wants that wait, in the order of their coming
        self.running = {}  # of jobs: (key, attempt, until)
        self.numbers = dict(SLOTS)  # in force, by key
        self.most = dict(SLOTS)  # the largest that was in force since no more were taken than there are
        self.rated = set()
        self.starts = defaultdict(list)

    def teardown(self):
        self.clock.advance(LEASE)
        self.engine.upkeep()
        assert [] == self.engine.doctor()
        views, _ = self.engine.gates()
        assert not [view for view in views if view.running]
        self.engine.close()

    # What processes do.

    @rule(who=whose, key=keys, slots=st.integers(1, 2), block=st.sampled_from([1, 1, 3]), stay=st.booleans())
    def ask(self, who, key, slots, block, stay):
        self.number += 1
        self.keys[self.number] = key
        want = Want(self.number, key, Numbers(slots=SLOTS[key]), slots, max(slots, block), stay)
        process = self.processes[who]
        process.asked[want.id] = key
        if stay:
            self.lines[key].append(want.id)
        self._exchange(process, wanted=(want,))

    @rule(who=whose, data=st.data())
    def give_back(self, who, data):
        process = self.processes[who]
        if process.held:
            want = data.draw(st.sampled_from(sorted(process.held)))
            _, gate, slots = process.held.pop(want)
            self._exchange(process, returned=((gate, slots),))

    @rule(who=whose, data=st.data())
    def withdraw(self, who, data):
        process = self.processes[who]
        if process.asked:
            self._exchange(process, withdrawn=(data.draw(st.sampled_from(sorted(process.asked))),))

    @rule(who=whose, renew=st.booleans())
    def look(self, who, renew):
        if self.processes[who].holder:
            self._exchange(self.processes[who], look=True, renew=renew)

    @rule(who=whose)
    def die(self, who):
        """Forget everything, as a process that was killed; its lease ends by itself."""
        self._bury(self.processes[who])

    @rule(who=whose)
    def leave(self, who):
        process = self.processes[who]
        if process.holder:
            self.engine.leave(process.holder)
            self._bury(process)

    # What workers and operators do.

    @rule(key=keys, limited=st.integers(1, 3))
    def enqueue(self, key, limited):
        self.engine.enqueue([NewJob(task="t", limits=(Limit(key, Numbers(slots=min(limited, SLOTS[key]))),))])

    @rule(count=st.integers(1, 3))
    def claim(self, count):
        self._rescued()
        for attempt in self.engine.claim(["default"], count, worker="w", lease=LEASE).jobs:
            [limit] = self.engine.job(attempt.id).limits
            self.running[attempt.id] = (limit.key, attempt, self.clock.now() + LEASE)
            self._began(limit.key)

    @rule(data=st.data())
    def settle(self, data):
        self._rescued()
        if self.running:
            _, attempt, _ = self.running.pop(data.draw(st.sampled_from(sorted(self.running))))
            self.engine.settle([Settlement(attempt.seq, attempt.fence, Done())])

    @rule(key=keys, slots=st.integers(0, 4))
    def override(self, key, slots):
        self.engine.override(key, Numbers(slots=slots))
        self._rule(key, slots)

    @rule(key=keys)
    def clear(self, key):
        self.engine.override(key, Numbers(slots=1))
        self.engine.clear_override(key)
        self._rule(key, SLOTS[key])

    @precondition(lambda self: not self.rated)
    @rule(key=keys)
    def limit_the_rate(self, key):
        self.engine.configure("key", key, Numbers(rate=Window(2, PERIOD)))
        self.rated.add(key)

    @rule(span=st.sampled_from([MILLISECOND, START_GRACE, SECOND, PERIOD, LEASE // 2, LEASE]))
    def time_passes(self, span):
        self.clock.advance(span)

    @rule()
    def upkeep(self):
        self.engine.upkeep()

    # What must hold.

    @invariant()
    def nothing_is_wrong_in_the_store(self):
        assert [] == self.engine.doctor()

    @invariant()
    def no_more_at_once_than_there_are_slots(self):
        for key in SLOTS:
            assert self._count(key) <= self.most[key], key
            if self._taken(key) <= self.numbers[key]:
                self.most[key] = self.numbers[key]

    @invariant()
    def no_more_starts_than_the_rate(self):
        for key in self.rated:
            for at in self.starts[key]:
                assert sum(at <= other < at + PERIOD for other in self.starts[key]) <= 2

    # Helpers.

    def _rule(self, key, slots):
        self.numbers[key] = slots
        self.most[key] = max(self.most[key], slots)

    def _taken(self, key):
        """What the store says, as far as it was not fetched yet."""
        return sum(view.running for view in self.engine.gates(prefix=key)[0])

    def _count(self, key):
        now = self.clock.now()
        calls = sum(
            slots
            for process in self.processes
            if process.heard + LEASE > now
            for held, _, slots in process.held.values()
            if held == key
        )
        return calls + sum(of == key and until > now for of, _, until in self.running.values())

    def _exchange(self, process, **asked):
        now = self.clock.now()
        lent = self.engine.lend(Lending(process.holder, LEASE, **asked))
        if process.holder and not lent.holder:
            self._bury(process)
            return
        if not process.holder or asked.get("renew") or process.heard + LEASE <= now:
            process.heard = now
        process.holder = lent.holder
        for loan in lent.loans:
            key = self.keys[loan.want]
            assert loan.want not in process.held
            process.asked.pop(loan.want, None)
            process.held[loan.want] = (key, loan.gate, loan.slots)
            self._began(key)
            self._served(key, loan.want)
        for want in (*lent.refused, *asked.get("withdrawn", ())):
            process.asked.pop(want, None)
            self._gone(want)

    def _served(self, key, want):
        """No call that could have been served stands before it, but those whose slots were not fetched yet."""
        line = self.lines[key]
        if want not in line:
            return
        ahead = line[: line.index(want)]
        waiting = {w for process in self.processes for w in process.asked}
        asking = self._asking()
        assert not [w for w in ahead if w in waiting and w in asking], (key, want, ahead)
        line.remove(want)

    def _asking(self):
        found = set()
        for process in self.processes:
            if process.holder and process.heard + LEASE > self.clock.now():
                audit = self.engine.lend(Lending(process.holder, LEASE, audit=True)).audit
                found |= audit.asking if audit else set()
        return found

    def _gone(self, want):
        line = self.lines[self.keys[want]]
        if want in line:
            line.remove(want)

    def _bury(self, process):
        for want in process.asked:
            self._gone(want)
        process.holder, process.asked, process.held = 0, {}, {}

    def _rescued(self):
        now = self.clock.now()
        self.running = {name: each for name, each in self.running.items() if each[2] > now}

    def _began(self, key):
        if key in self.rated:
            self.starts[key].append(self.clock.now())


TestLending = Histories.TestCase
TestLending.settings = settings(
    max_examples=often(30, 200), stateful_step_count=50, deadline=None, report_multiple_bugs=False
)
