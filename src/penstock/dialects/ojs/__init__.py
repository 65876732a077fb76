"""The Open Job Spec over HTTP, with its extensions: its words for what `http` and the engine do."""

from dataclasses import replace
from typing import Final

from penstock.dialects.ojs.events.event_format import STRATEGIES
from penstock.dialects.ojs.events.webhook_dispatcher import WebhookDispatcher
from penstock.dialects.ojs.format.errors import answer
from penstock.dialects.ojs.format.names import MEDIA, VERSION
from penstock.dialects.ojs.format.parameters import QUERY_SCHEMAS, path_schema
from penstock.dialects.ojs.format.responses import ErrorAnswer
from penstock.dialects.ojs.format.states import SPEC_STATE
from penstock.dialects.ojs.routes import (
    admin_bulk,
    admin_jobs,
    admin_queues,
    admin_stats,
    admin_workers,
    cron,
    dead_letter,
    events,
    jobs,
    maintenance,
    pools,
    progress,
    queue_limits,
    queues,
    rate_limits,
    system,
    tenants,
    webhooks,
    workers,
    workflows,
)
from penstock.http.dialect import Dialect, MetricNames

_BELOW: Final = (
    workers,
    jobs,
    progress,
    cron,
    rate_limits,
    queues,
    queue_limits,
    pools,
    workflows,
    dead_letter,
    events,
    webhooks,
    admin_stats,
    admin_queues,
    admin_jobs,
    admin_bulk,
    admin_workers,
    tenants,
    maintenance,
)
DIALECT: Final = Dialect(
    name="ojs",
    title="the Open Job Spec",
    paths=("/ojs/", "/health", "/ready", "/metrics"),
    routes=(
        *(replace(route, path=f"/ojs/v1{route.path}") for each in _BELOW for route in each.ROUTES),
        *system.ROUTES,
    ),
    error=answer,
    error_shape=ErrorAnswer,
    media=MEDIA,
    headers={"OJS-Version": VERSION},
    tenant_header="X-OJS-Tenant",
    sockets=events.SOCKETS,
    test_routes=system.TEST_ROUTES,
    metrics=MetricNames(
        "/metrics",
        "ojs",
        task="job_type",
        limit="rate_limit",
        rule="strategy",
        states={name: SPEC_STATE[name] for name in ("waiting", "running", "scheduled")},
        rules=STRATEGIES,
    ),
    path_schema=path_schema,
    query_schemas=QUERY_SCHEMAS,
    attach=WebhookDispatcher,
)
