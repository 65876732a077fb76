"""Penstock on one SQLite file, shared by any number of threads and processes of one machine."""

from penstock.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
