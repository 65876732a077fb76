"""What a task marks as secret is shown to operators, and to no viewer: on no page, in no JSON, by no search."""

import pytest

from penstock import Cancel, Concurrency, chain, current_job
from penstock.errors import InvalidJobError
from penstock.http.access import Access, Role
from penstock.http.tokens import Keyring
from penstock.job import JobQuery, NewJob, Schedule
from penstock.monitor import Monitor
from penstock.monitor.operations import Wanted
from penstock.testing import run_until_idle
from tests.support.looking import look

OPERATOR, VIEWER = "operator-01234567", "viewer-0123456789"
PIN = "hunter2"
WHERE = (
    "/", "/jobs", "/jobs?state=waiting", "/jobs?state=failed", "/jobs?state=cancelled", "/find?q=pay", "/gate?key=till",
    "/gates", "/queues", "/workers", "/schedules", "/workflows", "/timeline?span=900", "/timeline?as=table&span=900",
    "/audit", "/settings",
)  # fmt: skip


@pytest.fixture
def ids(app):
    """Enqueue and run everything that knows the pin; return the ids of the jobs and of the runs, by name."""

    @app.task(name="pay", secret=True, retry=1, limits=Concurrency(1, key="till"))
    def pay(pin):
        current_job().progress({"seen": pin})
        if pin.endswith("bad"):
            raise ValueError(f"wrong pin {pin}")
        if pin.endswith("off"):
            raise Cancel(f"no such pin {pin}")
        return f"paid with {pin}"

    @app.task(name="told")
    def told(what):
        return what

    @app.workflow(name="shop", secret=True)
    async def shop(pin):
        return await told.step(pin)

    @app.workflow(name="open-shop")
    async def open_shop():
        await pay.step("hunter2")
        try:
            await pay.step("hunter2-bad")
        except Exception as error:  # noqa: BLE001 - whatever it is
            return type(error).__name__

    jobs = {name: pay.enqueue(f"{PIN}-{name}").id for name in ("good", "bad", "off")}
    jobs["other"] = told.with_options(secret=True, meta={"a": PIN}).enqueue(PIN).id
    nightly = pay.new_job((PIN,), {}, 0)
    app.engine.set_schedule(Schedule("nightly", "0 0 * * *", nightly))
    jobs["fired"] = app.engine.fire_schedule("nightly")
    runs = {
        "shop": shop.start(PIN).id,
        "open": open_shop.start().id,
        "chain": chain(pay.call(PIN), told).start().id,
    }
    run_until_idle(app)
    jobs["copy"] = app.engine.copy_job(jobs["good"]).id
    jobs["waits"] = pay.enqueue(f"{PIN}-waits").id
    app.engine.enqueue([NewJob("pay", id="by-meta", args=f'"{PIN}"', meta='{"secret": true}')])
    app.engine.claim(["default"], 1, worker="w")  # the others stand in the line of the gate
    return {**jobs, "by-meta": "by-meta"}, runs


@pytest.fixture
def seen(app):
    keyring = Keyring()
    keyring.add(OPERATOR, Access("anna", frozenset(Role)))
    keyring.add(VIEWER, Access("screen", frozenset({Role.VIEWER})))
    monitor = Monitor(app.engine, keyring=keyring)
    return lambda path, token, json: look(monitor, path, json=json, authorization=f"Bearer {token}")


def test_a_viewer_sees_no_secret_on_any_page_and_an_operator_does(app, ids, seen):
    jobs, runs = ids
    own = {f"/job?id={id_}" for id_ in jobs.values()} | {f"/workflow?id={id_}" for id_ in runs.values()}
    steps = {f"/job?id={job.id}" for job in app.engine.jobs()}
    hidden, shown = {}, {}
    for path in sorted({*WHERE, *own, *steps}):
        for json in (False, True):
            answers = seen(path, VIEWER, json), seen(path, OPERATOR, json)
            assert [200, 200] == [answer.status for answer in answers], path
            hidden[path, json], shown[path, json] = (PIN in answer.text for answer in answers)

    assert [] == [key for key, found in hidden.items() if found]
    assert [] == [path for path in own if not shown[path, True]]
    assert shown["/jobs", False]
    assert shown["/gate?key=till", False]


def test_what_is_no_secret_of_a_secret_job_is_shown(ids, seen):
    failed = seen(f"/job?id={ids[0]['bad']}", VIEWER, json=True).json

    assert ("pay", "failed", 1) == tuple(failed["job"][name] for name in ("task", "state", "attempt"))
    assert failed["secret"]
    assert "ValueError: (hidden)" == failed["job"]["error"]
    assert {"kind": "ValueError", "message": "(hidden)"} == failed["attempts"][0]["error"]
    assert "{}" == failed["meta"]
    assert "Hidden: the job is marked as secret" in seen(f"/job?id={ids[0]['bad']}", VIEWER, json=False).text


def test_no_search_tells_a_viewer_of_what_is_hidden(ids, seen):
    def found(token, query):
        return {job["id"] for job in seen(f"/jobs?{query}", token, json=True).json["jobs"]}

    assert ids[0]["bad"] in found(OPERATOR, "error=wrong+pin")
    assert set() == found(VIEWER, "error=wrong+pin")
    assert set() == found(VIEWER, "error=ValueError")
    assert ids[0]["bad"] in found(VIEWER, "state=failed")
    assert 400 == seen(f"/jobs?words={PIN}", VIEWER, json=True).status


def test_secret_is_an_option_like_others(app):
    task = app.task(lambda pin: pin, name="t", meta={"a": 1})

    metas = [
        each.new_job(("x",), {}, 0).meta
        for each in (
            task,
            task.with_options(secret=True),
            task.with_options(secret=True).with_options(meta={}),
        )
    ]

    assert ['{"a":1}', '{"a":1,"secret":true}', '{"secret":true}'] == metas
    assert [False, True, True, False] == [
        each.is_secret
        for each in (
            task,
            task.with_options(secret=True),
            task.with_options(meta={"secret": True}),
            task.with_options(meta={"secret": True}, secret=False),
        )
    ]
    with pytest.raises(InvalidJobError, match="must be True or False"):
        task.with_options(secret="yes")


def test_the_audit_of_a_bulk_operation_does_not_tell_what_was_searched_for():
    wanted = Wanted("cancel", JobQuery(queue="q", words=PIN, error=PIN))

    assert "queue=q words=(not written down) error=(not written down)" == wanted.told
