"""Actions on workers: take no more, go on, stop."""

from typing import Final

from penstock.job import Count
from penstock.monitor.actions.action import Action, Order
from penstock.monitor.actions.fields import TENANT, Field, as_text

_NAMES: Final = (Field("worker", "Worker", as_text, needed=True), TENANT)


def _touches(order: Order) -> Count:
    name = order.values["worker"]
    found = (each.report for each in order.engine.workers(order.tenant))
    return Count(next((report.running for report in found if report.name == name), 0))


def _quiet(order: Order) -> None:
    order.engine.ask_worker(order.values["worker"], "quiet", tenant=order.tenant)


def _resume(order: Order) -> None:
    order.engine.ask_worker(order.values["worker"], "running", tenant=order.tenant)


def _stop(order: Order) -> None:
    order.engine.ask_worker(order.values["worker"], "terminate", tenant=order.tenant)


ACTIONS: Final = (
    Action(
        "/workers/quiet", "worker", "Quiet", "Quiet a worker",
        "The worker claims nothing more, and finishes what it runs. It hears of this within ten seconds.",
        "The worker is asked to claim nothing.", "/workers", _quiet, _NAMES, touches=_touches,
    ),
    Action(
        "/workers/resume", "worker", "Resume", "Resume a worker",
        "The worker claims jobs again. It hears of this within ten seconds.",
        "The worker is asked to go on.", "/workers", _resume, _NAMES, touches=_touches,
    ),
    Action(
        "/workers/stop", "worker", "Stop", "Stop a worker",
        "The worker claims nothing more, finishes what it runs and ends. It hears of this within ten seconds.",
        "The worker is asked to stop.", "/workers", _stop, _NAMES, touches=_touches, grave=True,
    ),
)  # fmt: skip
