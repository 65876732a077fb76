"""Penstock's own verbs over HTTP, for its own workers and clients: `POST /penstock/v1/{verb}`."""

from penstock.dialects.native import admin, attempts, jobs, session
from penstock.http.routes import Route

ROUTES: tuple[Route, ...] = (*attempts.ROUTES, *jobs.ROUTES, *admin.ROUTES, *session.ROUTES)
