"""The Open Job Spec over HTTP, with its extensions: translates, and never decides."""

from penstock.dialects.ojs.events.webhook_dispatcher import WebhookDispatcher
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
from penstock.http.routes import Route
from penstock.http.service import Service
from penstock.http.sockets import SocketRoute

ROUTES: tuple[Route, ...] = (
    *workers.ROUTES,
    *jobs.ROUTES,
    *progress.ROUTES,
    *cron.ROUTES,
    *rate_limits.ROUTES,
    *queues.ROUTES,
    *queue_limits.ROUTES,
    *pools.ROUTES,
    *workflows.ROUTES,
    *dead_letter.ROUTES,
    *events.ROUTES,
    *webhooks.ROUTES,
    *admin_stats.ROUTES,
    *admin_queues.ROUTES,
    *admin_jobs.ROUTES,
    *admin_bulk.ROUTES,
    *admin_workers.ROUTES,
    *tenants.ROUTES,
    *maintenance.ROUTES,
    *system.ROUTES,
)
TEST_ROUTES: tuple[Route, ...] = system.TEST_ROUTES
SOCKETS: tuple[SocketRoute, ...] = events.SOCKETS


def attach(service: Service) -> None:
    """Have what this dialect does by itself begin and end with the service."""
    WebhookDispatcher(service)
