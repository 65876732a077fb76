"""One call: whose it is, and what it may do."""

from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

import grpc

from penstock.dialects.silo.errors import CallError, invalid
from penstock.dialects.silo.limits import check_name
from penstock.dialects.silo.new_job import LONGEST_NAME
from penstock.dialects.silo.stored import SHARD, stored_tenant
from penstock.http.access import Access
from penstock.http.engine_service import Claims, EngineService
from penstock.http.tenancy import tenant_of


@dataclass(frozen=True, slots=True)
class Node:
    """This server, as clients are told of it."""

    id: str
    address: str


@dataclass(slots=True, eq=False)
class Call:
    """A call whose token is known."""

    service: EngineService
    access: Access
    node: Node
    claims: Claims = field(default_factory=Claims)

    def tenant(self, sent: "NamesTenant") -> str:
        """Return the engine's name of the tenant that a call is about."""
        name = sent.tenant
        if not name:
            return self.access.tenant or ""
        if len(name) > LONGEST_NAME:
            raise invalid("invalid tenant id")
        return tenant_of(self.access, stored_tenant(check_name("tenant", name))) or ""

    def check_shard(self, shard: str) -> None:
        """Raise if a call is meant for a shard of another system; none given is the one there is."""
        if shard in {"", SHARD}:
            return
        try:
            other = str(UUID(shard)) != SHARD
        except ValueError:
            raise invalid(f"invalid shard ID: {shard[:LONGEST_NAME]!r}") from None
        if other:
            owner = ("x-silo-shard-owner-addr", self.node.address)
            raise CallError(grpc.StatusCode.NOT_FOUND, "shard not found", owner)


class NamesTenant(Protocol):
    """A message that may name a tenant."""

    @property
    def tenant(self) -> str: ...
