"""Where the stores of a run are made: files in a folder, or schemas of a PostgreSQL database."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from penstock.bench.floor import floor_rate
from penstock.errors import InvalidError


class StoreFactory(Protocol):
    """Makes and removes stores, and knows how fast bare statements are there."""

    postgres: bool
    driver: str  # what the floor is written in

    @property
    def facts(self) -> Mapping[str, str]:
        """What the stores run on, and how it is set."""
        ...

    @property
    def phrase(self) -> str:
        """The same for people."""
        ...

    def url(self, name: str) -> str:
        """Return where to open the store *name*."""
        ...

    def clear(self, name: str) -> None:
        """Remove the store *name*, if there is one."""
        ...

    def tidy(self, name: str) -> None:
        """Have the store *name* cleaned up after many jobs moved, as a server does by itself within a minute."""
        ...

    def close(self) -> None:
        """Remove all stores that are left."""
        ...

    def floor_rate(self, url: str, count: int, *, once: bool) -> float:
        """Move *count* ready jobs to done with bare statements; return jobs per second."""
        ...


class Files:
    """SQLite stores in a folder that the caller owns."""

    postgres = False
    driver = "sqlite3"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def facts(self) -> Mapping[str, str]:
        return {"sqlite": sqlite3.sqlite_version}

    @property
    def phrase(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def url(self, name: str) -> str:
        return str(self._folder / f"{name}.db")

    def clear(self, name: str) -> None:
        for path in self._folder.glob(f"{name}.db*"):
            path.unlink()

    def tidy(self, name: str) -> None:
        """Do nothing: a file keeps no former rows."""

    def close(self) -> None:
        """Leave them to the folder's owner."""

    def floor_rate(self, url: str, count: int, *, once: bool) -> float:
        return floor_rate(url, count, once=once)


def factory_for(store: str, folder: Path) -> StoreFactory:
    """Return the place that *store* names, a PostgreSQL URL; if it names none, *folder*."""
    if not store:
        return Files(folder)
    if not store.startswith(("postgresql://", "postgres://")):
        raise InvalidError(
            "store",
            f"{store!r} is not postgresql://host/database; without a store SQLite is measured, in a temporary folder",
        )
    try:
        from penstock.bench.schemas import Schemas  # noqa: PLC0415 - not everybody has psycopg
    except ImportError as error:
        problem = f"PostgreSQL needs psycopg: pip install 'penstock[postgres]' ({error})"
        raise InvalidError("store", problem) from error
    return Schemas(store)
