"""The page of the timeline: its JSON, its table, and what it refuses."""

from contextlib import closing

import pytest

from penstock.clock import SECOND
from penstock.engine import open_engine
from penstock.http.access import Access, Role
from penstock.job import NewJob, Settlement
from penstock.lifecycle.retry import RetryPolicy
from penstock.monitor import Monitor
from tests.support.busy import ODD, TIMEOUT, fill
from tests.support.desk import slots
from tests.support.looking import look


@pytest.fixture
def engine():
    with closing(open_engine(":memory:")) as made:
        yield made


@pytest.fixture
def monitor(engine):
    return Monitor(engine)


def run(engine, *jobs, outcome=None, worker="eu-1/4410"):
    """Run jobs; without an outcome they go on."""
    engine.enqueue(jobs)
    claimed = engine.claim([jobs[0].queue], len(jobs), worker=worker, lease=60 * SECOND).jobs
    if outcome is not None:
        engine.settle([Settlement(job.seq, job.fence, outcome) for job in claimed])


def texts(page, column):
    return [page["texts"][place] for place in page["columns"][column]]


def test_attempts_are_columns_of_places_in_one_list_of_texts(engine, monitor):
    run(engine, NewJob(task="sync", id="a", queue="q", limits=(slots("account:acme", 1),)))

    page = look(monitor, "/timeline", json=True).json

    assert ["a"] == page["columns"]["id"]
    assert (["sync"], ["q"], ["eu-1/4410"], ["running"]) == tuple(
        texts(page, column) for column in ("task", "queue", "worker", "outcome")
    )
    assert ["account:acme"] == [page["texts"][place] for place in page["columns"]["keys"][0]]
    assert page["since"] + page["columns"]["claimed"][0] <= page["now"]
    assert [None] == page["columns"]["ran"]


def test_a_failed_attempt_that_another_follows_is_told_apart(engine, monitor):
    run(engine, NewJob(task="a", queue="q", retry=RetryPolicy(attempts=2)), outcome=TIMEOUT)
    run(engine, NewJob(task="b", queue="q"), outcome=TIMEOUT)

    page = look(monitor, "/timeline", json=True).json

    assert {"a": "tried again", "b": "failed"} == dict(
        zip(texts(page, "task"), texts(page, "outcome"), strict=True)
    )


def test_the_table_has_every_attempt_of_the_json_by_cursor(engine, monitor):
    fill(engine)
    found = look(monitor, "/timeline?most=20000", json=True).json
    shown, address = [], "/timeline?as=table&most=20"
    while address:
        page = look(monitor, address).text
        shown += [part.partition('"')[0] for part in page.split('<tr data-key="')[1:]]
        _, _, further = page.partition('<p class="more">')
        address = further.partition('href="')[2].partition('"')[0].replace("&amp;", "&") if further else ""

    assert shown == [
        f"{n}.{m}" for n, m in zip(found["columns"]["seq"], found["columns"]["number"], strict=True)
    ]


def test_the_page_without_script_has_the_table(engine, monitor):
    run(engine, NewJob(task="sync", id="a", queue="q"))

    page = look(monitor, "/timeline").text

    assert "/job?id=a" in page.partition("<noscript>")[2].partition("</noscript>")[0]


def test_a_tenant_sees_its_own_attempts_only(engine):
    run(engine, NewJob(task="mine", queue="q", tenant="acme"), NewJob(task="other", queue="q"))
    monitor = Monitor(engine, who=lambda _: Access("user", frozenset({Role.VIEWER}), "acme"))

    assert ["mine"] == texts(look(monitor, "/timeline", json=True).json, "task")


def test_markup_and_marks_in_names_stay_text(engine, monitor):
    run(engine, NewJob(task="odd", queue="q", limits=(slots(ODD, 1),)))

    page = look(monitor, "/timeline?as=table&name=<i>").text + look(monitor, "/timeline?as=table").text

    assert "<b>bold" not in page
    assert "<i>" not in page
    assert "\u202e" not in page
    assert "\\u{202e}" in page


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("by=colour", "by"),
        ("span=0", "span"),
        ("span=soon", "span"),
        ("since=2&until=1", "since"),
        ("until=-1", "until"),
        ("most=20001", "most"),
        ("cursor=x", "cursor"),
        ("cursor=e1", "cursor"),
        ("as=song", "as"),
    ],
)
def test_an_address_that_is_wrong_is_told_so_by_name(monitor, query, field):
    answer = look(monitor, f"/timeline?{query}", json=True)

    assert 400 == answer.status
    assert field in answer.text
    assert 400 == look(monitor, f"/timeline?{query}").status


def test_a_hundred_thousand_attempts_are_a_few_megabytes(engine, monitor):
    jobs = [
        NewJob(task="sync_account", queue="q", limits=(slots(f"account:{n % 100}", 9),)) for n in range(200)
    ]
    run(engine, *jobs)

    answer = look(monitor, "/timeline?most=20000", json=True)

    assert len(answer.body) / len(answer.json["columns"]["id"]) < 100
