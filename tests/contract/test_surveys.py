"""A survey sees all jobs and keys of one tenant, at one moment, a page at a time."""

import sqlite3
import threading
from contextlib import closing

import psycopg
import pytest

from penstock.clock import SECOND
from penstock.engine import surveys
from penstock.engine.surveys import Survey, Tally
from penstock.errors import TooLongError
from penstock.job import NewJob
from penstock.lifecycle.outcomes import Failed
from penstock.lifecycle.retry import RetryPolicy
from penstock.limits.rules import Floating, Limit, Numbers
from penstock.store.surveys import SurveyedJob
from tests.support.desk import Desk, rate, slots
from tests.support.postgres import split_schema

SPAN = 60 * SECOND
PLACES = ("pending", "running", "ended")


def look(desk: Desk, work, tenant: str = "acme"):
    return desk.engine.survey(tenant, work, span=SPAN)


def jobs(desk: Desk, place: str = "anywhere", tenant: str = "acme") -> dict[str, SurveyedJob]:
    return look(desk, lambda s: {job.id: job for page in s.job_pages(place) for job in page}, tenant)


def test_jobs_are_seen_in_every_state(desk):
    desk.enqueue("done failed runs again", tenant="acme", retry=RetryPolicy(attempts=2))
    desk.claim(1)
    desk.settle("done")
    desk.claim(1)
    desk.settle("failed", Failed("Broken", "no", final=True))
    desk.claim(1)
    desk.claim(1)
    desk.settle("again", Failed("Broken", "no"))
    failed_at = desk.clock.now()
    desk.enqueue("later", tenant="acme", due=desk.clock.now() + 60 * SECOND)
    desk.enqueue("free", tenant="acme")
    desk.enqueue("holds blocked", slots("k", 0), tenant="acme")

    found = jobs(desk)

    states = {name: job.state for name, job in found.items()}
    assert states.pop("again") in {"scheduled", "waiting"}
    assert states == {
        "done": "done", "failed": "failed", "runs": "running", "later": "scheduled", "free": "waiting",
        "holds": "waiting", "blocked": "waiting",
    }  # fmt: skip
    assert (found["again"].made, found["again"].changed) == (1, failed_at)
    assert found["later"].due == desk.job("later").due
    assert (found["runs"].fence is None, found["free"].fence) == (False, None)
    assert [found[name].parked for name in ("free", "blocked")] == [0, 1]
    assert {"done", "failed"} == jobs(desk, "ended").keys()
    assert {"runs"} == jobs(desk, "running").keys()
    assert {"again", "later", "free", "holds", "blocked"} == jobs(desk, "pending").keys()


def test_a_due_job_waits_before_it_has_arrived(desk):
    desk.enqueue("late", tenant="acme", due=desk.clock.now() + SECOND)
    desk.wait(2 * SECOND)

    assert "waiting" == jobs(desk)["late"].state


def test_no_job_of_another_tenant_is_seen(desk):
    for tenant in ("acme", "other", ""):
        desk.enqueue("same", slots("k", 1), tenant=tenant, args=f'{{"of":"{tenant}"}}')

    for tenant in ("acme", "other", ""):
        assert [f'{{"of":"{tenant}"}}'] == look(desk, lambda s: texts(s, "args"), tenant)
        assert [1] == look(desk, lambda s: [t.jobs for t in census(s)], tenant)
        assert [1] == look(desk, lambda s: [key.waiting for page in s.key_pages() for key in page], tenant)
        assert ["same"] == look(desk, lambda s: [job.id for job in s.of_ids(["same", "none"])], tenant)
    assert {} == jobs(desk, tenant="third")


def census(survey: Survey, place: str = "anywhere") -> list[Tally]:
    return [tally for page in survey.tallies(place) for tally in page]


def texts(survey: Survey, text: str) -> list[str | None]:
    found = [job for page in survey.job_pages("anywhere") for job in page]
    return [getattr(job, text) for few in survey.with_texts(found, [text]) for job in few]


@pytest.mark.parametrize("place", ["anywhere", "pending", "ended"])
def test_pages_have_every_job_once_however_short_they_are(desk, monkeypatch, place):
    monkeypatch.setattr(surveys, "FIRST_PAGE", 2)
    monkeypatch.setattr(surveys, "PAGE", 3)
    for number in range(20):
        tenant = "acme" if number % 3 else "other"
        limits = (slots("k", 1),) if number % 2 else ()
        due = desk.clock.now() + SECOND if number % 5 == 0 else None
        desk.enqueue(f"j{number}", *limits, tenant=tenant, due=due)
    if place == "ended":
        for number in range(20):
            desk.engine.cancel(f"j{number}")

    pages = look(desk, lambda s: [[job.id for job in page] for page in s.job_pages(place)])

    assert [f"j{n}" for n in reversed(range(20)) if n % 3] == [name for page in pages for name in page]
    assert max(map(len, pages)) <= 3


def test_long_texts_are_read_a_few_at_a_time(desk, monkeypatch):
    monkeypatch.setattr(surveys, "ROOM", 100)
    monkeypatch.setattr(surveys, "LONGEST", 300)
    for number, length in enumerate((200, 40, 40, 40, 400, 10)):
        desk.enqueue(f"j{number}", tenant="acme", args=f'"{"x" * (length - 2)}"')
    read = []
    monkeypatch.setattr(surveys.survey_rows, "texts", watched(surveys.survey_rows.texts, read))

    found = look(desk, lambda s: texts(s, "args"))

    assert [10, None, 40, 40, 40, 200] == [text and len(text) for text in found]
    assert [[10], [40, 40], [40], [200]] == [sizes for sizes in read if sizes]


def watched(function, read):
    def wrapper(*args):
        found = function(*args)
        read.append([len(row[1]) for row in found])
        return found

    return wrapper


def test_a_census_counts_by_queue_priority_and_state(desk):
    desk.enqueue("a b c", tenant="acme")
    desk.enqueue("d", slots("k", 0), tenant="acme", priority=5)
    desk.enqueue("e", tenant="acme", queue="p", due=desk.clock.now() + SECOND)
    desk.enqueue("f", tenant="acme", queue="p", due=desk.clock.now() + 60 * SECOND)
    desk.enqueue("f", tenant="other")
    desk.claim(1)
    desk.wait(2 * SECOND)

    everywhere = look(desk, census)
    assert everywhere == sorted(
        tally for place in PLACES for tally in look(desk, lambda s, place=place: census(s, place))
    )
    assert [
        Tally("p", 0, "scheduled", 1), Tally("p", 0, "waiting", 1), Tally("q", 0, "running", 1),
        Tally("q", 0, "waiting", 2), Tally("q", 5, "waiting", 1),
    ] == everywhere  # fmt: skip


def test_a_census_counts_every_job_once_however_few_it_takes_at_a_time(desk, monkeypatch):
    monkeypatch.setattr(surveys, "CENSUS", 3)
    for number in range(20):
        desk.enqueue(f"j{number}", *[slots("k", 1)] * (number % 2), tenant="acme" if number % 3 else "other")
    desk.settle(desk.claim(4))

    assert 13 == sum(tally.jobs for tally in look(desk, census))
    assert len(jobs(desk, "ended")) == sum(t.jobs for t in look(desk, lambda s: census(s, "ended")))


def test_keys_have_their_counts_and_the_numbers_in_force(desk):
    floating = Limit("float", Numbers(slots=3, floats=True), floating=Floating("", 60 * SECOND))
    desk.enqueue("a b c", slots("k", 2), tenant="acme")
    desk.enqueue("d", floating, tenant="acme")
    desk.enqueue("e", rate("r", 7), tenant="acme")
    desk.claim(2)
    desk.engine.override("k", Numbers(slots=9), tenant="acme")

    found = look(desk, lambda s: {key.key: key for page in s.key_pages() for key in page})

    assert [(key, found[key].running, found[key].waiting) for key in ("float", "k", "r")] == [
        ("float", 0, 1), ("k", 2, 1), ("r", 0, 1),
    ]  # fmt: skip
    assert [3, 9, None] == [found[key].numbers.slots for key in ("float", "k", "r")]
    assert [True, False, False] == [found[key].floats for key in ("float", "k", "r")]
    assert ["k"] == look(desk, lambda s: [key.key for page in s.key_pages("k") for key in page])


def test_a_key_where_no_job_waits_has_the_number_of_the_newest(desk):
    for number, name in enumerate("abc", 2):
        desk.enqueue(name, slots("k", number), tenant="acme")
    assert "a b c" == desk.claim()
    desk.engine.upkeep()

    (found,) = look(desk, lambda s: [key for page in s.key_pages() for key in page])

    assert (3, 0, 4) == (found.running, found.waiting, found.numbers.slots)


def test_a_job_that_is_due_waits_at_its_key_before_a_worker_asks(desk):
    due = desk.clock.now() + SECOND
    desk.enqueue("a", slots("k", 1), slots("n", 2), tenant="acme", due=due)
    desk.enqueue("later", slots("k", 1), tenant="acme", due=due + SECOND)
    desk.enqueue("other", slots("k", 1), tenant="other", due=due)
    desk.wait(SECOND)

    found = look(desk, lambda s: {key.key: key.waiting for page in s.key_pages() for key in page})

    assert ("waiting", "scheduled") == tuple(jobs(desk)[name].state for name in ("a", "later"))
    assert {"k": 1, "n": 1} == found


def test_a_job_that_a_limit_reschedules_does_not_wait_at_its_key(desk):
    desk.enqueue("now later", slots("k", 1, "reschedule"), tenant="acme")
    desk.enqueue("waits", slots("k", 1), tenant="acme")
    desk.claim()

    (found,) = look(desk, lambda s: [key for page in s.key_pages() for key in page])

    assert ("running", "scheduled", "waiting") == tuple(
        jobs(desk)[name].state for name in ("now", "later", "waits")
    )
    assert (1, 1) == (found.running, found.waiting)


def test_jobs_that_have_not_come_to_their_gates_are_counted_there(desk, store, url):
    """On PostgreSQL a job that is enqueued in a transaction of the caller's own waits at the door."""
    desk.enqueue("runs", slots("k", 1), tenant="acme")
    desk.claim(1)
    new = NewJob("task", id="new", queue="q", tenant="acme", limits=(slots("k", 1), slots("n", 1)))
    connect = sqlite3.connect if store == "sqlite" else psycopg.connect
    with closing(connect(url if store == "sqlite" else split_schema(url)[0])) as connection:
        desk.engine.enqueue([new], connection=connection)
        connection.commit()

    found = look(
        desk, lambda s: {key.key: (key.running, key.waiting) for page in s.key_pages() for key in page}
    )

    assert {"k": (1, 1), "n": (0, 1)} == found
    assert "waiting" == jobs(desk, "pending")["new"].state


def test_a_survey_sees_one_moment(desk, opened):
    desk.enqueue("a b", tenant="acme")
    other = opened()

    def work(survey: Survey) -> list[int]:
        before = [tally.jobs for tally in census(survey)]
        writer = threading.Thread(target=other.enqueue, args=([NewJob("task", queue="q", tenant="acme")],))
        writer.start()
        writer.join()
        return [*before, *(tally.jobs for tally in census(survey))]

    assert [2, 2] == look(desk, work)
    assert [3] == look(desk, lambda s: [tally.jobs for tally in census(s)])


def test_other_callers_do_not_wait_for_a_survey(desk):
    desk.enqueue("a", tenant="acme")
    looking, ended = threading.Event(), threading.Event()

    def work(survey: Survey) -> None:
        census(survey)
        looking.set()
        assert ended.wait(60)

    surveyor = threading.Thread(target=look, args=(desk, work))
    surveyor.start()
    try:
        assert looking.wait(60)
        assert "a" == desk.claim(1)
        desk.settle("a")
        assert "done" == desk.state("a")
    finally:
        ended.set()
        surveyor.join()


def test_a_survey_that_takes_too_long_is_given_up(desk, store):
    endless = {
        "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        "postgres": "SELECT pg_sleep(600)",
    }[store]

    with pytest.raises(TooLongError, match=r"given up after 0\.05 s"):
        desk.engine.store.survey(lambda db: db.all(endless), SECOND // 20)
    desk.enqueue("a", tenant="acme")
    assert {"a"} == jobs(desk).keys()
