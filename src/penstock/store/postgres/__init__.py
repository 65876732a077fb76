"""Penstock on PostgreSQL, shared by any number of machines."""

from penstock.store.postgres.address import Address, address
from penstock.store.postgres.store import PostgresStore

__all__ = ["Address", "PostgresStore", "address"]
