"""Manifest and health."""

import platform
from typing import Any, Final

from penstock import __version__
from penstock.dialects.ojs.format.names import VERSION
from penstock.errors import StoreError
from penstock.http.access import OPERATORS, PUBLIC
from penstock.http.routes import Reply, Request, Route

# What is there beyond the core; the core is named by its level and its capabilities.
OFFICIAL: Final = (
    "rate-limiting", "backpressure", "fair-scheduling", "admin-api", "dead-letter", "progress", "webhooks",
    "graceful-shutdown", "observability",
)  # fmt: skip
EXPERIMENTAL: Final = ("multi-tenancy",)


async def manifest(request: Request) -> Reply:
    """Return the manifest: what this server can do."""
    store = "postgresql" if request.service.engine.store.remote else "sqlite"
    return Reply(
        {
            "specversion": VERSION,
            "ojs_version": VERSION,
            "implementation": {"name": "penstock", "version": __version__, "language": "python"},
            "conformance_level": 4,
            "conformance_tier": "runtime",
            "protocols": ["http"],
            "backend": store,
            "capabilities": {
                "batch_enqueue": True, "cron_jobs": True, "dead_letter": True, "delayed_jobs": True,
                "job_ttl": True, "priority_queues": True, "rate_limiting": True, "schema_validation": False,
                "unique_jobs": True, "workflows": True, "pause_resume": True, "long_poll": True,
            },
            "extensions": {
                "official": [_extension(name, "urn:ojs:ext", "1.0.0-rc.1") for name in OFFICIAL],
                "experimental": [_extension(name, "urn:ojs:ext:experimental", "0.1.0") for name in EXPERIMENTAL],
            },
            "schema_validation": False,
            "unique_job_strength": "strong",
        }
    )  # fmt: skip


def _extension(name: str, home: str, version: str) -> dict[str, str]:
    return {"name": name, "uri": f"{home}:{name}", "version": version}


async def health(request: Request) -> Reply:
    """Tell whether the store can be reached."""
    try:
        await request.service.run(lambda engine: engine.store.read(lambda _: None))
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
    Route("GET", "/ojs/manifest", manifest, PUBLIC, "What this server can do"),
    Route("GET", "/ojs/v1/health", health, PUBLIC, "Is the server well?"),
    Route("GET", "/health", health, PUBLIC, "Is the server well?"),
    Route("GET", "/ready", health, PUBLIC, "Can the server take requests?"),
)
TEST_ROUTES = (Route("POST", "/ojs/v1/admin/reset", reset, OPERATORS, "Empty everything"),)
