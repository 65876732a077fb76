"""An id is a tenant's: jobs of two tenants may have the same one, and neither tenant learns of the other's."""

import asyncio
import json
from contextlib import closing

import pytest

from penstock.clock import SECOND
from penstock.engine import open_engine
from penstock.errors import DuplicateJobError, InvalidError, NotFoundError, WrongStateError
from penstock.http.access import Access, Role
from penstock.http.tokens import Keyring
from penstock.job import NewJob, Schedule, Settlement
from penstock.lifecycle.outcomes import Done, Failed
from penstock.lifecycle.overlap import Overlap
from penstock.lifecycle.states import State
from penstock.store import migrations
from penstock.store.postgres import store as store_module
from penstock.store.postgres.errors import Patience
from penstock.store.session import Session
from tests.support.asgi import ask, serving
from tests.support.desk import Desk, slots
from tests.support.postgres import drop_schema, fresh_schema, shared_url

MIGRATION = "0015_ids_of_tenants.sql"
# As they were then.
COLUMNS = """
    seq, id, tenant, queue, task, args, priority, cost, limits, retry, timeout, expires, meta, uniqueness, enqueued
"""
PLACES = ", ".join("?" * len(COLUMNS.split(",")))
ID = "019a3c5e-7d2b-7c11-9d5e-3f1a2b4c5d6e"
TOKENS = {"acme": "a-token-of-acme!", "globex": "a-token-of-globex", None: "a-token-of-all!!"}

pytestmark = pytest.mark.usefixtures("healthy")


def add(desk: Desk, *tenants: str, **facts) -> None:
    desk.engine.enqueue([NewJob("t", id="a", queue="q", tenant=tenant, **facts) for tenant in tenants])


def states(desk: Desk, *tenants: str) -> list[str]:
    return [desk.engine.job("a", tenant).state.value for tenant in tenants]


def run(desk: Desk, tenant: str, outcome=None) -> None:
    (job,) = desk.engine.claim(["q"], 1, worker="w", tenant=tenant).jobs
    assert tenant == job.tenant
    assert all(desk.engine.settle([Settlement(job.seq, job.fence, outcome or Done(json.dumps(tenant)))]))


def test_each_tenant_has_its_own_job_of_an_id(desk: Desk) -> None:
    add(desk, "acme", "globex", "")

    for tenant in ("acme", "globex", ""):
        assert (tenant, "a") == ((view := desk.engine.job("a", tenant)).tenant, view.id)
    with pytest.raises(DuplicateJobError):
        add(desk, "acme")
    with pytest.raises(DuplicateJobError):
        add(desk, "other", "other")
    with pytest.raises(NotFoundError):
        desk.engine.job("a", "other")
    assert {State.WAITING: 3} == desk.engine.count()


def test_a_verb_for_one_tenant_leaves_the_others_jobs_alone(desk: Desk) -> None:
    add(desk, "acme", "globex", "")
    desk.engine.cancel("a", tenant="acme")
    assert ["cancelled", "waiting", "waiting"] == states(desk, "acme", "globex", "")

    desk.engine.retry("a", "acme")
    run(desk, "globex", Failed("Oops", "no", final=True))
    run(desk, "acme")
    assert ["done", "failed", "waiting"] == states(desk, "acme", "globex", "")
    assert ([], ["no"]) == tuple(
        [failure.message for failure in desk.engine.failures("a", tenant)] for tenant in ("acme", "globex")
    )
    assert '"acme"' == desk.engine.job("a", "acme").result

    desk.engine.forget("a", "acme")
    with pytest.raises(NotFoundError):
        desk.engine.job("a", "acme")
    with pytest.raises(WrongStateError):
        desk.engine.forget("a", "")
    assert ["failed", "waiting"] == states(desk, "globex", "")


def test_why_is_told_of_the_tenants_own_job(desk: Desk) -> None:
    add(desk, "acme", "globex", limits=(slots("k", 1),))
    desk.engine.claim(["q"], 1, worker="w", tenant="acme")

    assert State.RUNNING is desk.engine.why("a", "acme").state
    assert () == desk.engine.why("a", "globex").reasons


def test_an_id_without_a_tenant_is_that_of_no_tenant_or_the_only_one(desk: Desk) -> None:
    add(desk, "acme")
    assert "acme" == desk.engine.job("a").tenant
    assert State.CANCELLED is desk.engine.cancel("a")

    add(desk, "globex")
    for verb in ("job", "why", "failures", "cancel", "retry", "forget"):
        with pytest.raises(
            InvalidError,
            match=r"^tenant: jobs of several tenants have the id 'a', as of 'acme', 'globex'; name one",
        ):
            getattr(desk.engine, verb)("a")

    add(desk, "")
    assert "" == desk.engine.job("a").tenant
    assert State.CANCELLED is desk.engine.cancel("a")
    assert ["cancelled", "waiting", "cancelled"] == states(desk, "acme", "globex", "")


def test_attempts_are_told_apart_by_their_tenants(desk: Desk) -> None:
    add(desk, "acme", "globex")
    desk.engine.claim(["q"], 2, worker="w")

    assert {"acme", "globex"} == {attempt.tenant for attempt in desk.engine.attempts(["a"])}
    assert ["globex"] == [attempt.tenant for attempt in desk.engine.attempts(["a"], "globex")]


def test_a_schedule_cancels_its_own_last_job_and_no_other_of_that_id(desk: Desk) -> None:
    job = NewJob("t", queue="q")
    overlap = Overlap.CANCEL_PREVIOUS
    desk.engine.set_schedule(Schedule("s", "* * * * *", job, tenant="acme", overlap=overlap))
    desk.wait(60 * SECOND)
    desk.engine.upkeep()
    last = desk.engine.schedule("s", "acme").last_job
    run(desk, "acme")
    desk.engine.enqueue([NewJob("t", id=last, queue="q", tenant=tenant) for tenant in ("", "globex")])

    desk.wait(60 * SECOND)
    desk.engine.upkeep()

    assert last != desk.engine.schedule("s", "acme").last_job
    assert [State.WAITING] * 2 == [desk.engine.job(last, tenant).state for tenant in ("", "globex")]


def test_ids_of_an_earlier_penstock_stay_and_are_their_tenants(migrated, monkeypatch) -> None:
    def stand(db: Session) -> None:
        for seq, tenant in ((1001, ""), (1002, "acme"), (1003, "globex")):
            values = (seq, f"j{seq}", tenant, "q", "t", "[1]", 3, 2, "", "", 7, 8, '{"a":1}', None, 9)
            db.run(
                f"INSERT INTO job ({COLUMNS}) VALUES ({PLACES})",
                *values,
            )
            db.run(
                "INSERT INTO done (seq, state, finished, attempt, reason) VALUES (?, 'done', 1, 1, '')", seq
            )

    engine = migrated(MIGRATION, stand)

    rows = engine.store.read(lambda db: db.all(f"SELECT {COLUMNS} FROM job ORDER BY seq"))
    assert [(seq, f"j{seq}", tenant, "q", "t", "[1]", 3, 2, "", "", 7, 8, '{"a":1}', None, 9)
            for seq, tenant in ((1001, ""), (1002, "acme"), (1003, "globex"))] == rows  # fmt: skip
    assert [] == engine.doctor()
    engine.enqueue([NewJob("t", id="j1002", tenant="globex"), NewJob("t", id="j1002")])
    for job in (NewJob("t", id="j1002", tenant="acme"), NewJob("t", id="j1001")):
        with pytest.raises(DuplicateJobError):
            engine.enqueue([job])
    # The database itself keeps two jobs of a tenant from having one id, whatever a process believes.
    values = (1004, "j1002", "acme", "q", "t", "[1]", 3, 2, "", "", 7, 8, "{}", None, 9)
    monkeypatch.setattr(store_module, "Patience", lambda: Patience(0))
    with pytest.raises(Exception, match=r"(?i)unique"):
        engine.store.write(
            lambda db: db.run(
                f"INSERT INTO job ({COLUMNS}) VALUES ({PLACES})",
                *values,
            )
        )


def test_a_process_that_is_open_while_the_store_is_migrated_goes_on(store, tmp_path, monkeypatch) -> None:
    url = str(tmp_path / "open.db") if store == "sqlite" else fresh_schema(shared_url())
    known = migrations.names()
    with monkeypatch.context() as then:
        then.setattr(migrations, "names", lambda: known[: known.index(MIGRATION)])
        old = open_engine(url)

    def add(seq: int, id_: str) -> None:
        values = (seq, id_, "acme", "q", "t", "{}", 0, 1, "", "", None, None, "{}", None, 9)
        old.store.write(lambda db: db.run(f"INSERT INTO job ({COLUMNS}) VALUES ({PLACES})", *values))

    def found() -> list[str]:
        statement = "SELECT id FROM job WHERE id IN (SELECT value FROM each(?)) ORDER BY seq"
        return [id_ for (id_,) in old.store.read(lambda db: db.all(statement, ["a", "b"]))]

    with closing(old):
        add(1001, "a")
        assert ["a"] == found()
        open_engine(url).close()
        add(1002, "b")
        assert ["a", "b"] == found()
    if store == "postgres":
        drop_schema(url)


class TestOverHttp:
    """A token speaks for one tenant, or for all."""

    def talk(self, desk: Desk, *said):
        """Return (status, answer) of each (tenant, method, path, body), and perhaps headers."""
        keyring = Keyring()
        for tenant, token in TOKENS.items():
            keyring.add(token, Access(str(tenant), frozenset(Role), tenant))

        async def all_of_it():
            async with serving(desk.engine, keyring=keyring) as site:
                return [
                    await ask(
                        site, path, body, method, authorization=f"Bearer {TOKENS[tenant]}", **dict(more)
                    )
                    for tenant, method, path, body, *more in said
                ]

        return asyncio.run(all_of_it())

    def test_an_id_of_another_tenant_is_not_given_away(self, desk: Desk) -> None:
        job = {"id": ID, "type": "a.b", "args": [], "options": {"queue": "q"}}
        path = f"/ojs/v1/jobs/{ID}"

        answers = self.talk(
            desk,
            ("acme", "POST", "/ojs/v1/jobs", job),
            ("globex", "GET", path, None),
            ("globex", "DELETE", path, None),
            ("globex", "POST", "/ojs/v1/jobs", job),
            ("globex", "POST", "/ojs/v1/jobs", job),
            ("globex", "DELETE", path, None),
            ("acme", "GET", path, None),
            (None, "GET", path, None),
        )

        assert [201, 404, 404, 201, 409, 200, 200, 400] == [status for status, _ in answers]
        assert "available" == answers[6][1]["job"]["state"]
        assert "'acme', 'globex'" in json.dumps(answers[7][1])

    def test_one_worker_of_all_tenants_names_the_tenant_of_a_job(self, desk: Desk) -> None:
        job = {"id": ID, "type": "a.b", "args": [], "options": {"queue": "q"}}
        ack = {"job_id": ID, "worker_id": "w", "result": 5}

        answers = self.talk(
            desk,
            ("acme", "POST", "/ojs/v1/jobs", job),
            ("globex", "POST", "/ojs/v1/jobs", job),
            (None, "POST", "/ojs/v1/workers/fetch", {"queues": ["q"], "count": 5, "worker_id": "w"}),
            (None, "POST", "/ojs/v1/workers/heartbeat", {"worker_id": "w", "active_jobs": [ID]}),
            (None, "POST", "/ojs/v1/workers/ack", ack),
            ("acme", "POST", "/ojs/v1/workers/ack", ack),
            (None, "POST", "/ojs/v1/workers/ack", ack),
        )

        assert [201, 201, 200, 200, 400, 200, 200] == [status for status, _ in answers]
        assert {"acme", "globex"} == {each["meta"]["tenant_id"] for each in answers[2][1]["jobs"]}
        assert [ID, ID] == answers[3][1]["jobs_extended"]
        assert [State.DONE] * 2 == [desk.engine.job(ID, tenant).state for tenant in ("acme", "globex")]

    def test_penstocks_own_protocol_takes_any_text(self, desk: Desk) -> None:
        name = 'a b/"c"|@#%\u200f😀'
        job = {"task": "t", "args": '{"args":[],"kwargs":{}}', "id": name, "queue": name}

        answers = self.talk(
            desk,
            ("acme", "POST", "/penstock/v1/enqueue", {"jobs": [job]}),
            ("globex", "POST", "/penstock/v1/enqueue", {"jobs": [job]}),
            ("acme", "POST", "/penstock/v1/cancel", {"id": name}),
            ("globex", "POST", "/penstock/v1/job", {"id": name}),
            ("globex", "POST", "/penstock/v1/job", {"id": name, "tenant": "acme"}),
            (None, "POST", "/penstock/v1/job", {"id": name, "tenant": "acme"}),
            (None, "POST", "/penstock/v1/job", {"id": name}),
            (None, "POST", "/penstock/v1/enqueue", {"jobs": [{**job, "queue": "x" * 1025}]}),
        )

        assert [200, 200, 200, 200, 403, 200, 400, 400] == [status for status, _ in answers]
        assert ("waiting", "cancelled") == (answers[3][1]["state"], answers[5][1]["state"])
        assert (name, name) == (answers[3][1]["id"], answers[3][1]["queue"])

    def test_a_header_names_any_tenant_in_penstocks_own_protocol(self, desk: Desk) -> None:
        desk.engine.enqueue([NewJob("t", id="a", queue="q", tenant=tenant) for tenant in ("", "acme inc|é")])
        header = "x_penstock_tenant"

        answers = self.talk(
            desk,
            (None, "POST", "/penstock/v1/job", {"id": "a"}, (header, "acme%20inc%7C%C3%A9")),
            (None, "POST", "/penstock/v1/job", {"id": "a"}, (header, "other%20one")),
            (None, "POST", "/penstock/v1/job", {"id": "a"}, (header, "a%0Ab")),
            ("acme", "POST", "/penstock/v1/job", {"id": "a"}, (header, "acme%20inc%7C%C3%A9")),
            (None, "GET", "/ojs/v1/jobs/a", None, ("x_ojs_tenant", "acme%20inc")),
        )

        assert [200, 404, 400, 403, 400] == [status for status, _ in answers]
        assert "acme inc|é" == answers[0][1]["tenant"]
