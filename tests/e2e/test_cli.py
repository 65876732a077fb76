"""The `penstock` command as users and scripts meet it."""

import json
import os
import signal
import sqlite3
import subprocess
from contextlib import closing

import pytest

from penstock import App, Concurrency
from penstock import signal as wait_for
from tests.support.command import COMMAND, Process, document, penstock

GROUPS = ["jobs", "workflows", "gates", "floating", "queues"]
COMMANDS = [
    "", "demo", "worker", "bench", "simulate", "why", "workers", "audit", "migrate", "doctor",
    "jobs list", "jobs show", "jobs retry", "jobs cancel", "jobs expedite", "jobs import",
    "workflows list", "workflows show", "workflows signal", "workflows cancel", "workflows pause",
    "workflows resume", "workflows retry",
    "gates list", "gates show", "gates override", "gates clear", "gates configure",
    "floating list", "floating show", "floating set", "floating refresh", "floating delete",
    "queues list", "queues pause", "queues resume",
]  # fmt: skip
READING = [
    "jobs list", "jobs show x", "jobs retry x", "jobs cancel x", "jobs expedite x",
    "workflows list", "workflows show x", "workflows signal x go", "workflows cancel x", "workflows pause x",
    "workflows resume x", "workflows retry x",
    "gates list", "gates show x", "gates override x --slots 1", "gates clear x", "gates configure x --slots 1",
    "floating list", "floating show x", "floating set x --value 1", "floating refresh x", "floating delete x",
    "queues list", "queues pause x", "queues resume x", "why x", "workers", "audit", "doctor",
]  # fmt: skip
TASKS = """
from penstock import App

app = App("jobs.db")
number = 1

@app.task
def add(left: int, right: int) -> int:
    return left + right

@app.task
def fail() -> None:
    raise ValueError("no good")
"""


def said(ran):
    """Return the complaint, which must be one line without a traceback."""
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr
    (line,) = ran.stderr.strip().splitlines()
    return line


class Shop:
    """A folder with a database in which one job runs, one waits behind it and one has no limits."""

    def __init__(self, folder):
        self.folder = folder
        with closing(App(folder / "jobs.db")) as app:
            limits = [Concurrency(1, key="account:{account}")]
            sync = app.task(lambda account: None, name="shop.sync", limits=limits)
            plain = app.task(lambda: None, name="shop.plain")
            calls = (sync.enqueue("acme"), sync.enqueue("acme"), plain.enqueue())
            self.first, self.second, self.third = (job.id for job in calls)
            app.engine.claim(["default"], 1, worker="another")

    def run(self, *arguments):
        return penstock(*arguments, "--store", "jobs.db", folder=self.folder)

    def document(self, *arguments):
        return document(*arguments, "--store", "jobs.db", folder=self.folder)


NAME = 'a "b"|[red]c[/red] @#%/é😀'


class TestAnyText:
    """Names that are more than letters: each is shown as it is, and found."""

    @pytest.fixture
    def shop(self, tmp_path):
        with closing(App(tmp_path / "jobs.db")) as app:
            sync = app.task(lambda: None, name="sync", queue=NAME, limits=[Concurrency(1, key=lambda: NAME)])
            for tenant in ("acme", NAME):
                sync.with_options(tenant=tenant, id=NAME).enqueue()
            sync.with_options(tenant=NAME, id="next\u200f").enqueue()
            app.engine.claim([NAME], 1, worker="w", tenant=NAME)
        opened = Shop.__new__(Shop)
        opened.folder = tmp_path
        return opened

    def test_tables_show_them(self, shop):
        for command in ("jobs list", "gates list", "queues list"):
            assert NAME in shop.run(*command.split()).stdout, command
        assert "next\\u200f" in shop.run("jobs", "list").stdout

    def test_each_is_found_by_its_name(self, shop):
        assert "running" == shop.document("jobs", "show", NAME, "--tenant", NAME)["state"]
        assert "waiting" == shop.document("jobs", "show", NAME, "--tenant", "acme")["state"]
        assert (1, 1) == (
            (gate := shop.document("gates", "show", NAME, "--tenant", NAME))["running"],
            gate["waiting"],
        )
        assert NAME == shop.document("why", "next\u200f")["reasons"][0]["gate"]
        assert 2 == len(
            shop.document("jobs", "list", "--queue", NAME, "--tenant", NAME, "--key", NAME)["jobs"]
        )
        ambiguous = shop.run("jobs", "cancel", NAME)
        assert (2, True) == (ambiguous.returncode, "name one" in ambiguous.stderr)
        assert "cancelled" == shop.document("jobs", "cancel", NAME, "--tenant", "acme")["jobs"][0]["state"]
        assert {"queue": NAME, "paused": True} == shop.document("queues", "pause", NAME, "--tenant", NAME)


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


class TestAudit:
    """Changes made by commands: who, why, and what it was before."""

    def test_a_command_says_who_and_why(self, shop):
        shop.run("gates", "override", "account:acme", "--slots", "3", "--reason", "quota raised")
        shop.run("queues", "pause", "default", "--tenant", "acme")

        second, first = shop.document("audit")["changes"]
        assert ("gate.override", "account:acme", "cli", "quota raised") == (
            first["verb"], first["subject"], first["through"], first["reason"],
        )  # fmt: skip
        assert "@" in first["who"]
        assert ({}, {"override": {"slots": 3}}) == (first["before"], first["after"])
        assert [second] == shop.document("audit", "--tenant", "acme")["changes"]
        assert [first] == shop.document("audit", "account:acme", "--kind", "gate", "--last", "1h")["changes"]
        assert [first] == shop.document("audit", "--before", str(second["number"]))["changes"]
        assert [] == shop.document("audit", "--who", "someone else")["changes"]

    def test_several_jobs_are_one_change(self, shop):
        shop.run("jobs", "cancel", shop.second, shop.third, "unknown", "--reason", "not needed")

        (change,) = shop.document("audit")["changes"]
        assert ("job.cancel", "jobs", 2) == (change["verb"], change["kind"], change["touched"])
        assert "2 jobs" in shop.run("audit").stdout

    @pytest.mark.parametrize("option", ["--last", "--before", "--limit"])
    def test_what_cannot_be_read_is_refused(self, shop, option):
        ran = shop.run("audit", option, "x")

        assert 2 == ran.returncode
        assert option.strip("-") in ran.stderr

    def test_a_reason_that_is_too_long_changes_nothing(self, shop):
        ran = shop.run("queues", "pause", "default", "--reason", "x" * 1_001)

        assert 2 == ran.returncode
        assert "reason" in ran.stderr
        assert not shop.document("queues", "list")["queues"][0]["paused"]


@pytest.fixture
def folder(tmp_path):
    """A folder with a module of tasks."""
    (tmp_path / "shop.py").write_text(TASKS)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS + GROUPS)
def test_every_command_has_help_with_an_example(command):
    ran = penstock(*command.split(), "--help")

    assert 0 == ran.returncode
    assert "" == ran.stderr
    assert "Usage: penstock" in ran.stdout
    assert command in GROUPS or "Example: penstock" in ran.stdout


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_told(option):
    ran = penstock(option)

    assert 0 == ran.returncode
    assert ran.stdout.startswith("penstock 0.")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("jobs list --stat failed", "--state"), ("job", "jobs"), ("jobs list --state waitin", "waiting")],
    ids=["flag", "command", "state"],
)
def test_what_is_spelled_wrong_is_answered_with_what_is_right(wrong, right, tmp_path):
    ran = penstock(*wrong.split(), folder=tmp_path)

    assert 2 == ran.returncode
    assert right in ran.stderr
    assert "" == ran.stdout


@pytest.mark.parametrize(
    ("command", "told"),
    [("jobs list --store :memory:", "memory"), ("worker shop:app --weights a=3,b=1 --strict", "not both")],
    ids=["a look at a database in memory", "weights and a strict order"],
)
def test_what_cannot_be_done_is_refused(command, told, folder):
    ran = penstock(*command.split(), folder=folder)

    assert 2 == ran.returncode
    assert told in said(ran)


@pytest.mark.parametrize("command", READING)
def test_looking_at_a_database_that_is_not_there_creates_none(command, tmp_path):
    ran = penstock(*command.split(), "--store", "absent.db", folder=tmp_path)

    assert 2 == ran.returncode
    assert "'absent.db'" in said(ran)
    assert "--store" in said(ran)
    assert [] == list(tmp_path.iterdir())


def test_a_file_that_is_no_database_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("milk, eggs, bread\n" * 100)

    ran = penstock("jobs", "list", "--store", "notes.txt", folder=tmp_path)

    assert 4 == ran.returncode
    assert "notes.txt" in said(ran)
    assert "milk, eggs, bread\n" * 100 == (tmp_path / "notes.txt").read_text()


def test_somebody_elses_database_is_left_alone(tmp_path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")

    ran = penstock("jobs", "list", "--store", "other.db", folder=tmp_path)

    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        tables = other.execute("SELECT name FROM sqlite_master").fetchall()
    assert 4 == ran.returncode
    assert "other.db" in said(ran)
    assert [("recipes",)] == tables


def test_the_store_may_be_named_in_three_ways(shop):
    before = document("--store", "jobs.db", "jobs", "list", folder=shop.folder)
    after = document("jobs", "list", "--store", "sqlite:///jobs.db", folder=shop.folder)
    around = document("jobs", "list", folder=shop.folder, PENSTOCK_URL="jobs.db")

    assert 3 == len(before["jobs"])
    assert before == after == around


def test_a_job_that_is_not_there_is_not_found(shop):
    for command in (("jobs", "show"), ("jobs", "retry"), ("jobs", "cancel"), ("why",)):
        ran = shop.run(*command, "no-such-job")

        assert 3 == ran.returncode
        assert "no-such-job" in said(ran)


def test_a_gate_that_is_not_there_is_not_found(shop):
    ran = shop.run("gates", "show", "account:unknown")

    assert 3 == ran.returncode
    assert "account:unknown" in said(ran)


def test_jobs_are_listed_newest_first_and_page_by_page(shop):
    newest = shop.document("jobs", "list", "--limit", "2")
    oldest = shop.document("jobs", "list", "--before", str(newest["before"]))

    assert [shop.third, shop.second] == [job["id"] for job in newest["jobs"]]
    assert [shop.first] == [job["id"] for job in oldest["jobs"]]
    assert oldest["before"] is None


def test_jobs_are_told_apart_by_state_task_and_key(shop):
    chosen = {
        ("--state", "running"): [shop.first],
        ("--task", "shop.plain"): [shop.third],
        ("--key", "account:acme"): [shop.second, shop.first],
    }
    for options, expected in chosen.items():
        found = shop.document("jobs", "list", *options)

        assert expected == [job["id"] for job in found["jobs"]]


def test_a_job_is_shown_as_plain_values(shop):
    job = shop.document("jobs", "show", shop.first)

    facts = {"id": shop.first, "state": "running", "task": "shop.sync", "worker": "another"}
    assert facts == {name: job[name] for name in facts}
    assert {"args": ["acme"], "kwargs": {}} == job["args"]
    assert [{"key": "account:acme", "slots": 1, "on_limit": "wait"}] == job["limits"]
    assert job["enqueued"].endswith("Z")


def test_people_see_tables(shop):
    ran = shop.run("jobs", "list")

    head, *rows = ran.stdout.splitlines()
    assert head.split()[:3] == ["job", "state", "task"]
    assert [shop.third, shop.second, shop.first] == [row.split()[0] for row in rows]
    assert "ago (" in rows[0]


def test_why_names_the_gate_the_rule_and_the_place(shop):
    answer = shop.document("why", shop.second)
    told = shop.run("why", shop.second).stdout

    assert "waiting" == answer["state"]
    assert ["account:acme"] == [reason["gate"] for reason in answer["reasons"]]
    assert 1 == answer["place"]
    assert answer["sentence"] in told
    assert "account:acme" in told


def test_a_waiting_job_is_cancelled_and_put_back_in_line(shop):
    cancelled = shop.document("jobs", "cancel", shop.second)
    again = shop.document("jobs", "retry", shop.second)

    assert {"jobs": [{"id": shop.second, "state": "cancelled"}]} == cancelled
    assert {"jobs": [{"id": shop.second, "state": "waiting"}]} == again


def test_a_job_that_cannot_be_retried_says_why_and_does_not_stop_the_others(shop):
    shop.run("jobs", "cancel", shop.second)

    ran = shop.run("jobs", "retry", shop.first, shop.second, "--json")

    refused, done = json.loads(ran.stdout)["jobs"]
    assert 1 == ran.returncode
    assert "running" in ran.stderr
    assert "wrong_state" == refused["error"]["code"]
    assert {"id": shop.second, "state": "waiting"} == done


def test_a_gate_shows_what_runs_and_waits_there(shop):
    listed = shop.document("gates", "list")
    shown = shop.document("gates", "show", "account:acme")

    assert {"gates": [shown], "total": 1} == listed
    facts = {"running": 1, "waiting": 1, "limit": {"slots": 1}, "source": "job"}
    assert facts == {name: shown[name] for name in facts}
    assert "1/1" in shop.run("gates", "list").stdout


def test_a_gate_is_overridden_for_a_while_and_cleared(shop):
    numbers = ("--slots", "5", "--rate", "100/1m", "--throttle", "10/s")

    changed = shop.document("gates", "override", "account:acme", *numbers, "--for", "10m")
    cleared = shop.document("gates", "clear", "account:acme")

    assert {"slots": 5, "rate": "100/1m", "throttle": "10/1s"} == changed["limit"] == changed["override"]
    assert changed["override_until"].endswith("Z")
    assert ({"slots": 1}, None) == (cleared["limit"], cleared["override"])


def test_numbers_are_configured_and_taken_away(shop):
    shop.document("gates", "configure", "account:acme", "--slots", "3")
    during = shop.document("gates", "show", "account:acme")
    shop.document("gates", "configure", "account:acme", "--off")
    after = shop.document("gates", "show", "account:acme")

    assert ({"slots": 3}, "configured") == (during["limit"], during["source"])
    assert ({"slots": 1}, "job") == (after["limit"], after["source"])


@pytest.mark.parametrize(
    "options", ["", "--rate 100", "--rate many/1m", "--rate 5/soon", "--slots -1", "--slots few"]
)
def test_numbers_that_make_no_sense_are_refused(options, shop):
    ran = shop.run("gates", "override", "account:acme", *options.split())

    assert 2 == ran.returncode
    assert "Traceback" not in ran.stderr
    assert "" == ran.stdout


class TestFloating:
    @pytest.fixture
    def shop(self, tmp_path):
        with closing(App(tmp_path / "jobs.db")) as app:
            limit = Concurrency.floating(
                2, key="pool", handler="free", every="30s", metadata={"zone": 1}, most=9
            )
            load = app.task(lambda: None, name="load", limits=[limit])
            load.enqueue_many([()] * 4)
            load.with_options(tenant="acme").enqueue()
            app.engine.claim(["default"], 2, worker="another", tenant="")
        opened = Shop.__new__(Shop)
        opened.folder = tmp_path
        return opened

    def test_floating_limits_are_listed_and_shown(self, shop):
        listed = shop.document("floating", "list")
        shown = shop.document("floating", "show", "pool")

        assert (2, shown) == (listed["total"], listed["floating"][0])
        assert ["acme"] == [
            each["tenant"] for each in shop.document("floating", "list", "--tenant", "acme")["floating"]
        ]
        facts = {"value": 2, "default": 2, "least": 0, "most": 9, "handler": "free", "every": "30s", "failures": 0,
                 "metadata": {"zone": 1}, "in_use": True, "refreshed": None, "worker": None}  # fmt: skip
        assert facts == {name: shown[name] for name in facts}
        assert "pool" in shop.run("floating", "list").stdout
        told = shop.run("floating", "show", "pool").stdout
        assert "not yet" in told
        assert "as soon as a worker can" in told
        assert "No floating limits." in shop.run("floating", "list", "--prefix", "x").stdout

    def test_one_is_changed_by_hand(self, shop):
        changed = shop.document("floating", "set", "pool", "--value", "7", "--every", "2m", "--least", "1", "--most",
                                "20", "--metadata", '{"zone": 2}')  # fmt: skip

        facts = {"value": 7, "every": "2m", "least": 1, "most": 20, "metadata": {"zone": 2}}
        assert facts == {name: changed[name] for name in facts}
        assert ({"slots": 7}, "floating") == (
            (gate := shop.document("gates", "show", "pool"))["limit"],
            gate["source"],
        )
        assert 2 == shop.document("floating", "show", "pool", "--tenant", "acme")["value"]

    def test_one_is_asked_for_and_deleted(self, shop):
        assert "pool" == shop.document("floating", "refresh", "pool")["key"]
        assert "pool floats no longer" in shop.run("floating", "delete", "pool").stdout
        assert 1 == shop.document("floating", "list")["total"]
        assert "floating limit" in said(shop.run("floating", "show", "pool"))
        deleted = {"key": "pool", "tenant": "acme", "deleted": True}
        assert deleted == shop.document("floating", "delete", "pool", "--tenant", "acme")

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ("", "at least one of"),
            ("--value 10", "at most 9"),
            ("--most 3 --least 4", "most"),
            ("--every soon", "--every"),
            ("--metadata {", "--metadata"),
            ("--metadata 5", "--metadata"),
        ],
        ids=["nothing", "out of bounds", "no bounds", "no time", "no JSON", "no object"],
    )
    def test_what_makes_no_sense_is_refused(self, options, told, shop):
        ran = shop.run("floating", "set", "pool", *options.split())

        assert 2 == ran.returncode
        assert told in said(ran)

    def test_why_names_the_floating_value(self, shop):
        waiting = shop.document("jobs", "list", "--state", "waiting", "--key", "pool")["jobs"]
        (job, *_) = [job["id"] for job in waiting if not job["tenant"]]
        told = shop.document("why", job)["sentence"]

        assert "the 2 floats and was not computed yet" in told


def test_a_queue_is_paused_and_resumed(shop):
    shop.document("queues", "pause", "default")
    (paused,) = shop.document("queues", "list")["queues"]
    shop.document("queues", "resume", "default")
    (resumed,) = shop.document("queues", "list")["queues"]

    assert ("default", True, 2, 1) == tuple(paused[name] for name in ("name", "paused", "waiting", "running"))
    assert resumed["paused"] is False


def test_migrate_creates_a_database_once(tmp_path):
    first = document("migrate", "--store", "new.db", folder=tmp_path)
    second = document("migrate", "--store", "new.db", folder=tmp_path)

    assert (True, False) == (first["created"], second["created"])
    assert {"jobs": [], "before": None} == document("jobs", "list", "--store", "new.db", folder=tmp_path)
    assert "No jobs." == penstock("jobs", "list", "--store", "new.db", folder=tmp_path).stdout.strip()


def test_the_doctor_finds_a_sound_database_healthy(shop):
    found = shop.document("doctor")

    assert (True, []) == (found["healthy"], found["differences"])


def test_a_worker_runs_what_there_is_and_stops_when_idle(folder):
    with closing(App(folder / "jobs.db")) as app:
        job = app.task(name="shop.add")(lambda left, right: None).enqueue(2, 3)
        ran = penstock("worker", "shop:app", "--until-idle", "--threads", "2", folder=folder)

        assert 0 == ran.returncode, ran.stderr
        assert "" == ran.stdout
        assert 5 == job.result(timeout=120)


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("shop.app", "shop:app"),
        ("shop", "tasks:app"),
        ("shop.py:app", "shop:app"),
        ("shap:app", "'shap'"),
        ("shop:ap", "'app'"),
        ("shop:number", "is of type int"),
        ("broken:app", "broken.py, line 1)"),
        ("unclosed:app", "(unclosed.py, line 1); set"),
    ],
)
def test_a_target_that_is_no_app_is_refused_with_a_hint(target, hint, folder):
    (folder / "broken.py").write_text("1 / 0\n")
    (folder / "unclosed.py").write_text("print(\n")

    ran = penstock("worker", target, folder=folder)

    assert 2 == ran.returncode
    assert hint in said(ran)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_asked_to_stop_stops_without_a_traceback(number, folder):
    worker = Process("worker", "shop:app", folder=folder, streams=("stderr",))
    try:
        with closing(App(folder / "jobs.db")) as app:
            job = app.task(name="shop.add")(lambda left, right: None).enqueue(2, 3)

            assert 5 == job.result(timeout=120)
        worker.send_signal(number)
        with worker.stderr:
            assert "Traceback" not in worker.stderr.read()
    finally:
        worker.kill()
        worker.wait()

    assert worker.returncode in {0, 130}


def test_a_worker_ends_when_the_process_that_started_it_is_gone(folder):
    read, write = os.pipe()
    worker = subprocess.Popen(
        [*COMMAND, "worker", "shop:app", "--stop-with-stdin"],
        cwd=folder,
        stdin=read,
        stderr=subprocess.DEVNULL,
    )
    try:
        os.close(read)
        os.close(write)

        assert 0 == worker.wait(timeout=120)
    finally:
        worker.kill()
        worker.wait()


def test_jobs_are_brought_in_from_a_file_with_their_attempts(tmp_path):
    old = {
        "outcome": "failed",
        "started": 1,
        "ended": 2,
        "error": {"kind": "Timeout", "message": "no answer"},
    }
    lines = [
        {"job": {"id": "one", "task": "t", "retry": {"attempts": 3}}, "attempts": [old]},
        {"job": {"id": "two", "task": "t", "due": 2**52}},
    ]
    file = tmp_path / "old.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    store = ["--store", str(tmp_path / "jobs.db")]

    penstock("migrate", *store)
    assert "2 jobs were brought in" in penstock("jobs", "import", str(file), *store).stdout
    shown = document("jobs", "show", "one", *store)
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["failed"]
    assert "failed" in penstock("jobs", "show", "one", *store).stdout
    assert document("jobs", "expedite", "two", *store)["jobs"] == [{"id": "two", "state": "waiting"}]
    again = penstock("jobs", "import", str(file), *store)
    assert again.returncode != 0
    assert "one" in again.stderr

    file.write_text('{"job": {"task": "t", "cost": "much"}}')
    refused = penstock("jobs", "import", str(file), *store)
    assert "line 1" in refused.stderr
    assert "cost" in refused.stderr


class TestWorkflows:
    """Two runs of one slot: one waits for a signal, the other for its slot."""

    @pytest.fixture
    def run(self, tmp_path):
        with closing(App(tmp_path / "jobs.db")) as app:

            @app.workflow(name="shop.ask", limits=[Concurrency(1, key="shop")])
            async def ask() -> str:
                answer: str = await wait_for("answer")
                return answer

            self.first, self.second = (ask.start(id=name).id for name in ("first", "second"))
            app.work(until_idle=True)
        return lambda *arguments: penstock("workflows", *arguments, "--store", "jobs.db", folder=tmp_path)

    def told(self, run, *arguments):
        return json.loads(run(*arguments, "--json").stdout)

    def test_runs_are_listed_and_shown(self, run):
        listed = self.told(run, "list")
        assert [("second", "deferred"), ("first", "running")] == [
            (each["id"], each["state"]) for each in listed["workflows"]
        ]
        assert 2 == listed["total"]
        assert ["second"] == [
            each["id"] for each in self.told(run, "list", "--state", "deferred")["workflows"]
        ]
        assert "--offset 1" in run("list", "--limit", "1").stdout
        assert "No runs." in run("list", "--workflow", "other").stdout
        shown = run("show", "first").stdout
        assert "wait live" in shown
        assert "waits for the signal 'answer'" in shown
        (step,) = self.told(run, "show", "first")["steps"]
        assert ("wait", "live") == (step["kind"], step["state"])
        assert "shop: 1 running of 1" in run("show", "second").stdout
        assert 3 == run("show", "third").returncode

    def test_a_run_is_sent_a_signal(self, run):
        assert "payload" in said(run("signal", "first", "answer", "yes"))
        assert "was sent" in run("signal", "first", "answer", '"yes"').stdout
        assert ["done"] == [step["state"] for step in self.told(run, "show", "first")["steps"]]

    def test_runs_are_paused_resumed_cancelled_and_retried(self, run):
        assert "first is paused" in run("pause", "first").stdout
        assert "first is running" in run("resume", "first").stdout
        cancelled = run("cancel", "first", "third")
        assert (3, "first is cancelled\n") == (cancelled.returncode, cancelled.stdout)
        assert "running" == self.told(run, "show", "second")["state"]  # it was handed the slot
        assert [{"id": "first", "state": "deferred"}] == self.told(run, "retry", "first")["workflows"]
