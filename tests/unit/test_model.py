"""The referee's own model, by hand: if it were wrong, so would be whatever it judges."""

from penstock.engine import GUARD
from penstock.job import START_GRACE, NewJob
from penstock.lifecycle.outcomes import Again, Done, HandedBack
from penstock.lifecycle.retry import Backoff, RetryPolicy
from penstock.lifecycle.states import State
from penstock.limits.rules import Limit, OnLimit, numbers_from_text
from tests.support.clock import FakeClock
from tests.support.desk import LEASE
from tests.support.model import Model
from tests.support.shrink import shrink

SECOND = 1_000_000


class Play:
    """A model whose jobs are enqueued as `name`, `key numbers`."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.model = Model(self.clock.now)

    def enqueue(self, name: str, *limits: str, on_limit: str = "wait", **facts: object) -> None:
        pairs = (limit.split() for limit in limits)
        own = tuple(Limit(key, numbers_from_text(text), OnLimit(on_limit)) for key, text in pairs)
        self.model.enqueue([NewJob("t", id=name, queue="q", limits=own, **facts)])

    def claim(self, count: int = 9) -> str:
        return " ".join(job.name for job in self.model.claim(["q"], count, LEASE))

    def settle(self, name: str, outcome: object, began: int | None = None) -> bool:
        return self.model.settle([(name, self.model.jobs[name].fence, outcome, began)]) == [True]


def test_slots_are_taken_and_given_back() -> None:
    play = Play()
    for name in "abc":
        play.enqueue(name, "X c2")

    assert play.claim() == "a b"
    assert play.settle("a", Done())
    assert play.claim() == "c"


def test_a_rate_counts_from_the_latest_moment_a_start_may_begin() -> None:
    play = Play()
    play.enqueue("a", "X r1/1000000")
    play.enqueue("b", "X r1/1000000")

    assert play.claim() == "a"
    play.clock.advance(SECOND + START_GRACE - 1)
    assert play.claim() == ""
    play.clock.advance(1)
    assert play.claim() == "b"


def test_a_report_moves_a_start_to_when_it_began() -> None:
    play = Play()
    play.enqueue("a", "X t1/1000000")
    play.enqueue("b", "X t1/1000000")
    play.claim()
    play.settle("a", Done(), began=play.clock.now())

    play.clock.advance(SECOND + GUARD - 1)
    assert play.claim() == ""
    play.clock.advance(1)
    assert play.claim() == "b"


def test_a_heavy_throttled_start_shuts_for_as_many_gaps() -> None:
    play = Play()
    play.enqueue("a", "X t1/1000000", cost=3)
    play.enqueue("b", "X t1/1000000")
    play.claim()

    play.clock.advance(3 * SECOND + START_GRACE - 1)
    assert play.claim() == ""
    play.clock.advance(1)
    assert play.claim() == "b"


def test_priority_goes_before_age_and_a_retry_is_a_newcomer() -> None:
    play = Play()
    play.enqueue("a", retry=RetryPolicy(attempts=2, backoff=Backoff.FIXED))
    play.enqueue("b")
    play.enqueue("c", priority=1)

    assert play.claim() == "c a b"
    play.settle("a", Again(after=0))
    play.settle("b", HandedBack())
    assert play.claim() == "b a"


def test_only_a_drop_at_a_shut_gate_goes() -> None:
    play = Play()
    play.enqueue("a", "X c1")
    play.claim()
    play.enqueue("b", "X c1")
    play.enqueue("c", "X c1", on_limit="drop")

    states = [play.model.jobs[name].state for name in "bc"]

    assert states == [State.WAITING, State.DISCARDED]


def test_shrinking_keeps_what_still_fails() -> None:
    operations = [("advance", number) for number in range(100)]

    fewest = shrink(operations, lambda fewer: {("advance", 7), ("advance", 70)} <= set(fewer))

    assert fewest == [("advance", 7), ("advance", 70)]
