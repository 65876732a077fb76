"""What became of each attempt is kept with its job, in the transaction that settles it."""

import json

import pytest

from penstock.clock import SECOND
from penstock.engine.history import KEPT
from penstock.job import PastAttempt
from penstock.lifecycle.outcomes import Again, Cancelled, Done, Ending, Failed, HandedBack, Limited
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.limits.rules import Numbers
from penstock.store.session import Session
from tests.support.desk import LEASE, Desk, rate, slots

OFTEN = RetryPolicy(attempts=5, delay=0, jitter=False)
NO = Failed("Bad", "no")


def outcomes(desk: Desk, name: str) -> str:
    """Return how the attempts at a job ended, in order."""
    return " ".join(attempt.outcome for attempt in desk.engine.history(name))


def lose(desk: Desk) -> None:
    """Let the leases of all attempts run out, and rescue them."""
    desk.wait(LEASE)
    desk.engine.upkeep()


class TestAnAttemptThatEndedDone:
    def test_it_keeps_its_worker_its_result_and_its_span(self, desk: Desk) -> None:
        desk.enqueue("a")
        desk.claim()
        started = desk.clock.now()
        desk.wait(SECOND)
        desk.settle("a", Done('"yes"'))

        (attempt,) = desk.engine.history("a")
        assert attempt == PastAttempt(
            1, 1, Ending.DONE, started, None, started + SECOND, "worker", result='"yes"'
        )

    def test_it_has_no_row_of_its_own(self, desk: Desk, limits) -> None:
        desk.enqueue("a", *limits)
        desk.claim()
        desk.settle("a")

        assert desk.engine.store.read(lambda db: db.all("SELECT seq FROM attempt")) == []

    def test_it_keeps_when_its_handler_began_where_that_is_told(self, desk: Desk) -> None:
        desk.enqueue("a", rate("k", 5))
        desk.claim()
        desk.wait(20_000)
        began = desk.clock.now()
        desk.wait(SECOND)
        desk.settle("a", began=began)

        (attempt,) = desk.engine.history("a")
        assert (attempt.began, attempt.held) == (began, ("k",))


def test_an_attempt_that_runs_is_the_last_one(desk: Desk) -> None:
    desk.enqueue("a", retry=OFTEN)
    desk.claim()
    desk.settle("a", NO)
    desk.claim()

    assert outcomes(desk, "a") == "failed running"
    assert [attempt.number for attempt in desk.engine.history("a")] == [1, 2]
    assert desk.engine.history("a")[-1].ended is None


@pytest.mark.parametrize(
    ("outcome", "ending", "reason", "kind"),
    [
        (NO, "failed", "", "Bad"),
        (Again(reason="later"), "again", "", "Retry"),
        (Cancelled("enough"), "cancelled", "enough", None),
        (HandedBack(begun=True, reason="stopping"), "handed_back", "stopping", None),
        (Limited(0, reason="429"), "limited", "429", None),
        (Limited(0, "other", "429"), "limited", "429", "InvalidError"),
    ],
)
def test_every_other_end_is_kept_with_what_is_known_of_it(
    desk: Desk, limits, outcome, ending, reason, kind
) -> None:
    desk.enqueue("a", *limits, retry=OFTEN)
    desk.claim()
    started = desk.clock.now()
    desk.wait(SECOND)
    desk.settle("a", outcome)

    (attempt,) = desk.engine.history("a")
    assert attempt.outcome == ending
    assert (attempt.started, attempt.ended, attempt.worker) == (started, started + SECOND, "worker")
    assert attempt.held == tuple(limit.key for limit in limits)
    assert (attempt.reason, (attempt.error or {}).get("kind")) == (reason, kind)
    assert desk.engine.doctor() == []


def test_an_attempt_that_was_never_begun_was_none(desk: Desk, limits) -> None:
    desk.enqueue("a", *limits)
    desk.claim()
    desk.settle("a", HandedBack())
    desk.claim()
    desk.settle("a")

    assert outcomes(desk, "a") == "done"


def test_a_cancelled_attempt_whose_outcome_does_not_count_is_kept(desk: Desk) -> None:
    desk.enqueue("a", retry=OFTEN)
    desk.claim()
    desk.engine.cancel("a")
    desk.settle("a", NO)

    assert outcomes(desk, "a") == "failed"
    assert desk.state("a") is State.CANCELLED


class TestLost:
    def test_a_lost_attempt_is_kept_once(self, desk: Desk, limits) -> None:
        desk.enqueue("a", *limits)
        desk.claim()
        late = desk.attempts["a"]
        lose(desk)
        lose(desk)
        desk.claim()
        desk.attempts["a"], again = late, desk.attempts["a"]
        assert desk.settle("a", NO) == [False]
        desk.attempts["a"] = again
        desk.settle("a")

        lost, done = desk.engine.history("a")
        assert (lost.outcome, lost.worker, (lost.error or {})["kind"]) == ("lost", "worker", "LeaseLost")
        assert (done.outcome, done.number, done.attempt) == ("done", 2, 2)
        assert desk.job("a").used == 1

    def test_it_costs_no_attempt_unless_the_job_says_so(self, desk: Desk, limits) -> None:
        desk.enqueue("free", *limits, retry=RetryPolicy(attempts=2))
        desk.claim()
        lose(desk)

        assert desk.state("free") is State.WAITING
        assert desk.claim() == "free"
        assert desk.job("free").used == 1

    def test_one_that_counts_goes_by_the_retry_policy(self, desk: Desk, limits) -> None:
        policy = RetryPolicy(attempts=2, delay=3 * SECOND, jitter=False, lost_counts=True)
        desk.enqueue("a", *limits, retry=policy)
        desk.claim()
        lose(desk)

        view = desk.job("a")
        assert (view.state, view.due, view.used) == (State.SCHEDULED, desk.clock.now() + 3 * SECOND, 1)
        assert "its worker was not heard from" in view.reason

        desk.wait(3 * SECOND)
        desk.claim()
        lose(desk)

        view = desk.job("a")
        assert (view.state, view.reason, view.used, view.lost) == (State.FAILED, "attempts used up", 2, 0)
        assert outcomes(desk, "a") == "lost lost"
        assert len(desk.heard("job.rescued")) == 2
        assert desk.engine.doctor() == []

    def test_one_that_counts_may_be_final(self, desk: Desk) -> None:
        desk.enqueue("a", retry=RetryPolicy(attempts=9, never=("LeaseLost",), lost_counts=True))
        desk.claim()
        lose(desk)

        assert desk.job("a").reason == "an error that is not to be retried"

    def test_after_too_many_the_job_has_failed_and_knows_them_all(self, desk: Desk) -> None:
        desk.enqueue("a")
        for _ in range(6):
            desk.claim()
            lose(desk)

        assert (desk.state("a"), desk.job("a").lost) == (State.FAILED, 6)
        assert outcomes(desk, "a") == "lost lost lost lost lost lost"

    def test_one_that_took_too_long_has_failed(self, desk: Desk) -> None:
        desk.enqueue("a", timeout=SECOND)
        desk.engine.claim(["q"], 1, worker="worker", timed=True)
        desk.wait(SECOND)
        desk.engine.upkeep()

        assert outcomes(desk, "a") == "failed"


class TestRetriedByHand:
    def test_nothing_is_forgotten_and_numbers_go_on(self, desk: Desk, limits) -> None:
        desk.enqueue("a", *limits, retry=RetryPolicy(attempts=2, delay=0))
        for _ in range(2):
            desk.claim()
            desk.settle("a", NO)
        desk.wait(SECOND)
        desk.engine.retry("a")
        again = desk.clock.now()
        assert desk.job("a").used == 0
        desk.claim()
        desk.settle("a", NO)
        assert desk.state("a") is State.WAITING
        desk.claim()
        desk.settle("a")

        found = desk.engine.history("a")
        assert outcomes(desk, "a") == "failed failed failed done"
        assert [attempt.number for attempt in found] == [1, 2, 3, 4]
        assert [attempt.attempt for attempt in found] == [1, 2, 1, 2]
        assert [attempt.retried for attempt in found] == [None, again, None, None]
        assert [failure.attempt for failure in desk.engine.failures("a")] == [1, 2, 1]

    def test_lost_workers_are_counted_from_then_on(self, desk: Desk) -> None:
        desk.enqueue("a")
        for _ in range(6):
            desk.claim()
            lose(desk)
        desk.engine.retry("a")
        desk.claim()
        lose(desk)

        assert (desk.state("a"), desk.job("a").lost) == (State.WAITING, 1)

    def test_one_that_never_ran_has_no_attempts(self, desk: Desk) -> None:
        desk.enqueue("a")
        desk.engine.cancel("a")
        desk.engine.retry("a")

        assert desk.engine.history("a") == []


class TestGates:
    def test_it_names_the_gate_in_whose_line_its_job_stood(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("x", 9), slots("y", 1))
        desk.claim()
        desk.settle("a")
        desk.claim()
        desk.settle("b")

        (first,), (second,) = desk.engine.history("a"), desk.engine.history("b")
        assert (first.held, first.waited_for) == (("x", "y"), "")
        assert (second.held, second.waited_for) == (("x", "y"), "y")

    def test_one_that_waited_for_a_worker_only_waited_for_no_gate(self, desk: Desk) -> None:
        desk.enqueue("a b", slots("x", 2))
        desk.claim()

        assert [desk.engine.history(name)[0].waited_for for name in "ab"] == ["", ""]

    def test_gates_of_queues_types_and_tenants_are_held_too(self, desk: Desk) -> None:
        desk.engine.configure("queue", "q", Numbers(slots=3))
        desk.engine.configure("type", "task", Numbers(slots=3))
        desk.enqueue("a", slots("x", 9), tenant="acme")
        desk.claim()

        assert desk.engine.history("a")[0].held == ("x", "tenant", "type task", "queue q")

    def test_the_keys_of_a_job_are_known_after_its_gates_are_gone(self, desk: Desk) -> None:
        desk.enqueue("a", slots("x", 9), slots("y", 9))
        desk.claim()
        desk.settle("a")
        for _ in range(3):
            desk.engine.upkeep()
        assert desk.engine.store.read(lambda db: db.all("SELECT id FROM gate")) == []

        assert desk.engine.history("a")[0].held == ("x", "y")


def test_the_oldest_of_many_attempts_are_forgotten_and_their_number_is_known(desk: Desk) -> None:
    desk.enqueue("a", retry=RetryPolicy(attempts=1_000, delay=0))
    for _ in range(KEPT + 3):
        desk.claim()
        desk.settle("a", NO)

    found = desk.engine.history("a")
    assert len(found) == KEPT
    assert [found[0].number, found[-1].number] == [4, KEPT + 3]
    assert desk.engine.doctor() == []


def test_the_doctor_finds_attempts_without_a_job_and_numbers_that_are_missing(desk: Desk) -> None:
    desk.enqueue("a b", retry=OFTEN)
    for _ in range(3):
        desk.claim()
        desk.settle("a b", NO)
    seqs = [desk.job(name).seq for name in "ab"]

    def damage(db: Session) -> None:
        db.run("DELETE FROM job WHERE seq = ?", seqs[0])
        db.run("DELETE FROM ready WHERE seq = ?", seqs[0])
        db.run("DELETE FROM attempt WHERE seq = ? AND number = 2", seqs[1])

    desk.engine.store.write(damage)

    assert desk.engine.doctor() == [
        f"job number {seqs[0]} does not exist, but 3 attempts at it are kept",
        "job b keeps 2 attempts that are not numbered one after the other up to 3",
    ]


def test_failures_from_before_are_attempts_now(migrated) -> None:
    def write(db: Session) -> None:
        for seq, name in ((1, "a"), (2, "b")):
            db.run(
                "INSERT INTO job (seq, id, tenant, queue, task, args, priority, cost, limits, retry, meta, enqueued) "
                "VALUES (?, ?, '', 'q', 't', '{}', 0, 1, '', '', '{}', 0)",
                seq,
                name,
            )
            lost = json.dumps({"kind": "LeaseLost", "message": "attempt 1: its worker was not heard from"})
            db.run("INSERT INTO failure (seq, attempt, at, error) VALUES (?, 1, 10, ?)", seq, lost)
            bad = json.dumps({"kind": "Bad", "message": "no", "traceback": ""})
            db.run("INSERT INTO failure (seq, attempt, at, error) VALUES (?, 2, 20, ?)", seq, bad)
        db.run(
            "INSERT INTO done (seq, state, finished, started, attempt, result, error, reason) "
            "VALUES (1, 'done', 30, 25, 3, '7', NULL, '')"
        )
        db.run(
            "INSERT INTO done (seq, state, finished, started, attempt, result, error, reason) "
            "VALUES (2, 'failed', 20, 15, 2, NULL, '{\"kind\": \"Bad\"}', 'attempts used up')"
        )

    engine = migrated("0016_attempts.sql", write)

    assert [(past.number, past.outcome, past.ended) for past in engine.history("a")] == [
        (1, "lost", 10),
        (2, "failed", 20),
        (3, "done", 30),
    ]
    assert engine.history("a")[-1].result == "7"
    assert [(past.number, past.outcome) for past in engine.history("b")] == [(1, "lost"), (2, "failed")]
    assert [(engine.job(name).used, engine.job(name).lost) for name in "ab"] == [(2, 1), (1, 1)]
    assert [failure.kind for failure in engine.failures("b")] == ["LeaseLost", "Bad"]
    assert engine.doctor() == []
