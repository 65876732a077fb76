"""The engine: one verb, one transaction."""

from penstock.clock import Clock
from penstock.engine.engine import Engine
from penstock.engine.leases import GUARD
from penstock.errors import InvalidError
from penstock.store.session import Store
from penstock.store.sqlite import SqliteStore

__all__ = ["GUARD", "Engine", "open_engine"]


def open_engine(url: str, *, clock: Clock | None = None, turns: bool = True, migrate: bool = True) -> Engine:
    """Open the store at *url*: a path, `sqlite:///path`, `:memory:` or `postgresql://host/database`."""
    return Engine(_open_store(url, migrate=migrate), clock, turns=turns)


def _open_store(url: str, *, migrate: bool) -> Store:
    scheme, found, rest = url.partition("://")
    if not found:
        return SqliteStore(url, migrate=migrate)
    if scheme == "sqlite":
        return SqliteStore(rest.removeprefix("/"), migrate=migrate)
    if scheme in {"postgresql", "postgres"}:
        try:
            from penstock.store.postgres import PostgresStore, address  # noqa: PLC0415 - it is optional
        except ImportError as error:
            problem = f"PostgreSQL needs psycopg: pip install 'penstock[postgres]' ({error})"
            raise InvalidError("url", problem) from error
        return PostgresStore(address(url), migrate=migrate)
    if scheme in {"http", "https"}:
        raise InvalidError("url", f"{scheme}:// is a server and no database; an App or a Client can use it")
    raise InvalidError(
        "url",
        f"{scheme}:// is not a store this version knows; use a path, sqlite:///path, :memory:, "
        "postgresql://host/database or a server's http://host:8080",
    )
