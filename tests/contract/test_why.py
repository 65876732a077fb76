"""Why a job is put off, and how often it was tried, in words that are right."""

import json
from collections.abc import Callable

import pytest
from rich.console import Console
from typer.testing import CliRunner

from penstock.cli.root import app as command
from penstock.clock import SECOND
from penstock.dialects.ojs.format.envelope import of_view
from penstock.engine import Engine
from penstock.engine.enqueue import job_row
from penstock.errors import InvalidError, NotFoundError
from penstock.job import JobFilter, NewJob
from penstock.lifecycle.outcomes import Again, Done, Failed, HandedBack, Limited
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.limits.rules import Numbers, Window
from penstock.store import jobs as job_rows
from penstock.store.session import Session
from tests.support.desk import LEASE, Desk, rate, slots

LATER = RetryPolicy(attempts=3, delay=10 * SECOND, jitter=False)

Told = Callable[..., str]


@pytest.fixture
def told(url: str, opened: Callable[[], Engine], monkeypatch: pytest.MonkeyPatch) -> Told:
    """Run a command on the store under test, at the test's time, and return what it prints."""
    monkeypatch.setattr("penstock.app.backend.open_backend", lambda *_, **__: opened())

    def run(*words: str) -> str:
        done = CliRunner().invoke(command, ["--store", url, *words], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


def lose(desk: Desk, times: int) -> None:
    for _ in range(times):
        assert desk.claim() == "a"
        desk.wait(LEASE)


class TestScheduled:
    """Each of these read "is scheduled and not due yet"."""

    def test_a_job_that_was_enqueued_for_later_says_so(self, desk: Desk) -> None:
        desk.enqueue("a", due=desk.clock.now() + SECOND)

        assert desk.engine.why("a").sentence == "was enqueued for later and is not due yet"
        assert desk.job("a").reason == ""

    def test_a_job_between_attempts_names_the_failure_and_the_attempts(self, desk: Desk, told: Told) -> None:
        desk.enqueue("a", retry=LATER)
        desk.claim()
        desk.settle("a", Failed("ValueError", "boom\nand more"))

        why = desk.engine.why("a")
        assert why.sentence == "is put off: attempt 1 of 3 failed: ValueError: boom"
        assert why.earliest == desk.clock.now() + 10 * SECOND
        assert why.sentence in told("why", "a")
        assert why.sentence in told("jobs", "show", "a")
        assert "attempt 1 of 3 failed: ValueError: boom" in told("jobs", "list")
        assert json.loads(told("jobs", "show", "a", "--json"))["why"] == why.sentence
        assert of_view(desk.job("a"))["reason"] == "attempt 1 of 3 failed: ValueError: boom"

    def test_a_job_that_is_due_waits_for_a_worker_to_see_it(self, desk: Desk) -> None:
        desk.enqueue("a", retry=LATER)
        desk.enqueue("b", due=desk.clock.now() + SECOND)
        desk.claim()
        desk.settle("a", Failed("ValueError", "boom"))
        desk.wait(10 * SECOND)

        waits = "is due and waits for a worker of queue 'q'"
        assert desk.engine.why("b").sentence == waits
        assert (
            desk.engine.why("a").sentence
            == f"{waits}; it was put off: attempt 1 of 3 failed: ValueError: boom"
        )

    def test_a_handler_that_asked_to_run_again_is_told_from_one_that_failed(self, desk: Desk) -> None:
        desk.enqueue("a", retry=LATER)
        desk.claim()
        desk.settle("a", Again(5 * SECOND, "not ready"))

        assert desk.job("a").reason == "attempt 1 of 3 asked to run again: not ready"

    def test_a_job_put_off_by_a_429_gives_the_reason(self, desk: Desk, told: Told) -> None:
        desk.enqueue("a")
        desk.claim()
        desk.settle("a", Limited(desk.clock.now() + 20 * SECOND, reason="429"))

        assert desk.engine.why("a").sentence == "is put off: rate limited: 429"
        assert "is put off: rate limited: 429" in told("jobs", "show", "a")

    def test_a_job_left_by_a_worker_gives_its_words(self, desk: Desk) -> None:
        desk.enqueue("a b")
        desk.claim()
        desk.settle("a", HandedBack(after=SECOND, reason="worker w does not know task 'task'"))
        desk.settle("b", HandedBack(after=SECOND))

        assert desk.engine.why("a").sentence == "is put off: worker w does not know task 'task'"
        assert desk.job("b").reason == "handed back by its worker"

    def test_the_reason_ends_with_the_wait(self, desk: Desk) -> None:
        desk.enqueue("a", retry=LATER)
        desk.claim()
        desk.settle("a", Failed("ValueError", "boom"))
        desk.wait(10 * SECOND)
        assert desk.claim() == "a"

        assert desk.job("a").reason == ""

    def test_a_reason_is_one_short_line_that_any_store_can_keep(self, desk: Desk) -> None:
        desk.enqueue("a", retry=LATER)
        desk.claim()
        desk.settle("a", Failed("ValueError", "nul \0, half a pair \ud800 " + 1000 * "x"))

        reason = desk.job("a").reason
        assert len(reason) == 300
        assert reason.endswith("x…")


class TestShut:
    def test_a_gate_shut_by_a_handler_gives_its_reason_to_all_who_wait(self, desk: Desk, told: Told) -> None:
        desk.enqueue("a b", slots("api", 2))
        desk.claim(1)
        until = desk.clock.now() + 20 * SECOND
        desk.settle("a", Limited(until, "api", "429 from stripe"))

        rule = "shut for now, by a handler or an operator: 429 from stripe"
        assert [(r.gate, r.rule, r.opens_at) for r in desk.engine.why("a").reasons] == [("api", rule, until)]
        assert rule in desk.engine.why("b").sentence
        assert rule in told("why", "b")
        assert rule in told("jobs", "show", "a")
        assert desk.engine.gate("api").shut_reason == "429 from stripe"
        assert "429 from stripe" in told("gates", "show", "api")

    def test_the_reason_is_that_of_the_latest_moment_and_is_forgotten_with_it(self, desk: Desk) -> None:
        now = desk.clock.now()
        for until, reason in ((20, "first"), (30, "second"), (10, "third")):
            desk.engine.shut("api", now + until * SECOND, reason=reason)
        assert desk.engine.gate("api").shut_reason == "second"

        desk.engine.clear_override("api")
        desk.engine.shut("api", now + 5 * SECOND)
        assert desk.engine.gate("api").shut_reason == ""


class TestUnknownKey:
    """Once: a mistyped key silently protected nothing."""

    def test_the_job_is_put_off_and_says_which_keys_it_has(self, desk: Desk) -> None:
        desk.enqueue("a", slots("api:stripe", 2), slots("account:1", 2))
        desk.claim()
        until = desk.clock.now() + 20 * SECOND
        desk.settle("a", Limited(until, "api:strip", "429"))

        problem = (
            "key: 'api:strip' is none of its keys, so nothing was shut; "
            "the keys of this job are 'account:1', 'api:stripe'; 429"
        )
        view = desk.job("a")
        assert (view.state, view.due, view.used) == (State.SCHEDULED, until, 0)
        assert view.reason == f"rate limited: {problem}"
        assert [(f.kind, f.message) for f in desk.engine.failures("a")] == [("InvalidError", problem)]
        assert desk.engine.gate("api:stripe").shut_until is None

    def test_a_job_without_keys_says_so(self, desk: Desk) -> None:
        desk.enqueue("a")
        desk.claim()
        desk.settle("a", Limited(desk.clock.now() + SECOND, "api"))

        assert "this job has no keys" in desk.job("a").reason


class TestAttempts:
    """Lost workers use up no attempt, and "6 of 1" was read."""

    def test_lost_workers_are_counted_beside_the_attempts(self, desk: Desk, told: Told) -> None:
        desk.enqueue("a")
        lose(desk, 2)
        assert desk.claim() == "a"

        view = desk.job("a")
        assert (view.attempt, view.used, view.lost, view.max_attempts) == (3, 1, 2, 1)
        assert "1/1, 2 lost" in told("jobs", "list")
        assert "1 of 1, 2 lost" in told("jobs", "show", "a")
        shown = json.loads(told("jobs", "show", "a", "--json"))
        assert (shown["attempt"], shown["lost"], shown["max_attempts"]) == (1, 2, 1)
        envelope = of_view(view)
        assert (envelope["attempt"], envelope["max_attempts"]) == (3, 3)

    @pytest.mark.parametrize("lost", [0, 1, 5])
    def test_they_are_still_known_when_the_job_has_ended(self, desk: Desk, lost: int) -> None:
        desk.enqueue("a")
        lose(desk, lost)
        desk.claim()
        desk.settle("a", Done())

        view = desk.job("a")
        assert (view.state, view.used, view.lost) == (State.DONE, 1, lost)

    def test_a_job_that_lost_too_many_workers_has_used_no_attempt(self, desk: Desk, told: Told) -> None:
        desk.enqueue("a")
        lose(desk, 6)
        desk.claim()

        assert desk.state("a") is State.FAILED
        assert "0 of 1, 6 lost" in told("jobs", "show", "a")

    def test_a_job_whose_worker_was_lost_is_not_retrying(self, desk: Desk) -> None:
        desk.enqueue("a")
        lose(desk, 1)
        desk.claim()
        desk.settle("a", Limited(desk.clock.now() + SECOND))

        assert of_view(desk.job("a"))["state"] == "scheduled"
        found, _ = desk.engine.search(JobFilter(states=frozenset({"scheduled"})))
        assert [view.id for view in found] == ["a"]


class TestRules:
    """Once: "2 of 1 starts per 1m" was read where a limit was lowered."""

    def test_more_starts_than_a_lowered_rate_allows(self, desk: Desk) -> None:
        desk.enqueue("a b c", rate("api", 2, 60 * SECOND))
        desk.claim()
        desk.engine.override("api", Numbers(rate=Window(1, 60 * SECOND)))

        (reason,) = desk.engine.why("c").reasons
        assert reason.rule == "allows 1 start per 1m; 2 were made when it allowed more"

    def test_a_start_that_weighs_more_than_is_left_says_so(self, desk: Desk) -> None:
        desk.enqueue("a", rate("api", 5, 60 * SECOND), cost=3)
        desk.enqueue("b", rate("api", 5, 60 * SECOND), cost=4)
        desk.claim()

        (reason,) = desk.engine.why("b").reasons
        assert reason.rule == "3 of 5 starts per 1m, and it costs 4"

    def test_more_running_than_lowered_slots_allow(self, desk: Desk, told: Told) -> None:
        desk.enqueue("a b c d", slots("api", 3))
        assert desk.claim() == "a b c"
        desk.engine.configure("key", "api", Numbers(slots=1))

        (reason,) = desk.engine.why("d").reasons
        assert reason.rule == "3 running, and only 1 may at once; opens when 3 have ended"
        assert "3/1" not in told("gates", "list")


class TestIds:
    """The beginning of an id was "no job", and a narrow terminal showed neither reason nor attempts."""

    ONE, TWO, THREE = (
        f"01a1e3ec-7740-7a06-b7fa-{end}" for end in ("a36ab6d38a27", "a47ab6d38a27", "b36ab6d38a27")
    )

    @pytest.fixture(autouse=True)
    def jobs(self, desk: Desk) -> None:
        desk.enqueue(f"{self.ONE} {self.TWO} {self.THREE}", retry=LATER)

    def test_its_beginning_names_a_job(self, desk: Desk, told: Told) -> None:
        assert self.THREE in told("jobs", "show", self.THREE[:25])
        assert self.THREE in told("why", self.THREE[:25])
        assert f"{self.THREE} is cancelled" in told("jobs", "cancel", self.THREE[:25])
        assert f"{self.THREE} is waiting" in told("jobs", "retry", self.THREE[:25])
        assert self.ONE in told("jobs", "show", self.ONE)

    def test_a_beginning_of_several_names_them(self, url: str, told: Told) -> None:
        with pytest.raises(InvalidError, match=rf"several ids, as {self.TWO}, {self.ONE}; write more of it"):
            told("jobs", "show", self.ONE[:25])
        for text in ("02", "01a", "01a1e3ec_"):
            with pytest.raises(NotFoundError):
                told("jobs", "show", text)

    def test_eighty_columns_have_room_for_attempts_and_reason(
        self, desk: Desk, told: Told, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        desk.claim(1)
        desk.settle(self.ONE, Failed("ValueError", "boom " + 80 * "x"))
        monkeypatch.setattr("penstock.cli.output.make_console", lambda: Console(highlight=False, width=80))

        lines = told("jobs", "list").splitlines()

        assert all(len(line) <= 80 for line in lines)
        (line,) = [line for line in lines if "scheduled" in line]
        assert line.startswith(f"{self.ONE[:26]} ")
        assert "1/3" in line
        assert "attempt 1 of 3 failed: V" in line


def test_jobs_that_were_between_attempts_before_reasons_were_kept_still_say_so(migrated) -> None:
    due = 4_000_000_000 * SECOND
    attempts = {"failed": (2, 1), "later": (0, 0), "lost": (1, 1)}

    def stand(db: Session) -> None:
        for seq, (name, (attempt, lost)) in enumerate(attempts.items(), 1_001):
            job_rows.add(db, [job_row(NewJob("task"), seq, name, due, "")])
            db.run("INSERT INTO scheduled VALUES (?, ?, ?, ?)", seq, due, attempt, lost)

    reasons = {view.id: view.reason for view in migrated("0009_reasons.sql", stand).jobs()}

    assert reasons == {"failed": "its last attempt failed", "later": "", "lost": ""}
