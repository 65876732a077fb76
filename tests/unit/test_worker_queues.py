"""From which queues a worker claims, and in which proportion."""

from collections import Counter

import pytest

from penstock.job import Claim
from penstock.worker.queues import choose, merged
from tests.support.stub_engine import StubEngine
from tests.support.working import work


class Job(str):
    """A job of a queue, by the name of that."""

    __slots__ = ()
    after = 0


class Lines:
    """Queues of so many jobs each."""

    def __init__(self, **lengths):
        self.lengths = lengths
        self.taken = []

    def take(self, queues, count):
        got = []
        for queue in queues:
            share = min(count - len(got), self.lengths[queue])
            self.lengths[queue] -= share
            got += [Job(queue)] * share
        self.taken += got
        return Claim(got, more=any(self.lengths[queue] for queue in queues), next_at=None)


def test_queues_without_order_are_claimed_together():
    lines = Lines(a=1, b=1)
    choice = choose(["a", "b"])

    assert choice.claim(lines.take, 5).jobs == ["a", "b"]


def test_a_single_queue_may_be_a_name():
    lines = Lines(a=2)

    assert choose("a").claim(lines.take, 5).jobs == ["a", "a"]


def test_strict_order_takes_from_the_next_only_what_the_first_leaves_free():
    lines = Lines(first=3, second=9, third=9)
    choice = choose(["first", "second", "third"], strict=True)

    assert choice.claim(lines.take, 2).jobs == ["first"] * 2
    assert choice.claim(lines.take, 2).jobs == ["first", "second"]
    lines.lengths["first"] = 1
    assert choice.claim(lines.take, 3).jobs == ["first", "second", "second"]


def test_strict_order_asks_again_before_it_goes_on_to_the_next():
    answers = {"first": Claim([], more=True, next_at=None)}

    claim = choose(["first", "second"], strict=True).claim(lambda queues, _: answers[queues[0]], 2)

    assert claim.more


@pytest.mark.parametrize("batch", [1, 2, 7, 10, 100])
def test_weights_share_what_both_queues_could_fill(batch):
    lines = Lines(a=10_000, b=10_000)
    choice = choose({"a": 3, "b": 1})
    while len(lines.taken) < 400:
        choice.claim(lines.take, batch)

    shares = Counter(lines.taken[:400])
    assert abs(shares["a"] - 300) <= batch


def test_weights_leave_nothing_idle_when_one_queue_is_empty():
    lines = Lines(a=0, b=10)

    assert choose({"a": 9, "b": 1}).claim(lines.take, 10).jobs == ["b"] * 10


def test_a_queue_earns_no_credit_while_it_is_empty():
    lines = Lines(a=0, b=1_000)
    choice = choose({"a": 1, "b": 1})
    for _ in range(50):
        choice.claim(lines.take, 10)
    lines.lengths["a"] = 1_000
    lines.taken.clear()
    for _ in range(2):
        choice.claim(lines.take, 10)

    assert Counter(lines.taken) == {"a": 10, "b": 10}


def test_several_claims_are_one_that_looks_again_at_the_earliest():
    claim = merged(
        [
            Claim([], more=False, next_at=7),
            Claim([], more=True, next_at=None),
            Claim([], more=False, next_at=5),
        ]
    )

    assert claim == Claim([], more=True, next_at=5)


def test_a_worker_keeps_strict_order():
    engine, order = StubEngine(), []

    def note(queue):
        order.append(queue)

    for queue in ("low", "high") * 3:
        engine.enqueue("note", queue, queue=queue)
    work(engine, note, queues=["high", "low"], strict=True, threads=1)

    assert order == ["high"] * 3 + ["low"] * 3
