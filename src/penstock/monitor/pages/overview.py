"""The overview: how much runs, waits and is scheduled."""

from msgspec import Struct

from penstock.job import Totals
from penstock.monitor.page import View
from penstock.monitor.requests import Query


class Overview(Struct):
    """How much runs, waits and is scheduled."""

    totals: Totals


def show(view: View, _: Query) -> Overview:
    """Return the overview."""
    return Overview(view.engine.totals(view.tenant))
