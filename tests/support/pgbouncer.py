"""A PgBouncer before a PostgreSQL server: every transaction may meet another connection."""

import atexit
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.postgres import disown, free_port, split_schema, unprivileged

BOUND = 10.0
# Its standard input is ours alone to hold, so it reads the end of it when we end, however we end.
KEEPER = '"$1" "$2/ini" 2>"$2/log" & read -r _; kill -KILL $!; wait; rm -rf "$2"'


class Bouncer:
    """A PgBouncer on loopback that pools by transaction."""

    def __init__(self, server_url: str) -> None:
        program = _program()
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-pgbouncer-"))
        disown(self._folder)
        port = free_port()
        server = {"port": "5432", **conninfo_to_dict(split_schema(server_url)[0])}
        names = [name for name in ("host", "port", "user", "password") if name in server]
        target = " ".join(f"{name}={server[name]}" for name in names)
        (self._folder / "ini").write_text(
            f"""
            [databases]
            {server["dbname"]} = {target}

            [pgbouncer]
            listen_addr = 127.0.0.1
            listen_port = {port}
            unix_socket_dir =
            auth_type = any
            pool_mode = transaction
            default_pool_size = 20
            max_client_conn = 500
            """
        )
        self._address = ("127.0.0.1", port)
        self.url = f"postgresql://{server['user']}@127.0.0.1:{port}/{server['dbname']}"
        self._keeper = subprocess.Popen(
            ["sh", "-c", KEEPER, "keeper", program, self._folder],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **unprivileged(),
        )

    @classmethod
    def begin(cls, server_url: str) -> "Bouncer":
        """Stand before the server at *server_url*."""
        bouncer = cls(server_url)
        atexit.register(bouncer.close)
        within = time.monotonic() + BOUND
        while not bouncer._listens():
            if time.monotonic() > within:
                said = (bouncer._folder / "log").read_text()
                bouncer.close()
                raise RuntimeError(f"pgbouncer does not start:\n{said}")
            time.sleep(0.01)
        return bouncer

    def close(self) -> None:
        """Stop and remove everything."""
        atexit.unregister(self.close)
        self._keeper.stdin.close()
        self._keeper.wait(BOUND)

    def _listens(self) -> bool:
        with socket.socket() as caller:
            return caller.connect_ex(self._address) == 0


def _program() -> str:
    # Debian puts it where only root's PATH leads.
    found = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
    return found or pytest.skip("needs PgBouncer (Debian: apt-get install pgbouncer)")
