"""Open a file, unless it is somebody else's."""

import sqlite3
from pathlib import Path
from typing import Final

from penstock.errors import StoreDownError
from penstock.store.sqlite.trouble import patiently, translated

MARK: Final = 0x50454E53  # "PENS", by which a file is known as ours
LEAST_VERSION: Final = (3, 35, 0)


def connect(path: str) -> sqlite3.Connection:
    """Return a connection to the database at *path*, ready for use."""
    if sqlite3.sqlite_version_info < LEAST_VERSION:
        raise StoreDownError(f"SQLite {sqlite3.sqlite_version} is too old; penstock needs 3.35 or later")
    folder, name = Path(path).parent, Path(path).name
    if path != ":memory:" and not folder.is_dir():
        raise StoreDownError(f"the folder {folder} of the database {name} does not exist; create it first")
    connection = None
    try:
        connection = sqlite3.connect(
            path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=512
        )
        _set_up(connection, path)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.Error):
            raise translated(error, path) from error
        raise
    return connection


def _set_up(connection: sqlite3.Connection, path: str) -> None:
    patiently(lambda: _refuse_strangers(connection, path), path)
    patiently(lambda: connection.execute("PRAGMA journal_mode = WAL"), path)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA cache_size = -16000")
    connection.execute("PRAGMA temp_store = MEMORY")


def _refuse_strangers(connection: sqlite3.Connection, path: str) -> None:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    if tables and mark != MARK:
        raise StoreDownError(f"{path} is a database of something else; name another file")
