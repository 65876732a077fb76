"""The engine: one verb, one transaction."""

from penstock.clock import Clock
from penstock.engine.claim import START_GRACE
from penstock.engine.engine import LEASE, Engine
from penstock.engine.settle import GUARD
from penstock.errors import StoreDownError
from penstock.store.sqlite import SqliteStore

__all__ = ["GUARD", "LEASE", "START_GRACE", "Engine", "open_engine"]


def open_engine(url: str, *, clock: Clock | None = None, turns: bool = True, migrate: bool = True) -> Engine:
    """Open the store at *url*: a path, `sqlite:///path` or `:memory:`."""
    scheme, found, rest = url.partition("://")
    if found and scheme != "sqlite":
        raise StoreDownError(
            f"{scheme}:// is not a store this version knows; use a path, sqlite:///path or :memory:"
        )
    path = rest.removeprefix("/") if found else url
    return Engine(SqliteStore(path, migrate=migrate), clock, turns=turns)
