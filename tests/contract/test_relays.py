"""Relays: jobs of one key that are started together and begin one after the other."""

from collections.abc import Callable
from itertools import chain

import pytest

from penstock.clock import MILLISECOND, SECOND
from penstock.engine import Engine
from penstock.engine.admission import relays
from penstock.engine.settle import MAX_LOST
from penstock.errors import InvalidError
from penstock.job import RELAY_MOST, Claim, ClaimFor, NewJob, Order, Settlement
from penstock.lifecycle.outcomes import Again, Done, HandedBack, Limited
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.limits.rules import Limit, Numbers
from tests.support.desk import LEASE, Desk, rate, slots

QUICK = (("task", MILLISECOND),)
K = slots("k", 1)
SIX = (("task", 6 * MILLISECOND),)  # three of which fit into a relay


def claim(desk: Desk, count: int = 10, **facts: object) -> Claim:
    facts = {"relay": QUICK, "worker": "worker", "lease": LEASE, **facts}
    found = desk.engine.claim(facts.pop("queues", ["q"]), count, **facts)
    desk.attempts |= {job.id: job for job in found.jobs}
    return found


def names(claim: Claim) -> str:
    return " ".join(job.id for job in claim.jobs)


def lines(claim: Claim) -> list[str]:
    """Return the relays of a claim, each as the names of its jobs in order."""
    found: dict[int, list[str]] = {}
    for job in claim.jobs:
        line = found.pop(job.after) if job.after else []
        found[job.seq] = [*line, job.id]
    return [" ".join(line) for line in found.values()]


def sound(desk: Desk) -> None:
    assert desk.engine.doctor() == []


def test_the_next_jobs_of_a_key_follow_the_one_that_starts(desk: Desk) -> None:
    desk.enqueue("a1 a2 a3", slots("a", 1))
    desk.enqueue("b1 b2", slots("b", 1))
    desk.enqueue("c1", slots("c", 1))

    found = claim(desk)

    assert sorted(lines(found)) == ["a1 a2 a3", "b1 b2", "c1"]
    assert found.at_once == 3
    assert not found.more
    assert desk.claim() == ""
    assert desk.settle("a1 a2 a3 b1 b2 c1") == [True] * 6
    sound(desk)


def test_without_asking_nothing_follows(desk: Desk) -> None:
    desk.enqueue("a b", K)

    assert names(claim(desk, relay=())) == "a"


def test_a_relay_follows_rank(desk: Desk) -> None:
    desk.enqueue("a b", K)
    desk.enqueue("c d", K, priority=5)

    assert lines(claim(desk)) == ["c d a b"]


def test_a_relay_is_no_longer_than_its_time(desk: Desk) -> None:
    desk.enqueue(" ".join(f"j{n}" for n in range(9)), K)

    assert len(claim(desk, relay=(("task", 4 * MILLISECOND),)).jobs) == 5


def test_a_relay_has_so_many_at_most(desk: Desk) -> None:
    desk.enqueue(" ".join(f"j{n}" for n in range(2 * RELAY_MOST)), K)

    found = claim(desk, relay=(("task", 1),))

    assert names(found) == " ".join(f"j{n}" for n in range(RELAY_MOST))
    assert desk.settle(names(found)) == [True] * RELAY_MOST
    assert names(claim(desk, relay=(("task", 1),))) == " ".join(
        f"j{n}" for n in range(RELAY_MOST, 2 * RELAY_MOST)
    )


def test_the_relays_of_a_claim_are_so_many_jobs_at_most(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "FOLLOWERS_MOST", 3)
    for key in "abc":
        desk.enqueue(f"{key}1 {key}2 {key}3", slots(key, 1))

    assert sorted(lines(claim(desk))) == ["a1 a2 a3", "b1 b2", "c1"]
    sound(desk)


def test_a_relay_ends_before_a_task_of_unknown_length(desk: Desk) -> None:
    desk.enqueue("a b", K)
    desk.enqueue("c", K, task="other")
    desk.enqueue("d", K)

    assert lines(claim(desk)) == ["a b"]


def test_a_task_of_unknown_length_leads_none(desk: Desk) -> None:
    desk.enqueue("a", K, task="other")
    desk.enqueue("b", K)

    assert lines(claim(desk)) == ["a"]


def test_a_claim_gets_no_job_of_a_task_that_it_does_not_name(desk: Desk) -> None:
    desk.enqueue("a b", K)
    desk.enqueue("c", K, task="other")
    quick = (*QUICK, ("other", MILLISECOND))

    assert lines(claim(desk, tasks=["task"], relay=quick)) == ["a b"]
    desk.settle("a b")
    assert lines(claim(desk, tasks=["task"], relay=(("other", MILLISECOND),))) == []
    assert lines(claim(desk, tasks=["ot*"], relay=quick)) == ["c"]


def test_handlers_take_some_time(desk: Desk) -> None:
    with pytest.raises(InvalidError):
        claim(desk, relay=(("task", 0),))


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param((slots("k", 2),), id="two slots"),
        pytest.param((K, slots("other", 1)), id="two keys"),
        pytest.param((Limit("k", Numbers(slots=1, rate=rate("k", 5).numbers.rate)),), id="a rate"),
        pytest.param((slots("k", 1, "drop"),), id="drop"),
        pytest.param((), id="no limits"),
    ],
)
def test_nothing_follows_where_more_than_a_slot_decides(desk: Desk, limits: tuple[Limit, ...]) -> None:
    desk.enqueue("a b c d", *limits)

    assert all(not job.after for job in claim(desk).jobs)


def test_nothing_follows_at_a_gate_that_another_lane_passes(desk: Desk) -> None:
    desk.enqueue("a b", K)
    desk.enqueue("c", K, queue="other")

    assert lines(claim(desk)) == ["a"]


def test_nothing_follows_at_a_gate_with_rules(desk: Desk) -> None:
    desk.enqueue("a b", K)
    desk.engine.configure("key", "k", Numbers(slots=1))

    assert lines(claim(desk)) == ["a"]


def test_nothing_follows_in_a_queue_with_a_limit(desk: Desk) -> None:
    desk.enqueue("a b", K)
    desk.engine.configure("queue", "q", Numbers(slots=5))

    assert lines(claim(desk)) == ["a"]


def test_nothing_follows_if_another_key_waits_for_hands(desk: Desk) -> None:
    desk.enqueue("a1 a2", slots("a", 1))
    desk.enqueue("b1 b2", slots("b", 1))

    assert names(claim(desk, 1)) == "a1"


def test_nothing_follows_if_jobs_without_limits_wait_for_hands(desk: Desk) -> None:
    desk.enqueue("a1 a2", K, priority=1)
    desk.enqueue("free")

    assert names(claim(desk, 1)) == "a1"
    assert names(claim(desk, 1)) == "free"


def test_a_settle_and_a_claim_in_one_hand_on_without_hands_to_spare(desk: Desk) -> None:
    desk.enqueue("a1 a2 a3 a4", slots("a", 1))
    first = claim(desk, 1, relay=())

    (accepted,), found = desk.engine.exchange(
        [Settlement(first.jobs[0].seq, first.jobs[0].fence, Done())], ["q"], 1, worker="worker", relay=QUICK
    )

    assert accepted is True
    assert lines(found) == ["a2 a3 a4"]


@pytest.mark.parametrize("order", ["a b c", "c b a", "b c a", "c a b"])
def test_the_slot_is_free_when_the_last_has_gone_in_whatever_order(desk: Desk, order: str) -> None:
    desk.enqueue("a b c d", K)
    assert lines(claim(desk, relay=SIX)) == ["a b c"]

    *early, last = order.split()
    for name in early:
        assert desk.settle(name) == [True]
        assert claim(desk).jobs == []
        sound(desk)
    assert desk.settle(last) == [True]

    assert names(claim(desk)) == "d"


def test_what_is_handed_back_unbegun_keeps_its_place(desk: Desk) -> None:
    desk.enqueue("a b c d", K)
    claim(desk)

    assert desk.settle("b c d", HandedBack()) == [True] * 3

    assert claim(desk).jobs == []
    assert desk.settle("a") == [True]
    assert lines(claim(desk)) == ["b c d"]
    assert [job.attempt for job in desk.attempts.values()] == [1] * 4
    sound(desk)


def test_a_higher_priority_goes_before_what_is_handed_back(desk: Desk) -> None:
    desk.enqueue("a b c", K)
    claim(desk)
    desk.enqueue("high", K, priority=9)

    desk.settle("b c", HandedBack())
    desk.settle("a")

    assert lines(claim(desk)) == ["high b c"]


def test_a_worker_that_dies_loses_the_whole_relay_and_what_was_lost_starts_alone(desk: Desk) -> None:
    desk.enqueue("a b c d e", K)
    first = claim(desk, relay=SIX)
    assert lines(first) == ["a b c"]
    assert desk.settle("a") == [True]

    desk.wait(LEASE)

    again = claim(desk)
    assert lines(again) == ["b"]
    assert [job.lost for job in again.jobs] == [1]
    assert {job.fence for job in again.jobs}.isdisjoint({job.fence for job in first.jobs})
    desk.settle("b")
    assert lines(claim(desk)) == ["c"]
    desk.settle("c")
    assert lines(claim(desk)) == ["d e"]
    sound(desk)


def test_a_relay_ends_before_a_job_that_lost_its_worker(desk: Desk) -> None:
    desk.enqueue("a", K)
    claim(desk)
    desk.wait(LEASE)
    desk.enqueue("b c", K, priority=1)

    assert lines(claim(desk)) == ["b c"]


def test_a_job_that_kills_workers_takes_no_other_with_it(desk: Desk) -> None:
    desk.enqueue("poison b c d", K)
    assert lines(claim(desk)) == ["poison b c d"]
    desk.wait(LEASE)
    for _ in range(MAX_LOST):
        assert names(claim(desk)) == "poison"
        desk.wait(LEASE)

    assert names(claim(desk)) == "b"
    assert [desk.state(name) for name in ("poison", *"bcd")] == [
        State.FAILED,
        State.RUNNING,
        State.WAITING,
        State.WAITING,
    ]
    assert desk.attempts["b"].lost == 1
    sound(desk)


def test_jobs_whose_lost_attempts_count_are_in_no_relay(desk: Desk) -> None:
    desk.enqueue("a b", K, retry=RetryPolicy(attempts=1, lost_counts=True))
    desk.enqueue("c d e", K)
    desk.enqueue("f", K, retry=RetryPolicy(attempts=1, lost_counts=True))

    assert lines(claim(desk)) == ["a"]
    desk.wait(LEASE)
    assert lines(claim(desk)) == ["b"]
    assert [desk.state(name) for name in "ab"] == [State.FAILED, State.RUNNING]
    desk.settle("b")
    assert lines(claim(desk)) == ["c d e"]
    sound(desk)


def test_the_slot_stays_taken_while_one_of_the_relay_has_its_lease(desk: Desk) -> None:
    desk.enqueue("a b c", K)
    claim(desk)
    desk.wait(LEASE // 2)
    kept = desk.attempts["a"]
    desk.engine.heartbeat([(kept.seq, kept.fence)], lease=LEASE)

    desk.wait(LEASE // 2)

    assert claim(desk).jobs == []  # b and c were lost, a runs
    assert [desk.state(name) for name in "abc"] == [State.RUNNING, State.WAITING, State.WAITING]
    sound(desk)
    assert desk.settle("a") == [True]
    assert lines(claim(desk)) == ["b"]


def test_a_member_that_fails_is_retried_after_the_others(desk: Desk) -> None:
    desk.enqueue("a b c d", K, retry=RetryPolicy(attempts=3))
    claim(desk, relay=SIX)

    desk.settle("a", Again(after=0))
    assert claim(desk).jobs == []
    desk.settle("b c")

    assert lines(claim(desk)) == ["d a"]
    sound(desk)


def test_a_key_that_a_member_shuts_lets_the_others_back_in_line(desk: Desk) -> None:
    desk.enqueue("a b c", K)
    claim(desk)

    desk.settle("a", Limited(desk.clock.now() + SECOND))
    desk.settle("b c", HandedBack())

    assert claim(desk).jobs == []
    desk.wait(SECOND)
    assert lines(claim(desk)) == ["a b c"]
    sound(desk)


def test_a_cancel_of_a_member_is_asked_of_its_worker(desk: Desk) -> None:
    desk.enqueue("a b c", K)
    claim(desk)

    desk.engine.cancel("b")

    beats = desk.engine.heartbeat(
        [(desk.attempts[n].seq, desk.attempts[n].fence) for n in "abc"], lease=LEASE
    )
    assert [beat.cancel_asked for beat in beats] == [False, True, False]
    assert desk.settle("b", HandedBack()) == [True]
    assert desk.state("b") is State.CANCELLED
    desk.settle("a c")
    sound(desk)


def test_a_raised_limit_lets_others_start_but_never_too_many(desk: Desk) -> None:
    desk.enqueue("a b c d e", K)
    claim(desk, relay=SIX)

    desk.engine.configure("key", "k", Numbers(slots=4))

    assert names(claim(desk)) == "d"
    assert desk.settle("a") == [True]
    assert names(claim(desk)) == "e"
    sound(desk)


def test_a_relay_shows_as_one_slot(desk: Desk) -> None:
    desk.enqueue("a b c d", K)
    claim(desk, relay=SIX)

    assert desk.engine.gate("k").running == 1
    assert "1 running of 1 at once" in str(desk.engine.why("d"))
    desk.settle("a")
    assert desk.engine.gate("k").running == 1
    desk.settle("b c")
    assert desk.engine.gate("k").running == 0


def test_a_rule_that_is_set_meanwhile_does_not_hide_that_it_is_one_slot(desk: Desk) -> None:
    desk.enqueue("a b c d", K)
    claim(desk, relay=SIX)

    desk.engine.configure("queue", "q", Numbers(slots=1))

    assert desk.engine.gate("k").running == 1
    sound(desk)


def test_metrics_and_surveys_show_one_slot_too(desk: Desk) -> None:
    desk.enqueue("a b c d", K)
    desk.enqueue("x y", slots("other", 1), queue="other")
    claim(desk, relay=SIX)
    claim(desk, queues=["other"])

    gauges, least = desk.engine.gauges(10), desk.engine.gauges(1)

    assert sorted((key.key, key.running) for key in gauges.keys) == [("k", 1), ("other", 1)]
    assert [(key.key, key.running) for key in least.keys] == [("k", 1)]
    assert least.other_running == 1
    counts = desk.engine.survey("", lambda survey: [*chain(*survey.key_pages())], span=SECOND)
    assert [(count.key, count.running) for count in counts] == [("k", 1), ("other", 1)]


def test_events_tell_of_one_slot(desk: Desk) -> None:
    desk.enqueue("a b c d", K)
    claim(desk, relay=SIX)
    desk.enqueue("e", K)
    desk.enqueue("f", K, task="other")

    found = desk.heard("limit.exceeded")

    assert len(found) >= 2
    assert {(event.facts["limit"], event.facts["current"]) for event in found} == {(1, 1)}


def test_claims_that_are_answered_together_get_no_relays(desk: Desk) -> None:
    desk.enqueue("a b", K)
    wanted = [ClaimFor(("q",), 1, worker, relay=QUICK) for worker in ("one", "two")]

    answers = desk.engine.claims(wanted)

    assert [names(answer) for answer in answers] == ["a", ""]


def test_jobs_of_a_tenant_are_claimed_one_by_one(desk: Desk) -> None:
    desk.engine.enqueue([NewJob(id=name, task="task", queue="q", limits=(K,), tenant="t") for name in "ab"])

    assert lines(claim(desk)) == ["a"]


@pytest.mark.parametrize(
    "facts",
    [{"order": Order.STRICT}, {"order": Order.WEIGHTED, "weights": (1, 1)}],
    ids=["strict", "weighted"],
)
def test_shares_of_queues_have_no_relays(desk: Desk, facts: dict[str, object]) -> None:
    desk.enqueue("a b c d e f", K)
    desk.enqueue("x y", queue="other")

    found = claim(desk, 4, queues=["q", "other"], **facts)

    assert sorted(lines(found)) == ["a", "x", "y"]
    assert not found.more
    sound(desk)


def test_several_engines_never_have_two_relays_of_a_key(desk: Desk, opened: Callable[[], Engine]) -> None:
    other = opened()
    desk.enqueue(" ".join(f"j{n}" for n in range(40)), K)

    first = claim(desk)
    assert other.claim(["q"], 5, worker="other", relay=QUICK).jobs == []
    desk.settle(names(first))
    second = other.claim(["q"], 5, worker="other", relay=QUICK)

    assert len(second.jobs) == RELAY_MOST
    assert claim(desk).jobs == []
    sound(desk)
