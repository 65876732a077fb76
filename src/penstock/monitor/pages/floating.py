"""Floating limits: numbers of slots that workers compute."""

from msgspec import Struct

from penstock.job import FloatingView, Place
from penstock.monitor.page import View
from penstock.monitor.pages.schedules import place
from penstock.monitor.requests import Query


class Floating(Struct):
    """Floating limits by tenant and key; *after* is where the list goes on."""

    limits: list[FloatingView]
    after: Place | None


def show(view: View, query: Query) -> Floating:
    """Return floating limits."""
    page = view.engine.floating_page(tenant=view.tenant, after=place(view, query))
    return Floating(page.limits, page.after)
