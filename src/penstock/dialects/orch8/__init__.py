"""Sequences, instances, rate limits and workers by the names of Orch8: its words for what the engine does."""

from dataclasses import replace
from typing import Final

from penstock.dialects.orch8.format.errors import ErrorShape, answer
from penstock.dialects.orch8.handlers.server_worker import ServerWorker
from penstock.dialects.orch8.routes import (
    approvals,
    cron,
    instance_actions,
    instances,
    pools,
    rate_limits,
    sequences,
    worker_tasks,
)
from penstock.http.dialect import Dialect, MetricNames
from penstock.http.tenancy import unquoted_tenant

_ROUTES: Final = tuple(
    route
    for each in (sequences, instances, instance_actions, rate_limits, pools, worker_tasks, approvals, cron)
    for route in each.ROUTES
)
_BELOW: Final = "/api/v1"
_NUMBER: Final = {"type": "integer", "minimum": 0, "maximum": 1_000_000}
DIALECT: Final = Dialect(
    name="orch8",
    title="sequences and instances",
    paths=(
        f"{_BELOW}/", "/sequences", "/instances", "/rate-limits", "/pools", "/workers/tasks", "/approvals", "/cron",
    ),
    routes=(*_ROUTES, *(replace(route, path=f"{_BELOW}{route.path}") for route in _ROUTES)),
    error=answer,
    error_shape=ErrorShape,
    tenant_header="X-Tenant-Id",
    read_tenant=unquoted_tenant,
    metrics=MetricNames(
        f"{_BELOW}/metrics", "orch8", task="handler", limit="rate_limit", rule="rule", workflow="sequence"
    ),
    query_schemas={"limit": {**_NUMBER, "minimum": 1, "maximum": 1_000}, "offset": _NUMBER},
    tag="sequences",
    pages={
        "/sequences": "/workflows", "/instances": "/workflows", "/rate-limits": "/gates", "/pools": "/queues",
        "/cron": "/schedules",
    },
    attach=ServerWorker,
)  # fmt: skip
