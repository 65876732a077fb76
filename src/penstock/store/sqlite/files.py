"""The files of a database: are they still the ones that were opened, and can they be read?

SQLite goes on writing to a file that was removed or replaced, and all that is lost.  So the files are looked for
by name after each commit, before a caller hears of it: a look before the commit would miss what happens between
the two.
"""

import os
import sqlite3
import threading
from pathlib import Path
from typing import Final

from penstock.clock import MILLISECOND, monotonic
from penstock.errors import (
    StoreBrokenError,
    StoreDamagedError,
    StoreDownError,
    StoreError,
    StoreReplacedError,
)
from penstock.store.sqlite.errors import is_damage, translated

# Reads and waits look no more often than this.
GLANCE: Final = 50 * MILLISECOND
# Closing a file lets go of all locks that this process has on it, so no thread opens a file that another creates.
_creating: Final = threading.Lock()

Identity = tuple[int, int]


class Files:
    """The database at *path*, its log and its index.  Once one is lost or damaged, each use raises that."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.broken: StoreBrokenError | None = None
        self._known: dict[str, Identity | None] = {}
        self._looked = 0
        self.place = path  # by which it is opened
        if path != ":memory:":
            # The working directory may change.
            self.place = str(Path(path).absolute())
            _create(Path(self.place), path)
            # Before it is opened, so that one which is replaced meanwhile is noticed.
            self._known[self.place] = self._identity(self.place)

    def remember(self, connection: sqlite3.Connection) -> None:
        """Remember the log and its index too, now that *connection* has opened them."""
        (file,) = (file for _, name, file in connection.execute("PRAGMA database_list") if name == "main")
        if file:
            self._known |= {name: self._identity(name) for name in (f"{file}-wal", f"{file}-shm")}
        self.check()

    def check(self) -> None:
        """Raise `StoreReplacedError` unless every file stands where it was opened."""
        if self.broken is not None:
            raise self.broken.with_traceback(None)
        for name, known in self._known.items():
            if (found := self._identity(name)) != known and self._known:
                self.broken = StoreReplacedError(name, "replaced" if found else "removed")
                raise self.broken
        self._looked = monotonic()

    def forget(self) -> None:
        """Look for no file any more: SQLite removes the log when the last connection is closed."""
        self._known = {}

    def glance(self) -> None:
        """Check unless that was done just now."""
        if self.broken is not None or monotonic() - self._looked >= GLANCE:
            self.check()

    def told(self, error: sqlite3.Error) -> StoreError:
        """Return the error to raise for *error*."""
        try:
            # What SQLite complains of may come of files that are not those it opened.
            self.check()
        except StoreError as cause:
            return cause
        return self.damaged([str(error)]) if is_damage(error) else translated(error, self.path)

    def damaged(self, found: list[str]) -> StoreDamagedError:
        """Remember and return that SQLite *found* damage."""
        self.broken = StoreDamagedError(self.path, found)
        return self.broken

    def _identity(self, name: str) -> Identity | None:
        try:
            found = os.stat(name)  # noqa: PTH116 - three times in every transaction
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StoreDownError(f"cannot look for the database {self.path}: {error}") from error
        return found.st_dev, found.st_ino


def _create(place: Path, path: str) -> None:
    """Make an empty file that only its owner may read, unless there is one."""
    if path.startswith("file:"):
        raise StoreDownError(f"{path} is a URI; name the file itself, as in jobs.db")
    if not place.parent.is_dir():
        raise StoreDownError(
            f"the folder {Path(path).parent} of the database {place.name} does not exist; create it first"
        )
    try:
        with _creating:
            os.close(os.open(place.resolve(), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        pass  # it keeps its mode
    except OSError as error:
        raise StoreDownError(
            f"cannot create the database {path}: {error.strerror}; check the path and its permissions"
        ) from error
