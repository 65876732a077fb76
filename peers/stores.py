"""Fresh stores: a database of the one server, a file, or an emptied Redis."""

import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Self
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from peers.environments import NotInstalledError, redis_server
from peers.slow_flush import slow_server
from tests.support.postgres import Server

SLOW: Final = "postgres, slow flush"
_PATIENCE: Final = 500  # looks, a hundredth of a second apart


class Stores:
    """The servers of a run, and a folder for files."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="penstock-peers-")))
        # As it comes: fsync and synchronous_commit are on by default.
        server = Server.begin(durable=True)
        self._stack.callback(server.close)
        self._url = server.url
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def settings(self) -> dict[str, str]:
        """What makes the server durable, as it says itself."""
        names = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers")
        with psycopg.connect(self._url) as connection:
            return {name: connection.execute(f"SHOW {name}").fetchone()[0] for name in names}

    @contextmanager
    def fresh(self, kind: str) -> Iterator[str]:
        """Yield where a new and empty store of *kind* is."""
        if kind == "postgres":
            with _database(self._url) as url:
                yield url
        elif kind == SLOW:
            with _database(self._slow) as url:
                yield url
        elif kind == "sqlite":
            with TemporaryDirectory(dir=self.folder) as folder:
                yield str(Path(folder) / "jobs.db")
        else:
            yield self._redis

    def look_over(self, kind: str, url: str) -> None:
        """Give the server the statistics that autovacuum would have gathered had the jobs been there for a minute."""
        if kind == "postgres":
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("ANALYZE")

    @cached_property
    def _slow(self) -> str:
        return self._stack.enter_context(slow_server())

    @cached_property
    def _redis(self) -> str:
        try:
            program = redis_server()
        except NotInstalledError as error:
            raise NotInstalledError(f"no Redis: {error}") from error
        port = _free_port()
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", self.folder]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self._stack.callback(server.wait)
        self._stack.callback(server.terminate)
        for _ in range(_PATIENCE):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return f"redis://127.0.0.1:{port}/0"
            time.sleep(0.01)
        raise NotInstalledError("no Redis: it does not start")


@contextmanager
def _database(server: str) -> Iterator[str]:
    name = f"bench_{secrets.token_hex(4)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        # The last one's leftovers are written now, not during the next one's work.
        connection.execute("CHECKPOINT")
        try:
            yield urlsplit(server)._replace(path=f"/{name}").geturl()
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
