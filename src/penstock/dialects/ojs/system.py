"""Manifest and health."""

import platform
from typing import Any

from penstock import __version__
from penstock.dialects.ojs.names import VERSION
from penstock.edge.access import ANYBODY, OPERATORS
from penstock.edge.routes import Reply, Request, Route
from penstock.errors import StoreError

EXTENSIONS = {
    name: {"supported": True}
    for name in (
        "rate_limiting", "backpressure", "fair_scheduling", "admin_api", "progress", "webhooks", "multi_tenancy",
        "graceful_shutdown", "observability", "dead_letter", "events", "unique_jobs", "workflows", "cron",
    )
}  # fmt: skip


async def manifest(request: Request) -> Reply:
    """Say what this server can do."""
    store = "postgresql" if request.service.engine.store.remote else "sqlite"
    return Reply(
        {
            "specversion": VERSION,
            "ojs_version": VERSION,
            "implementation": {"name": "penstock", "version": __version__, "language": "python"},
            "conformance_level": 4,
            "protocols": ["http"],
            "backend": store,
            "capabilities": {
                "batch_enqueue": True, "cron_jobs": True, "dead_letter": True, "delayed_jobs": True,
                "job_ttl": True, "priority_queues": True, "rate_limiting": True, "schema_validation": False,
                "unique_jobs": True, "workflows": True, "pause_resume": True, "long_poll": True,
            },
            "extensions": EXTENSIONS,
        }
    )  # fmt: skip


async def health(request: Request) -> Reply:
    """Say whether the store can be reached."""
    try:
        await request.service.run(lambda engine: engine.store.read(lambda db: db.one("SELECT 1")))
    except StoreError:
        return Reply(_health(request, "unhealthy"), 503)
    return Reply(_health(request, "ok"))


def _health(request: Request, status: str) -> dict[str, Any]:
    store = "postgresql" if request.service.engine.store.remote else "sqlite"
    return {
        "status": status,
        "version": __version__,
        "ojs_version": VERSION,
        "uptime_seconds": round(request.service.uptime, 3),
        "backend": {"type": store, "status": status},
        "python": platform.python_version(),
    }


async def reset(request: Request) -> Reply:
    """Empty everything: for tests."""
    await request.service.run(lambda engine: engine.reset())
    request.service.forget_all()
    return Reply({"reset": True})


ROUTES = (
    Route("GET", "/ojs/manifest", manifest, ANYBODY, "What this server can do"),
    Route("GET", "/ojs/v1/health", health, ANYBODY, "Is the server well?"),
    Route("GET", "/health", health, ANYBODY, "Is the server well?"),
    Route("GET", "/ready", health, ANYBODY, "Can the server take requests?"),
)
TEST_ROUTES = (Route("POST", "/ojs/v1/admin/reset", reset, OPERATORS, "Empty everything"),)
