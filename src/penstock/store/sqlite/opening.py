"""Open a file, unless it belongs to another program."""

import sqlite3
from pathlib import Path
from typing import Final

from penstock.errors import StoreDownError
from penstock.store.sqlite.errors import is_damage, patiently
from penstock.store.sqlite.files import Files

MARK: Final = 0x50454E53  # "PENS": the mark of a penstock database
LEAST_VERSION: Final = (3, 35, 0)
_MARKED: Final = slice(68, 72)  # where the mark stands in a file
_OURS: Final = b"CREATE TABLE gate_memory"  # still there if the first page of a file is lost
_BEGINNING: Final = 1024 * 1024


def connect(files: Files) -> sqlite3.Connection:
    """Return a connection to the database in *files*, ready for use."""
    if sqlite3.sqlite_version_info < LEAST_VERSION:
        raise StoreDownError(f"SQLite {sqlite3.sqlite_version} is too old; penstock needs 3.35 or later")
    connection = None
    try:
        connection = sqlite3.connect(
            files.place, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=512
        )
        _set_up(connection, files)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.Error):
            raise files.told(error) from error
        raise
    return connection


def _set_up(connection: sqlite3.Connection, files: Files) -> None:
    patiently(lambda: _refuse_strangers(connection, files), files.path)
    patiently(lambda: connection.execute("PRAGMA journal_mode = WAL"), files.path)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA cache_size = -16000")
    connection.execute("PRAGMA temp_store = MEMORY")


def _refuse_strangers(connection: sqlite3.Connection, files: Files) -> None:
    try:
        # The tables first: another process may be making them, and commits them together with the mark.
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.DatabaseError as error:
        if not is_damage(error) or _was_ours(files.place):
            raise
        raise StoreDownError(
            f"{files.path} is not a penstock database ({error}); name another file, or put a copy back if it was one"
        ) from error
    if tables and mark != MARK:
        raise StoreDownError(f"{files.path} is a database of something else; name another file")


def _was_ours(path: str) -> bool:
    # Lets go of the locks that this process may have on it: SQLite cannot read it any more.
    with Path(path).open("rb") as file:
        beginning = file.read(_BEGINNING)
    return beginning[_MARKED] == MARK.to_bytes(4, "big") or _OURS in beginning
