"""The servers that tests bring along."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.support import pgbouncer, postgres

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server():
    postgres.need_package()
    server = postgres.Server.begin()
    yield server
    server.close()


def ask(url, statement):
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement).fetchone()[0]


def listens(url):
    parts = urlsplit(url)
    with socket.socket() as caller:
        return caller.connect_ex((parts.hostname, parts.port)) == 0


@pytest.mark.parametrize("how", ["fast", "immediate"])
def test_a_server_restarts_where_it_was_with_what_it_had(server, how):
    url, pid = server.url, server.pid
    with psycopg.connect(url) as connection:
        connection.execute("DROP TABLE IF EXISTS kept")
        connection.execute("CREATE TABLE kept AS SELECT 7 AS value")

    server.restart(how)

    assert url == server.url
    assert pid != server.pid
    assert 7 == ask(url, "SELECT value FROM kept")
    assert server.version == ask(url, "SELECT current_setting('server_version_num')::int / 10000")


def test_a_server_ends_with_its_owner_even_if_killed():
    postgres.need_package()
    owner = subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.support.postgres", "--quick", "--"),
            *("sh", "-c", f"echo ${postgres.VARIABLE}; exec cat"),
        ],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        url = owner.stdout.readline().strip()
        folder = Path(ask(url, "SHOW data_directory")).parent
        pid = int((folder / "data" / "postmaster.pid").read_text().split()[0])

        owner.send_signal(signal.SIGKILL)

        within = time.monotonic() + 30
        while time.monotonic() < within and (listens(url) or folder.exists()):
            time.sleep(0.02)
        if listens(url):
            os.kill(pid, signal.SIGQUIT)
            pytest.fail("the server lives on")
        assert not folder.exists()


def test_a_durable_server_waits_for_the_disk_and_is_gone_once_closed():
    postgres.need_package()
    server = postgres.Server.begin(durable=True, settings={"cluster_name": "it's ours"})
    pid, folder = server.pid, Path(ask(server.url, "SHOW data_directory")).parent
    try:
        assert "on" == ask(server.url, "SHOW fsync")
        assert "it's ours" == ask(server.url, "SHOW cluster_name")
        assert folder.exists()
    finally:
        server.close()

    assert not listens(server.url)
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_schema_is_fresh_each_time_and_dropped_with_all_in_it(server):
    one, other = (postgres.fresh_schema(f"{server.url}?connect_timeout=9&schema=old") for _ in range(2))
    plain, schema = postgres.split_schema(one)
    with psycopg.connect(plain) as connection:
        connection.execute(f"CREATE SCHEMA {schema} CREATE TABLE filled (value integer)")

    postgres.drop_schema(one)
    postgres.drop_schema(one)

    assert one != other
    assert f"{server.url}?connect_timeout=9" == plain
    assert 0 == ask(plain, f"SELECT count(*) FROM pg_namespace WHERE nspname = '{schema}'")


@pytest.mark.parametrize(("ci", "status"), [("", 0), ("true", 1)])
def test_tests_without_a_server_are_skipped_but_never_in_ci(tmp_path, ci, status):
    (tmp_path / "test_absent.py").write_text(
        "from tests.support import postgres\n"
        "def test_absent(monkeypatch):\n"
        "    monkeypatch.setattr(postgres, 'PACKAGE', 'no_such_package')\n"
        "    postgres.need_package()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "tests.conftest", "--rootdir", tmp_path, tmp_path],
        cwd=ROOT,
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )

    assert status == ran.returncode, ran.stdout
    assert "needs PostgreSQL" in ran.stdout


def test_clients_of_a_bouncer_share_a_connection(server):
    bouncer = pgbouncer.Bouncer.begin(postgres.fresh_schema(server.url))
    try:
        with (
            psycopg.connect(bouncer.url, autocommit=True) as one,
            psycopg.connect(bouncer.url, autocommit=True) as other,
        ):
            pids = {each.execute("SELECT pg_backend_pid()").fetchone() for each in (one, other)}

        assert 1 == len(pids)
    finally:
        bouncer.close()
    assert not listens(bouncer.url)
