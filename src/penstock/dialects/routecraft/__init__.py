"""Routecraft's words: routes with `.concurrency()`, `.throttle()` and the rest, its events, and its error codes."""

from penstock.dialects.routecraft.endpoints import HttpFailed, Jobs, http
from penstock.dialects.routecraft.errors import InvalidRouteError
from penstock.dialects.routecraft.route import Exchange, Route

__all__ = ["Exchange", "HttpFailed", "InvalidRouteError", "Jobs", "Route", "http"]
