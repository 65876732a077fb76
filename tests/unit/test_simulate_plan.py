"""What a plan may say, and how it is told what is wrong with it."""

from itertools import islice
from random import Random

import pytest

from penstock.errors import InvalidError
from penstock.limits.rules import Numbers, OnLimit, Window
from penstock.simulate.chance import DAY, Burst, Exponential, Fixed, Hours, Lognormal, Steady, Uniform, Values
from penstock.simulate.example import EXAMPLE
from penstock.simulate.plan import PlannedLimit, end_of, read_plan

SECOND, HOUR = 1_000_000, 3_600_000_000
SLOTS = "[limits.a]\nslots = 1\n"


def job(duration='"1s"', arrivals="count = 1"):
    """Return three lines of a plan: jobs of one kind."""
    return f"[[jobs]]\nduration = {duration}\narrivals = {{ {arrivals} }}\n"


JOB = job()


def test_a_plan_is_read():
    plan = read_plan("""
        title = "mail"
        until = "2d"
        seed = 7
        workers.concurrency = 3
        [limits.mailbox]
        key = "mailbox:{box}"
        rate = "30/1d"
        throttle = "1/2m"
        slots = 1
        on_limit = "drop"
        [[jobs]]
        name = "mail"
        limits = ["mailbox"]
        keys.box = ["a", "b"]
        duration = "2s"
        priority = 5
        cost = 2
        arrivals = { rate = "20/h", pattern = "even" }
    """)

    numbers = Numbers(1, Window(30, DAY), Window(1, 120 * SECOND))
    limit = PlannedLimit("mailbox", "mailbox:{box}", numbers, OnLimit.DROP)
    assert ("mail", 2 * DAY, 7) == (plan.title, plan.until, plan.seed)
    assert (3, (limit,)) == (plan.concurrency, plan.limits)
    (kind,) = plan.jobs
    assert ("mail", (limit,), 5, 2) == (kind.name, kind.limits, kind.priority, kind.cost)
    assert (Fixed(2 * SECOND), Steady(HOUR / 20, by_chance=False)) == (kind.duration, kind.arrivals)
    assert {"box": Values(("a", "b"))} == kind.keys


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("0.5", Fixed(SECOND // 2)),
        ('{ exponential = "2s" }', Exponential(2 * SECOND)),
        ('{ uniform = ["1s", "3s"] }', Uniform(SECOND, 3 * SECOND)),
        ('{ lognormal = { median = "1s", p95 = "3s" } }', Lognormal(SECOND, 3 * SECOND)),
    ],
)
def test_durations_are_fixed_or_drawn(text, duration):
    assert duration == read_plan(job(duration=text)).jobs[0].duration


@pytest.mark.parametrize(
    ("text", "arrivals"),
    [
        ('rate = "0.5/1s"', Steady(2 * SECOND)),
        ('rate = "1/1s", count = 9', Steady(SECOND, count=9)),
        ('rate = "1/1s", between = ["09:00", "24:00"]', Steady(SECOND, hours=Hours(9 * HOUR, DAY))),
        ('count = 5, at = "1h", every = "1d", times = 3', Burst(5, HOUR, DAY, 3)),
    ],
)
def test_jobs_arrive_steadily_or_in_bursts(text, arrivals):
    assert arrivals == read_plan(job(arrivals=text)).jobs[0].arrivals


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("until = 5d", r"plan: .*line 1"),
        ("", "plan: jobs: is missing"),
        ("jobs = []", "plan, line 1: jobs: there must be at least one"),
        (f'untill = "5d"\n{JOB}', "line 1: untill: there is no such field; did you mean 'until'"),
        (f'until = "soon"\n{JOB}', "line 1: until: 'soon' is not a duration"),
        (
            f"[workers]\nconcurrency = 0\n{JOB}",
            "line 2: workers.concurrency: 0 must be a whole number from 1",
        ),
        (f'[limits.a]\nkey = "x"\n{JOB}', "line 1: limits.a: give at least one of slots, rate and throttle"),
        (f'[limits.a]\n\nrate = "30"\n{JOB}', "line 3: limits.a.rate: '30' must be a number and a time"),
        (f'[limits.a]\nrate = "1.5/1d"\n{JOB}', "line 2: limits.a.rate: 1.5 must be a whole number"),
        (f'{SLOTS}key = "{{x"\n{JOB}', "line 3: limits.a.key"),
        (f'{SLOTS}on_limit = "cry"\n{JOB}', "line 3: limits.a.on_limit: 'cry' must be one of"),
        (
            f'{SLOTS}key = "k"\n[limits.b]\nslots = 2\nkey = "k"\n{JOB}',
            "line 6: limits.b.key: 'k' is the key of 'a' too",
        ),
        (
            f'{JOB}limits = ["mail"]',
            r"line 4: jobs\[1\].limits: there is no limit 'mail'; the plan has: none",
        ),
        (f'{JOB}name = "x"\n{JOB}name = "x"', r"line 8: jobs\[2\].name: 'x' is taken"),
        (f'{JOB}{JOB}durations = "1s"', r"line 7: jobs\[2\].durations: .* did you mean 'duration'"),
        ("[[jobs]]\narrivals = { count = 1 }", r"line 1: jobs\[1\].duration: is missing"),
        ('[[jobs]]\nduration = "1s"\n[jobs.arrivals]\n', r"line 3: jobs\[1\].arrivals: give a rate"),
        ('[[jobs]]\nduration = "1s"\n[jobs.arrivals]\nrate = "0/1s"', r"line 4: jobs\[1\].arrivals.rate"),
        (job(arrivals="count = 1, times = 3"), r"line 3: jobs\[1\].arrivals.times: needs every"),
        (
            job(arrivals='rate = "1/1s", between = ["17:00", "9:00"]'),
            r"line 3: jobs\[1\].arrivals.between",
        ),
        (job('{ uniform = ["3s", "1s"] }'), r"line 2: jobs\[1\].duration.uniform"),
        (job('{ lognormal = { median = "2s", p95 = "1s" } }'), r"jobs\[1\].duration.lognormal.p95"),
        (job('{ gamma = "1s" }'), r"line 2: jobs\[1\].duration: must be a time"),
        (f"{JOB}keys = {{ box = 0 }}", r"line 4: jobs\[1\].keys.box: 0 must be a number"),
        (f'{SLOTS}key = "a:{{box}}"\n{JOB}limits = ["a"]', r"jobs\[1\].keys: limit 'a': .*box"),
        (
            f'[limits.a]\nrate = "2/1s"\n{JOB}limits = ["a"]\ncost = 3',
            r"line 7: jobs\[1\].cost: 3 never fits",
        ),
        (f"{JOB}priority = 1000", r"line 4: jobs\[1\].priority"),
        ("jobs = 3", "line 1: jobs"),
        ("workers = 3\n" + JOB, "line 1: workers: 3 must be a table"),
    ],
)
def test_what_is_wrong_is_told_by_field_and_line(text, told):
    with pytest.raises(InvalidError, match=told):
        read_plan(text)


def test_jobs_that_never_stop_coming_need_an_end():
    plan = read_plan(job(arrivals='rate = "1/1s"'))

    with pytest.raises(InvalidError, match="until: is missing"):
        end_of(plan)
    assert HOUR == end_of(plan, HOUR)


def test_too_many_jobs_to_wait_for_are_refused():
    plan = read_plan('until = "365d"\n' + job(arrivals='rate = "1/1s"'))

    with pytest.raises(InvalidError, match="until: about 31,536,000 jobs"):
        end_of(plan)


def test_the_example_is_a_plan():
    plan = read_plan(EXAMPLE)

    assert ["mail", "reply"] == [kind.name for kind in plan.jobs]
    assert end_of(plan) is None


def test_hours_leave_out_the_rest_of_the_day():
    hours = Hours(9 * HOUR, 17 * HOUR)

    times = list(islice(Steady(HOUR, by_chance=False, hours=hours).times(Random(1)), 10))

    assert [9, 10, 11, 12, 13, 14, 15, 16, 33, 34] == [time // HOUR for time in times]


def test_bursts_come_so_often():
    assert [1, 1, 11, 11] == list(Burst(2, 1, 10, 2).times(Random(1)))


@pytest.mark.parametrize(
    "duration", [Exponential(1_000), Uniform(500, 1_500), Lognormal(800, 2_000), Fixed(1_000)]
)
def test_durations_have_the_mean_they_say(duration):
    chance = Random(1)

    drawn = [duration.draw(chance) for _ in range(20_000)]

    assert pytest.approx(duration.mean, rel=0.03) == sum(drawn) / len(drawn)


def test_values_come_in_turn_or_by_weight():
    turn = list(islice(Values(("a", "b")).draw(Random(1)), 4))
    drawn = list(islice(Values(("a", "b"), (9.0, 1.0)).draw(Random(1)), 1_000))

    assert ["a", "b", "a", "b"] == turn
    assert 850 < drawn.count("a") < 950
