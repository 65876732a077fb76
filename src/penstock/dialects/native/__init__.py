"""Penstock's own verbs over HTTP, for its own workers and clients: `POST /penstock/v1/{verb}`."""

from penstock.dialects.native import jobs, rules, waiting, work
from penstock.edge.routes import Route

ROUTES: tuple[Route, ...] = (*work.ROUTES, *jobs.ROUTES, *rules.ROUTES, *waiting.ROUTES)
