"""Claims: for several workers in one transaction, and from several queues in the order they ask for."""

import random
from collections import Counter

import pytest

from penstock.clock import MILLISECOND, SECOND
from penstock.engine import Engine
from penstock.errors import InvalidError
from penstock.job import LEASE, Claim, ClaimFor, NewJob, Order, Settlement
from penstock.lifecycle.outcomes import Again, Done, HandedBack, Limited
from penstock.lifecycle.retry import RetryPolicy
from penstock.limits.rules import Limit, Numbers, Window
from tests.support.desk import Desk, rate, slots, throttle
from tests.support.soak import often


def ids(claim: Claim) -> str:
    return " ".join(job.id for job in claim.jobs)


def ask(count: int = 1, queues: str = "q", worker: str = "w", **facts) -> ClaimFor:
    return ClaimFor(tuple(queues.split()), count, worker, **facts)


class TestTogether:
    def test_each_gets_what_he_would_have_got_alone(self, desk: Desk) -> None:
        desk.enqueue("a b c")
        desk.enqueue("best", priority=1)

        answers = desk.engine.claims([ask(2, worker="one"), ask(1, worker="two"), ask(3, worker="three")])

        assert [ids(answer) for answer in answers] == ["best a", "b", "c"]
        found = desk.engine.attempts(["best", "a", "b", "c"])
        workers = {running.id: running.worker for running in found}
        assert workers == {"best": "one", "a": "one", "b": "two", "c": "three"}
        assert desk.engine.doctor() == []

    def test_a_batch_counts_itself_over_all_its_workers(self, desk: Desk) -> None:
        desk.enqueue("a b c d", slots("k", 3))
        answers = desk.engine.claims([ask(2, worker=str(n)) for n in range(4)])

        assert [ids(answer) for answer in answers] == ["a b", "c", "", ""]
        assert desk.engine.gate("k").running == 3
        assert desk.engine.doctor() == []

    @pytest.mark.parametrize("limits", [(), (slots("k", 2),)], ids=["free", "limited"])
    def test_those_who_ask_for_different_things_are_served_in_order(self, desk: Desk, limits) -> None:
        desk.enqueue("a b", *limits)
        desk.enqueue("x y", *limits, queue="other")
        answers = desk.engine.claims(
            [ask(1), ask(2, "other q", lease=SECOND), ask(9, "other"), ask(9, worker="late")]
        )

        assert [ids(answer) for answer in answers] == (
            ["a", "b x", "y", ""] if not limits else ["a", "b", "", ""]
        )
        assert desk.engine.doctor() == []

    def test_a_window_is_shared_by_all(self, desk: Desk) -> None:
        desk.enqueue("a b c", rate("k", 2), queue="q")
        desk.enqueue("d", rate("k", 2), queue="p")
        answers = desk.engine.claims([ask(1), ask(1, "p q"), ask(5, "p")])

        assert [len(answer.jobs) for answer in answers] == [1, 1, 0]
        assert answers[2].next_at is not None

    def test_everyone_can_settle_what_he_got(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("k", 2))
        desk.enqueue("c")
        answers = desk.engine.claims([ask(1, worker=str(n)) for n in range(3)])
        jobs = [job for answer in answers for job in answer.jobs]

        assert [True] * 3 == desk.engine.settle([Settlement(job.seq, job.fence, Done()) for job in jobs])
        assert desk.engine.gate("k").running == 0

    def test_nothing_asked_nothing_given(self, desk: Desk) -> None:
        assert desk.engine.claims([]) == []

    def test_one_bad_request_refuses_all(self, desk: Desk) -> None:
        desk.enqueue("a")
        with pytest.raises(InvalidError):
            desk.engine.claims([ask(1), ask(0)])

        assert ids(desk.engine.claim(["q"], 1, worker="w")) == "a"

    def test_two_engines_never_get_the_same(self, opened) -> None:
        one, two = opened(), opened()
        one.enqueue([NewJob("task", queue="q") for _ in range(40)])
        taken: Counter[str] = Counter()
        for engine in (one, two) * 5:
            for answer in engine.claims([ask(2, worker=str(n)) for n in range(2)]):
                taken.update(job.id for job in answer.jobs)

        assert len(taken) == 40
        assert set(taken.values()) == {1}


def full(engine: Engine) -> None:
    """Fill two queues with jobs that share limits, and some that have none."""
    limits = ((), (slots("k", 2),), (rate("r", 3),), (slots("k", 2), rate("r", 3)))
    engine.enqueue(
        [
            NewJob("task", id=f"{queue}{n}", queue=queue, limits=limits[n % 4], priority=n % 3)
            for n in range(8)
            for queue in ("one", "two")
        ]
    )


class TestOneAfterTheOther:
    """Several claims of one transaction are what they would be one by one."""

    @pytest.mark.parametrize("order", [Order.PRIORITY, Order.STRICT])
    @pytest.mark.parametrize("queues", [("one",), ("one", "two"), ("two", "one")], ids=" ".join)
    def test_the_same_jobs_start(self, opened, order, queues) -> None:
        engine, found = opened(), []
        wanted = [ClaimFor(queues if w in "ac" else ("two", "one"), 2, w, order=order) for w in "abaccb"]
        for claim in (engine.claims, lambda all_: [engine.claims([each])[0] for each in all_]):
            full(engine)
            found.append([ids(answer) for answer in claim(wanted)])
            started = " ".join(found[-1]).split()
            assert {run.id: run.worker for run in engine.attempts(started)} == {
                id_: each.worker
                for each, answer in zip(wanted, found[-1], strict=True)
                for id_ in answer.split()
            }
            assert engine.doctor() == []
            engine.reset()

        assert found[0] == found[1]

    @pytest.mark.parametrize("order", [Order.ROUND_ROBIN, Order.WEIGHTED, Order.LEAST_LOADED])
    def test_where_chance_decides_as_many_start(self, opened, order) -> None:
        engine = opened()
        full(engine)
        wanted = [
            ClaimFor(q, 3, "w", order=order, weights=(2, 1)) for q in (("one", "two"), ("two", "one")) * 3
        ]
        started = [job.id for answer in engine.claims(wanted) for job in answer.jobs]

        # Two slots and three starts: of those that need both some take what the others lack.
        assert len(started) == len(set(started))
        assert engine.gate("k").running == 2
        assert engine.gate("r").recent == 3
        assert sum(int(id_[-1]) % 4 == 0 for id_ in started) == 4
        assert engine.doctor() == []

    def test_the_next_one_sees_who_runs(self, opened, ample) -> None:
        engine = opened()
        engine.enqueue(
            [NewJob("task", queue=queue, limits=ample) for queue in ("one", "two") for _ in range(9)]
        )
        by_load = {"order": Order.LEAST_LOADED}
        answers = engine.claims([ask(3, "one"), ask(3, "one two", **by_load), ask(2, "two one", **by_load)])

        assert Counter(job.queue for job in answers[1].jobs) == {"two": 3}
        assert Counter(job.queue for job in answers[2].jobs) == {"one": 1, "two": 1}

    def test_the_next_look_is_when_the_shortest_lease_of_all_ends(self, desk: Desk, ample) -> None:
        desk.enqueue("a b", *ample)
        answers = desk.engine.claims([ask(1, lease=SECOND), ask(5, lease=9 * SECOND)])

        assert answers[1].next_at == desk.clock.now() + SECOND

    @pytest.mark.parametrize("order", [Order.PRIORITY, Order.STRICT])
    def test_whom_the_first_one_called_the_next_one_finds(self, desk: Desk, order) -> None:
        desk.enqueue("a b", rate("k", 2), queue="one")
        desk.enqueue("x y", rate("k", 2), queue="two")
        claim = desk.engine.claim(["one"], 5, worker="w")
        assert (ids(claim), ids(desk.engine.claim(["two"], 5, worker="w"))) == ("a b", "")
        desk.wait(2 * SECOND)
        answers = desk.engine.claims([ask(5, "one"), ask(1, "one two", order=order), ask(1, "two")])

        assert [ids(answer) for answer in answers] == ["", "x", "y"]


def fill(desk: Desk, queues: str, count: int, *limits: Limit) -> None:
    for queue in queues.split():
        desk.engine.enqueue([NewJob("task", queue=queue, limits=limits) for _ in range(count)])


class TestOrders:
    def test_by_priority_the_best_of_all_queues_goes_first(self, desk: Desk) -> None:
        desk.enqueue("a", queue="one")
        desk.enqueue("b", queue="two", priority=5)

        assert ids(desk.engine.claim(["one", "two"], 1, worker="w")) == "b"

    def test_strictly_the_next_queue_gets_what_the_first_leaves(self, desk: Desk, ample) -> None:
        desk.enqueue("x y", *ample, queue="two", priority=9)
        desk.enqueue("a b", *ample, queue="one")

        def claim(count: int) -> str:
            return ids(desk.engine.claim(["one", "two"], count, worker="w", order=Order.STRICT))

        assert claim(1) == "a"
        assert claim(2) == "b x"
        assert claim(2) == "y"
        assert claim(2) == ""

    def test_strictly_a_first_queue_that_cannot_go_stops_nobody(self, desk: Desk) -> None:
        desk.enqueue("a", slots("k", 0), queue="one")
        desk.enqueue("p", queue="paused")
        desk.enqueue("b", queue="two")
        desk.engine.pause("paused")

        claim = desk.engine.claim(["one", "paused", "two"], 2, worker="w", order=Order.STRICT)

        assert ids(claim) == "b"

    def test_strictly_the_next_look_is_no_later_than_the_clock_says(self, desk: Desk) -> None:
        desk.enqueue("a b", rate("k", 1), queue="two")
        first = desk.engine.claim(["one", "two"], 5, worker="w", order=Order.STRICT)
        assert ids(first) == "a"
        assert first.next_at is not None

        desk.wait(first.next_at - desk.clock.now())
        assert ids(desk.engine.claim(["one", "two"], 5, worker="w", order=Order.STRICT)) == "b"

    def test_round_robin_takes_as_many_from_each(self, desk: Desk) -> None:
        fill(desk, "one two three", 10)

        same = taken(desk.engine, "one two three", 9, order=Order.ROUND_ROBIN)
        assert same == {"one": 3, "two": 3, "three": 3}
        some = taken(desk.engine, "one two three", 4, order=Order.ROUND_ROBIN)
        assert sorted(some.values()) == [1, 1, 2]

    def test_what_one_queue_lacks_the_others_give(self, desk: Desk) -> None:
        desk.enqueue("a", queue="one")
        desk.engine.enqueue([NewJob("task", queue="two") for _ in range(10)])

        assert taken(desk.engine, "one two none", 8, order=Order.ROUND_ROBIN) == {"one": 1, "two": 7}

    def test_by_weight_each_gives_its_share(self, desk: Desk) -> None:
        fill(desk, "one two", 20)

        shares = taken(desk.engine, "one two", 8, order=Order.WEIGHTED, weights=(3, 1))
        assert shares == {"one": 6, "two": 2}

    def test_by_weight_one_at_a_time_comes_to_the_same_in_the_long_run(self, desk: Desk) -> None:
        fill(desk, "one two", 200)
        total: Counter[str] = Counter()
        for _ in range(200):
            total.update(taken(desk.engine, "one two", 1, order=Order.WEIGHTED, weights=(3, 1)))

        assert 110 < total["one"] < 185

    def test_the_least_loaded_queue_gives_first(self, desk: Desk) -> None:
        fill(desk, "one two", 20)
        desk.engine.claim(["one"], 3, worker="w")

        assert taken(desk.engine, "one two", 1, order=Order.LEAST_LOADED) == {"two": 1}
        assert taken(desk.engine, "one two", 6, order=Order.LEAST_LOADED) == {"one": 2, "two": 4}

    def test_no_order_breaks_a_limit(self, desk: Desk) -> None:
        fill(desk, "one two", 5, slots("k", 3))
        for order in Order:
            taken(desk.engine, "one two", 5, order=order, weights=(1, 2))

        assert desk.engine.gate("k").running == 3
        assert desk.engine.doctor() == []

    @pytest.mark.parametrize("weights", [(), (1,), (1, 0)])
    def test_weights_must_fit(self, desk: Desk, weights) -> None:
        with pytest.raises(InvalidError, match="weights"):
            desk.engine.claim(["one", "two"], 1, worker="w", order=Order.WEIGHTED, weights=weights)


class TestOwnLease:
    def test_a_job_has_the_lease_it_asks_for(self, desk: Desk, ample) -> None:
        desk.enqueue("short", *ample, lease=3 * SECOND)
        desk.enqueue("usual", *ample)
        now = desk.clock.now()
        desk.claim()

        leases = {running.id: running.lease - now for running in desk.engine.attempts(["short", "usual"])}
        assert leases == {"short": 3 * SECOND, "usual": LEASE}
        assert desk.attempts["short"].lease == now + 3 * SECOND
        assert desk.job("short").own_lease == 3 * SECOND
        assert desk.job("usual").own_lease is None

    def test_it_is_rescued_when_that_is_over(self, desk: Desk) -> None:
        desk.enqueue("a", lease=3 * SECOND)
        desk.claim()
        desk.wait(3 * SECOND)

        assert desk.claim() == "a"

    def test_a_heartbeat_renews_it_by_as_much(self, desk: Desk) -> None:
        desk.enqueue("a", lease=3 * SECOND)
        desk.claim()
        desk.wait(2 * SECOND)
        (beat,) = desk.engine.heartbeat([(desk.attempts["a"].seq, desk.attempts["a"].fence)])

        assert beat.alive
        assert desk.job("a").lease == desk.clock.now() + 3 * SECOND

    @pytest.mark.parametrize("lease", [0, -1, 1.5, True])
    def test_it_must_be_a_span(self, desk: Desk, lease) -> None:
        with pytest.raises(InvalidError, match="lease"):
            desk.enqueue("a", lease=lease)

    def test_a_claim_looks_again_when_the_shortest_lease_ends(self, desk: Desk) -> None:
        desk.enqueue("a")
        desk.enqueue("b", lease=SECOND)

        claim = desk.engine.claim(["q"], 5, worker="w")
        assert claim.next_at == desk.clock.now() + SECOND


class TestAttempts:
    def test_who_runs_is_told_by_id(self, desk: Desk) -> None:
        desk.enqueue("a b", tenant="t")
        desk.claim(1)

        (running,) = desk.engine.attempts(["a", "b", "unknown"])

        assert desk.engine.attempts(["a"], "t") == [running]
        assert desk.engine.attempts(["a"], "") == desk.engine.attempts([]) == []
        claimed = desk.attempts["a"]
        assert (running.seq, running.fence, running.worker) == (claimed.seq, claimed.fence, "worker")
        assert (running.queue, running.task, running.tenant) == ("q", "task", "t")
        assert (running.attempt, running.started, running.deadline) == (1, desk.clock.now(), None)
        assert (running.id, running.cancel_at, running.own_lease) == ("a", 0, None)
        assert desk.job("a").fence == claimed.fence
        assert desk.job("b").fence is None

    def test_when_it_was_asked_to_stop_is_remembered(self, desk: Desk) -> None:
        desk.enqueue("a")
        desk.claim()
        desk.wait(SECOND)
        asked = desk.clock.now()
        desk.engine.cancel("a")
        desk.wait(SECOND)
        desk.engine.cancel("a")

        assert desk.engine.attempts(["a"])[0].cancel_at == asked
        assert desk.job("a").cancel_at == asked
        assert desk.job("a").cancel_asked


def taken(engine: Engine, queues: str, count: int, **facts) -> Counter[str]:
    """Claim, and return how many came from each queue."""
    found: Counter[str] = Counter()
    left = count
    more = True
    while more and left:
        claim = engine.claim(queues.split(), left, worker="w", **facts)
        found.update(job.queue for job in claim.jobs)
        left -= len(claim.jobs)
        more = claim.more
    return found


@pytest.mark.parametrize("seed", range(often(1, 4)))
def test_a_claim_never_asks_to_be_repeated_in_the_past(desk: Desk, seed: int) -> None:
    chance = random.Random(seed)
    desk.engine.configure("queue", "q", Numbers(rate=Window(8, SECOND)))
    desk.engine.configure("type", "mail", Numbers(throttle=Window(5, SECOND)))
    x, y, z = slots("X", 1), rate("Y", 2), throttle("Z", 4)
    choices = [(), (x,), (y,), (z, slots("X", 2)), (slots("X", 1, "drop"),)]
    policy = RetryPolicy(attempts=3, delay=SECOND // 3, jitter=False)
    running: list[tuple[int, int]] = []
    for _ in range(100):
        now = desk.clock.now()
        job = NewJob(
            chance.choice(("mail", "task")),
            queue="q",
            limits=chance.choice(choices),
            priority=chance.choice((0, 0, 1)),
            cost=chance.choice((1, 1, 2)),
            due=chance.choice((None, now + chance.randrange(SECOND))),
            expires=chance.choice((None, now + chance.randrange(1, 3 * SECOND))),
            retry=policy,
        )
        desk.engine.enqueue([job])
        claim = desk.engine.claim(["q"], 3, worker="worker", lease=LEASE // 10)
        if claim.next_at is not None:
            assert claim.next_at >= now
            assert claim.more or len(claim.jobs) == 3 or claim.next_at > now
        running += [(job.seq, job.fence) for job in claim.jobs]
        outcome = chance.choice((Done(), Again(), HandedBack(), Limited(now + SECOND // 2)))
        if running and chance.random() < 0.7:
            desk.engine.settle([Settlement(*running.pop(0), outcome)])
        desk.wait(chance.choice((0, 1, MILLISECOND, 80 * MILLISECOND, SECOND // 2)))
    assert desk.engine.doctor() == []


def test_the_moment_a_claim_names_is_early_enough(desk: Desk) -> None:
    """A worker that looks only when told to loses no time and serves every job."""
    desk.enqueue("r1 r2 r3 r4 r5", rate("R", 2))
    desk.enqueue("t1 t2 t3", throttle("T", 3))
    desk.enqueue("later", slots("S", 1), due=desk.clock.now() + SECOND // 2)
    desk.engine.shut("S", desk.clock.now() + 2 * SECOND)
    started: list[str] = []
    for _ in range(100):
        claim = desk.engine.claim(["q"], 1, worker="worker", lease=LEASE)
        started += [job.id for job in claim.jobs]
        desk.engine.settle([Settlement(job.seq, job.fence, Done()) for job in claim.jobs])
        if claim.next_at is None:
            break
        desk.wait(claim.next_at - desk.clock.now())

    assert sorted(started) == ["later", "r1", "r2", "r3", "r4", "r5", "t1", "t2", "t3"]
