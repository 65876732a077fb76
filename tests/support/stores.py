"""Stores that are new in no time, and tests of every store that have something to say of one only."""

import atexit
import functools
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from penstock.store import migrations
from penstock.store.sqlite.store import SqliteStore

on_sqlite = pytest.mark.parametrize("store", ["sqlite"], indirect=True)
on_postgres = pytest.mark.parametrize("store", ["postgres"], indirect=True)
# The same for tests of a server of every store.
server_on_sqlite = pytest.mark.parametrize("address", ["sqlite"], indirect=True)

_migrate = SqliteStore.migrate


def new_file(path: Path) -> str:
    """Make a new store at *path*; return its address.  To copy one is quicker than to take all steps again."""
    shutil.copyfile(_a_store(), path)
    return str(path)


def copy_in_memory(store: SqliteStore) -> list[str]:
    """Be `SqliteStore.migrate`, which in memory need not take all steps again for every store."""
    if not store._memory:
        return _migrate(store)
    _steps_in_memory(tuple(migrations.names())).backup(store.connection)
    return migrations.names()


@functools.cache
def _a_store() -> Path:
    path = Path(tempfile.mkdtemp(prefix="penstock-store-")) / "jobs.db"
    atexit.register(shutil.rmtree, path.parent, ignore_errors=True)
    with closing(SqliteStore(str(path))):
        pass
    return path


@functools.cache
def _steps_in_memory(_names: tuple[str, ...]) -> sqlite3.Connection:
    copy = sqlite3.connect(":memory:", check_same_thread=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SqliteStore, "migrate", _migrate)
        with closing(SqliteStore(":memory:")) as store:
            store.connection.backup(copy)
    return copy
