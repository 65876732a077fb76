"""The referee of the storm, given stories written by hand: good ones, and one for each thing that can go wrong."""

import pytest

from tests.chaos.plan import FREEZE, WORKERS, draw
from tests.chaos.referee import Judge, Story
from tests.chaos.rules import LEASE, MILLISECOND, SECOND, STEPS, Rules

RULES = Rules(
    slots={"one": 1, "two": 2}, rates={"rated": (2, SECOND)}, gaps={"spaced": 100 * MILLISECOND},
    floating={"floats": 2},
)  # fmt: skip
WELL, ILL = 10, 66  # two worker processes


class Telling:
    """A story in the making; times are milliseconds."""

    def __init__(self):
        self.story = Story([], {})
        self._fence = 0

    def line(self, what, at, pid=WELL, **facts):
        self.story.lines.append({"what": what, "at": at * MILLISECOND, "pid": pid, **facts})

    def job(self, job, *passes):
        if job not in self.story.states:
            self.line("enqueued", 0, job=job, passes=passes, tries=1)
            self.story.states[job] = "done"

    def ran(self, gate, jobs, *span, **facts):
        """Let the handler of each job run for that *span*; one without an end is cut short."""
        for job in jobs.split():
            self._ran(gate, job, *span, **facts)

    def _ran(
        self, gate, job, began, ended=None, *,
        attempt=1, pid=WELL, asked=None, looked=None, accepted=True, outcome="Done",
        **facts,
    ):  # fmt: skip
        self._fence += 1
        self.job(job, gate)
        named = {"job": job, "fence": self._fence}
        asked = began - 2 if asked is None else asked
        self.line(
            "began", began, pid, attempt=attempt, asked=asked * MILLISECOND, answered=(asked + 1) * MILLISECOND,
            looked=(began if looked is None else looked) * MILLISECOND, **named, **facts,
        )  # fmt: skip
        if ended is not None:
            self.line("ended", ended, pid, attempt=attempt, completed=True, **named)
            self.line("settled", ended + 1, pid, outcome=outcome, accepted=accepted, **named)

    def run(self, run, *gates, state="done"):
        self.line("run", 0, run=run, passes=gates, tries=1)
        self.story.runs[run] = state

    def stepped(self, run, step, began, ended=None, *, job=None, **facts):
        """Let the handler of a step run for that span."""
        job = job or f"{run} {step}"
        self._ran("", job, began, ended, run=run, step=step, passes=(), **facts)
        self.story.lines = [line for line in self.story.lines if line["what"] != "enqueued"]

    def rescued(self, job, attempt, at):
        self.story.rescues[job, attempt] = at * MILLISECOND

    def killed(self, pid, at):
        self.story.killed[pid] = at * MILLISECOND

    def trouble(self, since, until):
        self.story.troubles.append((since * MILLISECOND, until * MILLISECOND))

    def refresh(self, value, asked, answered=None, *, accepted=True):
        self._fence += 1
        self.line("refreshing", asked, key="floats", fence=self._fence, value=value)
        if answered is not None:
            self.line("refreshed", answered, key="floats", fence=self._fence, accepted=accepted)

    def complaints(self):
        return Judge(self.story, RULES).complaints

    def complaint(self):
        """Return the only one."""
        (only,) = self.complaints()
        return only


@pytest.fixture
def telling():
    return Telling()


class TestSlots:
    def test_one_after_the_other_is_well(self, telling):
        telling.ran("one", "a", 10, 20)
        telling.ran("one", "b", 20, 30)

        assert [] == telling.complaints()

    def test_two_at_once_are_one_too_many(self, telling):
        telling.ran("one", "a", 10, 20)
        telling.ran("one", "b", 19, 30)

        assert telling.complaint().startswith("one had 2 at once, 1 allowed: a (attempt 1 of 10")

    def test_the_order_in_which_it_was_told_does_not_matter(self, telling):
        telling.ran("two", "c", 30, 50)
        telling.ran("two", "b", 20, 50)
        telling.ran("two", "a", 10, 50)

        assert telling.complaint().startswith("two had 3 at once, 2 allowed: a")

    def test_gates_are_apart(self, telling):
        telling.ran("one", "a", 10, 20)
        telling.ran("two", "b", 10, 20)

        assert [] == telling.complaints()


class TestLostAttempts:
    def test_one_whose_process_was_killed_runs_no_longer(self, telling):
        telling.ran("one", "a", 10, pid=ILL)
        telling.killed(ILL, 50)
        telling.rescued("a", 1, 3_010)
        telling.ran("one", "b", 3_020, 3_030)
        telling.ran("one", "a", 3_040, 3_050, attempt=2)

        assert [] == telling.complaints()

    def test_until_then_it_does(self, telling):
        telling.ran("one", "a", 10, pid=ILL)
        telling.killed(ILL, 50)
        telling.ran("one", "b", 49, 55)
        telling.ran("one", "a", 60, 70, attempt=2)

        assert telling.complaint().startswith("one had 2 at once")

    def test_one_whose_lease_ran_out_does_not_count_from_then_on(self, telling):
        telling.trouble(20, 4_000)
        telling.ran("one", "a", 10, 4_001, pid=ILL, accepted=False)
        telling.rescued("a", 1, 3_010)
        telling.ran("one", "a", 3_010, 4_005, attempt=2)

        assert [] == telling.complaints()

    def test_until_then_it_does_count(self, telling):
        telling.trouble(20, 4_000)
        telling.ran("one", "a", 10, 4_001, pid=ILL, accepted=False)
        telling.rescued("a", 1, 3_010)
        telling.ran("one", "a", 3_009, 4_005, attempt=2)

        assert telling.complaint().startswith("one had 2 at once")

    def test_it_must_be_refused(self, telling):
        telling.trouble(20, 4_000)
        telling.ran("one", "a", 10, 4_001, pid=ILL)
        telling.rescued("a", 1, 3_010)
        telling.ran("one", "a", 3_020, 4_005, attempt=2, accepted=False)

        assert ["job a, attempt 1 was accepted though its lease had run out"] == telling.complaints()

    def test_a_job_is_done_once(self, telling):
        telling.ran("one", "a", 10, 20)
        telling.ran("one", "a", 30, 40, attempt=2)

        assert ["job a was done 2 times"] == telling.complaints()

    def test_a_worker_that_is_well_loses_nothing(self, telling):
        telling.trouble(0, 10)
        telling.ran("one", "a", 20_000, 20_900, accepted=False)
        telling.rescued("a", 1, 20_500)
        telling.ran("one", "a", 20_600, 20_700, attempt=2)

        assert ["job a, attempt 1 was taken from a worker that was well"] == telling.complaints()

    def test_one_that_was_handed_back_is_not_taken_for_its_successor_of_the_same_number(self, telling):
        telling.ran("one", "a", 10, 20, outcome="HandedBack")
        telling.ran("one", "a", 20_000, pid=ILL)
        telling.killed(ILL, 20_010)
        telling.rescued("a", 1, 23_000)
        telling.ran("one", "a", 23_100, 23_200, attempt=2)

        assert [] == telling.complaints()

    def test_one_that_never_ends_must_have_been_killed(self, telling):
        telling.ran("one", "a", 10)
        telling.ran("two", "a", 20, 30, attempt=2)

        complaints = telling.complaints()
        assert "job a, attempt 1 began and never ended, though its worker was not killed" in complaints


class TestRates:
    def test_a_full_window_is_well(self, telling):
        for number, at in enumerate((0, 999, 1_000, 1_999)):
            telling.ran("rated", f"j{number}", at, at + 5)

        assert [] == telling.complaints()

    def test_one_more_is_too_many_wherever_the_window_begins(self, telling):
        for number, at in enumerate((0, 999, 1_000, 1_998)):
            telling.ran("rated", f"j{number}", at, at + 5)

        assert ["rated had 3 starts in 999.000 ms; 2 may be in 1000"] == telling.complaints()

    def test_every_attempt_is_a_start(self, telling):
        telling.ran("rated", "a", 0, pid=ILL)
        telling.killed(ILL, 1)
        telling.ran("rated", "b", 10, 20)
        telling.ran("rated", "a", 30, 40, attempt=2)

        assert telling.complaint().startswith("rated had 3 starts in 30.000 ms")


class TestHalts:
    """A thread can be halted between its worker's look at the clock and its handler's first line."""

    def few(self, telling):
        for number in range(100):
            telling.ran("two", f"few-{number}", 50_000 + 10 * number, 50_005 + 10 * number)

    def test_one_that_was_halted_begins_when_its_worker_looked(self, telling):
        self.few(telling)
        telling.ran("spaced", "a", 10, 15, looked=1)
        telling.ran("spaced", "b", 106, 110)
        judge = Judge(telling.story, RULES)

        assert [] == judge.complaints
        assert 1 == judge.figures()["too close to one halted"]

    def test_a_halt_explains_no_more_than_it_lasted(self, telling):
        self.few(telling)
        telling.ran("spaced", "a", 10, 15, looked=1)
        telling.ran("spaced", "b", 105, 110)

        assert ["spaced had two starts 95.000 ms apart; 100.000 must lie between"] == telling.complaints()

    def test_one_that_is_halted_and_comes_too_late_explains_nothing(self, telling):
        self.few(telling)
        telling.ran("spaced", "a", 10, 15)
        telling.ran("spaced", "b", 109, 115, looked=100)

        assert ["spaced had two starts 99.000 ms apart; 100.000 must lie between"] == telling.complaints()

    def test_not_many_are_halted(self, telling):
        telling.ran("one", "a", 10, 15, looked=4)

        told = "1 of 1 handlers began long after their worker had looked at the clock"
        assert told == telling.complaint()


class TestGaps:
    def test_starts_far_enough_apart_are_well(self, telling):
        telling.ran("spaced", "a", 0, 5)
        telling.ran("spaced", "b", 100, 105)

        assert [] == telling.complaints()

    def test_starts_too_close_are_not(self, telling):
        telling.ran("spaced", "a", 0, 5)
        telling.ran("spaced", "b", 99, 105)

        assert ["spaced had two starts 99.000 ms apart; 100.000 must lie between"] == telling.complaints()


class TestFloating:
    def test_the_first_value_holds_until_it_is_refreshed(self, telling):
        telling.ran("floats", "a b c", 100, 200)

        assert telling.complaint().startswith("floats had 3 at once, 2 allowed")

    def test_a_higher_value_lets_more_in(self, telling):
        telling.refresh(3, 50, 60)
        telling.ran("floats", "a b c", 100, 200)

        assert [] == telling.complaints()

    def test_but_not_before(self, telling):
        telling.ran("floats", "a b c", 100, 200)
        telling.refresh(3, 150, 160)

        assert telling.complaint().startswith("floats had 3 at once, 2 allowed")

    def test_a_change_that_was_refused_may_have_been_made_or_not(self, telling):
        telling.ran("floats", "a", 100, 200)
        telling.refresh(1, 120, 130, accepted=False)
        telling.ran("floats", "b", 140, 200)

        assert [] == telling.complaints()

    def test_a_lower_value_evicts_nobody(self, telling):
        telling.ran("floats", "a", 100, 200)
        telling.ran("floats", "b", 101, 200)
        telling.refresh(1, 120, 130)
        telling.ran("floats", "c", 200, 210)

        assert [] == telling.complaints()

    def test_but_lets_nobody_in(self, telling):
        telling.ran("floats", "a", 100, 200)
        telling.refresh(1, 120, 130)
        telling.ran("floats", "b", 140, 200)

        assert telling.complaint().startswith("floats had 2 at once, 1 allowed")

    def test_what_counts_is_the_claim(self, telling):
        telling.ran("floats", "a", 100, 200)
        telling.refresh(1, 120, 130)
        telling.ran("floats", "b", 140, 200, asked=118)

        assert [] == telling.complaints()

    def test_while_the_value_changes_either_may_be_in_force(self, telling):
        telling.ran("floats", "a", 100, 200)
        telling.refresh(1, 120, 130)
        telling.ran("floats", "b", 127, 200)

        assert [] == telling.complaints()

    def test_a_change_of_which_nothing_was_heard_may_have_been_made_or_not(self, telling):
        telling.refresh(3, 50)
        telling.ran("floats", "a b c", 100, 200)
        telling.refresh(1, 250)
        telling.ran("floats", "d e", 300, 400)

        assert [] == telling.complaints()

    def test_until_the_next_change(self, telling):
        telling.refresh(3, 50)
        telling.refresh(1, 60, 70)
        telling.ran("floats", "a", 100, 200)
        telling.ran("floats", "b", 110, 200)

        assert telling.complaint().startswith("floats had 2 at once, 1 allowed")


class TestJobs:
    def test_each_must_be_there(self, telling):
        telling.ran("one", "a", 10, 20)
        del telling.story.states["a"]

        assert ["job a is lost"] == telling.complaints()

    def test_each_must_be_done(self, telling):
        telling.ran("one", "a", 10, 20)
        telling.story.states["a"] = "failed"

        assert ["job a is failed"] == telling.complaints()

    def test_there_may_be_no_other(self, telling):
        telling.ran("one", "a", 10, 20)
        telling.story.lines = [line for line in telling.story.lines if line["what"] != "enqueued"]

        assert ["job a was never enqueued"] == telling.complaints()

    def test_some_handler_must_have_completed_it(self, telling):
        telling.job("a", "one")

        assert ["job a is done, but no handler completed it"] == telling.complaints()


class TestGentleStorms:
    def test_a_storm_that_presses_no_limit_shows_nothing(self, telling):
        telling.ran("one", "a", 10, 20)
        telling.ran("two", "b", 10, 20)
        judge = Judge(telling.story, RULES)

        assert [] == judge.complaints
        assert [
            "two was never full: 1 of 2",
            "rated never had to hold a start back",
            "spaced never had to hold a start back",
            "floats was full at no value only",
            "no handler was cut short",
        ] == judge.gentle()

    def test_one_that_does_is_good(self, telling):
        telling.ran("one", "a", 10, pid=ILL)
        telling.killed(ILL, 20)
        telling.ran("one", "a", 30, 40, attempt=2)
        telling.ran("two", "b c", 10, 20)
        for number in range(3):
            telling.ran("rated", f"r{number}", 900 * number, 900 * number + 5)
            telling.ran("spaced", f"s{number}", 110 * number, 110 * number + 5)
        telling.ran("floats", "f g", 10, 20)
        telling.refresh(1, 30, 40)
        telling.ran("floats", "h", 50, 60)
        judge = Judge(telling.story, RULES)

        assert [] == judge.complaints
        assert [] == judge.gentle()


class TestPlan:
    def test_the_same_seed_draws_the_same_blows(self):
        blows = {"freezes": 2, "restarts": [("fast", 0.0), ("immediate", 1.0)]}

        assert draw("seed", 60.0, **blows) == draw("seed", 60.0, **blows)
        assert draw("seed", 60.0, **blows) != draw("another", 60.0, **blows)

    @pytest.mark.parametrize("seed", range(20))
    def test_a_worker_thaws_before_it_is_frozen_again(self, seed):
        plan = draw(str(seed), 12.0, freezes=2)

        whats = [blow.what for blow in plan if blow.what != "kill"]
        assert ["freeze", "thaw", "freeze", "thaw"] == whats

    @pytest.mark.parametrize("seed", range(20))
    def test_all_that_is_wanted_happens_in_time(self, seed):
        plan = draw(str(seed), 20.0, freezes=1, restarts=[("fast", 0.0), ("immediate", 2.0)])

        kinds = ("kill", "freeze", "thaw", "restart")
        by_kind = {what: [blow for blow in plan if blow.what == what] for what in kinds}
        assert len(by_kind["kill"]) >= 8
        assert [(blow.how, blow.down) for blow in by_kind["restart"]] == [("fast", 0.0), ("immediate", 2.0)]
        (freeze,), (thaw,) = by_kind["freeze"], by_kind["thaw"]
        assert thaw.at - freeze.at == pytest.approx(FREEZE)
        assert FREEZE > LEASE
        assert plan == sorted(plan)
        assert all(0 < blow.at + blow.down < 20.0 for blow in plan)
        assert {blow.worker for blow in by_kind["kill"]} <= set(range(WORKERS)) - {freeze.worker}


class TestRuns:
    @pytest.fixture
    def told(self, telling):
        """Two runs of one contact, one after the other."""
        for number, run in enumerate(("x", "y")):
            telling.run(run, "one")
            for place, step in enumerate(STEPS):
                began = 1_000 * number + 300 * place
                telling.stepped(run, step, began, began + 10)
        return telling

    def test_runs_one_after_the_other_are_well(self, told):
        assert [] == told.complaints()

    def test_one_that_begins_while_another_sleeps_is_seen(self, told):
        told.run("z", "one")
        for place, step in enumerate(STEPS):
            told.stepped("z", step, 100 + 20 * place, 110 + 20 * place)  # x is between two steps

        assert "one had 2 at once, 1 allowed: x (" in told.complaint()

    def test_a_step_that_begins_as_two_jobs_is_seen(self, told):
        told.stepped("x", STEPS[1], 400, 410, job="another")

        assert "step mail of run x began as 2 jobs: another, x mail" == told.complaint()

    def test_a_step_that_begins_again_without_excuse_is_seen(self, told):
        told.stepped("x", STEPS[1], 400, 410, attempt=2, outcome="Failed")

        assert "step mail of run x began again, as attempt 2" in told.complaint()

    def test_a_step_that_was_lost_may_begin_again(self, telling):
        telling.run("x", "one")
        telling.stepped("x", "draft", 0, pid=ILL)
        telling.killed(ILL, 5)
        telling.rescued("x draft", 1, 3_100)
        telling.stepped("x", "draft", 3_200, 3_210, attempt=2)
        telling.stepped("x", "mail", 3_300, 3_310)
        telling.stepped("x", "file", 3_400, 3_410)

        assert [] == telling.complaints()

    def test_a_run_that_skips_a_step_is_seen(self, telling):
        telling.run("x", "one")
        telling.stepped("x", "draft", 0, 10)

        assert "run x is done, but no handler completed mail, file" == telling.complaint()

    @pytest.mark.parametrize("state", ["running", "deferred", "failed"])
    def test_a_run_that_does_not_end_well_is_seen(self, telling, state):
        telling.run("x", "one", state=state)

        assert f"run x is {state}" == telling.complaint()

    def test_a_run_that_is_lost_or_unasked_is_seen(self, told):
        told.story.runs["z"] = told.story.runs.pop("y")

        assert ["run y is lost", "run z was never started"] == [
            text for text in told.complaints() if "no handler" not in text
        ]

    def test_a_storm_that_strikes_no_step_is_gentle(self, told):
        assert "no step of a run was taken from a worker" in Judge(told.story, RULES).gentle()

        told.rescued("x draft", 1, 5)
        assert "no step of a run was taken from a worker" not in Judge(told.story, RULES).gentle()
