"""The `penstock` command as users and scripts meet it."""

import json
import os
import signal
import sqlite3
import subprocess
from contextlib import closing

import pytest

from penstock import App, Concurrency
from tests.support.command import COMMAND, Process, document, penstock

COMMANDS = [
    (),
    ("demo",),
    ("worker",),
    ("bench",),
    ("simulate",),
    ("why",),
    ("migrate",),
    ("doctor",),
    ("jobs",),
    ("jobs", "list"),
    ("jobs", "show"),
    ("jobs", "retry"),
    ("jobs", "cancel"),
    ("gates",),
    ("gates", "list"),
    ("gates", "show"),
    ("gates", "override"),
    ("gates", "clear"),
    ("gates", "configure"),
    ("queues",),
    ("queues", "list"),
    ("queues", "pause"),
    ("queues", "resume"),
]
READING = [
    ("jobs", "list"),
    ("jobs", "show", "x"),
    ("jobs", "retry", "x"),
    ("jobs", "cancel", "x"),
    ("gates", "list"),
    ("gates", "show", "x"),
    ("gates", "override", "x", "--slots", "1"),
    ("gates", "clear", "x"),
    ("gates", "configure", "x", "--slots", "1"),
    ("queues", "list"),
    ("queues", "pause", "x"),
    ("queues", "resume", "x"),
    ("why", "x"),
    ("doctor",),
]
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


@pytest.fixture
def shop(tmp_path):
    """A folder with a database in which one job runs, one waits behind it and one has no limits."""
    with closing(App(tmp_path / "jobs.db")) as app:

        @app.task(name="shop.sync", limits=[Concurrency(1, key="account:{account}")])
        def sync(account): ...

        @app.task(name="shop.plain")
        def plain(): ...

        first, second = sync.enqueue("acme"), sync.enqueue("acme")
        third = plain.enqueue()
        app.engine.claim(["default"], 1, worker="somebody")
    return tmp_path, first.id, second.id, third.id


@pytest.fixture
def folder(tmp_path):
    """A folder with a module of tasks."""
    (tmp_path / "shop.py").write_text(TASKS)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(command):
    ran = penstock(*command, "--help")

    assert 0 == ran.returncode
    assert "" == ran.stderr
    assert "Usage: penstock" in ran.stdout
    if command not in {("jobs",), ("gates",), ("queues",)}:
        assert "Example: penstock" in ran.stdout


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_told(option):
    ran = penstock(option)

    assert 0 == ran.returncode
    assert ran.stdout.startswith("penstock 0.")


def test_a_wrong_flag_is_answered_with_the_right_one():
    ran = penstock("jobs", "list", "--stat", "failed")

    assert 2 == ran.returncode
    assert "--state" in ran.stderr
    assert "" == ran.stdout


def test_a_wrong_command_is_answered_with_the_right_one():
    ran = penstock("job")

    assert 2 == ran.returncode
    assert "jobs" in ran.stderr


def test_an_unknown_state_is_answered_with_those_there_are(tmp_path):
    ran = penstock("jobs", "list", "--state", "waitin", folder=tmp_path)

    assert 2 == ran.returncode
    assert "waiting" in ran.stderr


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_looking_at_a_database_that_is_not_there_creates_none(command, tmp_path):
    ran = penstock(*command, "--store", "absent.db", folder=tmp_path)

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


def test_a_database_in_memory_cannot_be_looked_at():
    ran = penstock("jobs", "list", "--store", ":memory:")

    assert 2 == ran.returncode
    assert "memory" in said(ran)


def test_the_store_may_be_named_in_three_ways(shop):
    folder, *_ = shop

    before = document("--store", "jobs.db", "jobs", "list", folder=folder)
    after = document("jobs", "list", "--store", "sqlite:///jobs.db", folder=folder)
    around = document("jobs", "list", folder=folder, PENSTOCK_URL="jobs.db")

    assert 3 == len(before["jobs"])
    assert before == after == around


def test_a_job_that_is_not_there_is_not_found(shop):
    folder, *_ = shop
    for command in (("jobs", "show"), ("jobs", "retry"), ("jobs", "cancel"), ("why",)):
        ran = penstock(*command, "no-such-job", "--store", "jobs.db", folder=folder)

        assert 3 == ran.returncode
        assert "no-such-job" in said(ran)


def test_a_gate_that_is_not_there_is_not_found(shop):
    folder, *_ = shop

    ran = penstock("gates", "show", "account:nobody", "--store", "jobs.db", folder=folder)

    assert 3 == ran.returncode
    assert "account:nobody" in said(ran)


def test_jobs_are_listed_newest_first_and_page_by_page(shop):
    folder, first, second, third = shop

    newest = document("jobs", "list", "--limit", "2", "--store", "jobs.db", folder=folder)
    oldest = document("jobs", "list", "--before", str(newest["before"]), "--store", "jobs.db", folder=folder)

    assert [third, second] == [job["id"] for job in newest["jobs"]]
    assert [first] == [job["id"] for job in oldest["jobs"]]
    assert oldest["before"] is None


def test_jobs_are_told_apart_by_state_task_and_key(shop):
    folder, first, second, third = shop
    chosen = {
        ("--state", "running"): [first],
        ("--task", "shop.plain"): [third],
        ("--key", "account:acme"): [second, first],
    }
    for options, expected in chosen.items():
        found = document("jobs", "list", *options, "--store", "jobs.db", folder=folder)

        assert expected == [job["id"] for job in found["jobs"]]


def test_a_job_is_shown_as_plain_values(shop):
    folder, first, *_ = shop

    job = document("jobs", "show", first, "--store", "jobs.db", folder=folder)

    assert (first, "running", "shop.sync", "somebody") == (
        job["id"],
        job["state"],
        job["task"],
        job["worker"],
    )
    assert {"args": ["acme"], "kwargs": {}} == job["args"]
    assert [{"key": "account:acme", "slots": 1, "on_limit": "wait"}] == job["limits"]
    assert job["enqueued"].endswith("Z")


def test_people_see_tables(shop):
    folder, first, second, third = shop

    ran = penstock("jobs", "list", "--store", "jobs.db", folder=folder)

    head, *rows = ran.stdout.splitlines()
    assert head.split()[:3] == ["job", "state", "task"]
    assert [third, second, first] == [row.split()[0] for row in rows]
    assert "ago (" in rows[0]


def test_why_names_the_gate_the_rule_and_the_place(shop):
    folder, _, second, _ = shop

    answer = document("why", second, "--store", "jobs.db", folder=folder)
    told = penstock("why", second, "--store", "jobs.db", folder=folder).stdout

    assert "waiting" == answer["state"]
    assert ["account:acme"] == [reason["gate"] for reason in answer["reasons"]]
    assert 1 == answer["place"]
    assert answer["sentence"] in told
    assert "account:acme" in told


def test_a_waiting_job_is_cancelled_and_put_back_in_line(shop):
    folder, _, second, _ = shop

    cancelled = document("jobs", "cancel", second, "--store", "jobs.db", folder=folder)
    again = document("jobs", "retry", second, "--store", "jobs.db", folder=folder)

    assert {"jobs": [{"id": second, "state": "cancelled"}]} == cancelled
    assert {"jobs": [{"id": second, "state": "waiting"}]} == again


def test_a_job_that_cannot_be_retried_says_why_and_does_not_stop_the_others(shop):
    folder, first, second, _ = shop
    penstock("jobs", "cancel", second, "--store", "jobs.db", folder=folder)

    ran = penstock("jobs", "retry", first, second, "--store", "jobs.db", "--json", folder=folder)

    refused, done = json.loads(ran.stdout)["jobs"]
    assert 1 == ran.returncode
    assert "running" in ran.stderr
    assert "wrong_state" == refused["error"]["code"]
    assert {"id": second, "state": "waiting"} == done


def test_a_gate_shows_what_runs_and_waits_there(shop):
    folder, *_ = shop

    listed = document("gates", "list", "--store", "jobs.db", folder=folder)
    shown = document("gates", "show", "account:acme", "--store", "jobs.db", folder=folder)

    assert {"gates": [shown], "total": 1} == listed
    assert (1, 1, {"slots": 1}, "job") == (
        shown["running"],
        shown["waiting"],
        shown["limit"],
        shown["source"],
    )
    assert "1/1" in penstock("gates", "list", "--store", "jobs.db", folder=folder).stdout


def test_a_gate_is_overridden_for_a_while_and_cleared(shop):
    folder, *_ = shop
    numbers = ("--slots", "5", "--rate", "100/1m", "--throttle", "10/s")

    changed = document(
        "gates", "override", "account:acme", *numbers, "--for", "10m", "--store", "jobs.db", folder=folder
    )
    cleared = document("gates", "clear", "account:acme", "--store", "jobs.db", folder=folder)

    assert {"slots": 5, "rate": "100/1m", "throttle": "10/1s"} == changed["limit"] == changed["override"]
    assert changed["override_until"].endswith("Z")
    assert ({"slots": 1}, None) == (cleared["limit"], cleared["override"])


def test_numbers_are_configured_and_taken_away(shop):
    folder, *_ = shop
    shared = ("--store", "jobs.db")

    document("gates", "configure", "account:acme", "--slots", "3", *shared, folder=folder)
    during = document("gates", "show", "account:acme", *shared, folder=folder)
    document("gates", "configure", "account:acme", "--off", *shared, folder=folder)
    after = document("gates", "show", "account:acme", *shared, folder=folder)

    assert ({"slots": 3}, "configured") == (during["limit"], during["source"])
    assert ({"slots": 1}, "job") == (after["limit"], after["source"])


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--rate", "100"),
        ("--rate", "many/1m"),
        ("--rate", "5/soon"),
        ("--slots", "-1"),
        ("--slots", "few"),
    ],
    ids=" ".join,
)
def test_numbers_that_make_no_sense_are_refused(options, shop):
    folder, *_ = shop

    ran = penstock("gates", "override", "account:acme", *options, "--store", "jobs.db", folder=folder)

    assert 2 == ran.returncode
    assert "Traceback" not in ran.stderr
    assert "" == ran.stdout


def test_a_queue_is_paused_and_resumed(shop):
    folder, *_ = shop

    document("queues", "pause", "default", "--store", "jobs.db", folder=folder)
    (paused,) = document("queues", "list", "--store", "jobs.db", folder=folder)["queues"]
    document("queues", "resume", "default", "--store", "jobs.db", folder=folder)
    (resumed,) = document("queues", "list", "--store", "jobs.db", folder=folder)["queues"]

    assert ("default", True, 2, 1) == tuple(paused[name] for name in ("name", "paused", "waiting", "running"))
    assert resumed["paused"] is False


def test_migrate_creates_a_database_once(tmp_path):
    first = document("migrate", "--store", "new.db", folder=tmp_path)
    second = document("migrate", "--store", "new.db", folder=tmp_path)

    assert (True, False) == (first["created"], second["created"])
    assert {"jobs": [], "before": None} == document("jobs", "list", "--store", "new.db", folder=tmp_path)
    assert "No jobs." == penstock("jobs", "list", "--store", "new.db", folder=tmp_path).stdout.strip()


def test_the_doctor_finds_a_sound_database_healthy(shop):
    folder, *_ = shop

    found = document("doctor", "--store", "jobs.db", folder=folder)

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


def test_weights_and_strict_order_do_not_go_together(folder):
    ran = penstock("worker", "shop:app", "--weights", "a=3,b=1", "--strict", folder=folder)

    assert 2 == ran.returncode
    assert "not both" in said(ran)


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
