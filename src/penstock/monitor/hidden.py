"""Keep secrets from viewers: what jobs and runs were given and came to whose `meta` says `"secret": true`.

Of an error only its kind is no secret: its message, its traceback and the reasons that handlers give may hold
arguments.  `meta` holds results of the steps before.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from penstock.http.codec import decode
from penstock.job import SECRET, EntryView, GateDetail, InstanceView, JobView, PastAttempt
from penstock.monitor.page import View

HIDDEN: Final = "(hidden)"
_ELSEWHERE: Final = (
    "job",
    "child",
)  # entries that have a page of their own, which knows whether they are secret


def is_hidden(view: View, meta: str) -> bool:
    """Tell whether the values of a job with such *meta* are not for this visitor."""
    if view.operator or SECRET not in meta:
        return False
    try:
        fields = decode(meta)
    except msgspec.DecodeError:
        return True
    return isinstance(fields, dict) and bool(fields.get(SECRET))


def in_line(view: View, detail: GateDetail) -> GateDetail:
    """Return a gate whose line shows no arguments that are not for this visitor."""
    line = [replace(job, args=HIDDEN) if is_hidden(view, job.meta) else job for job in detail.line]
    return replace(detail, line=[replace(job, meta="") for job in line])


def job(view: View, shown: JobView) -> JobView:
    """Return a job without what is not for this visitor."""
    if not is_hidden(view, shown.meta):
        return shown
    error = _without_texts(shown.error)
    return dataclasses.replace(
        shown, args=HIDDEN, meta="{}", result=None, progress=None, reason="", error=error
    )


def attempt(past: PastAttempt) -> PastAttempt:
    """Return an attempt at a secret job without what it returned, and without what it said when it failed."""
    return replace(past, result=None, reason="", error=_without_texts(past.error))


def instance(view: View, shown: InstanceView) -> InstanceView:
    """Return an instance without what is not for this visitor: what steps came to is on pages of their own."""
    if view.operator:
        return shown
    secret = is_hidden(view, shown.meta)
    steps = (_entry(entry) if secret or entry.kind in _ELSEWHERE else entry for entry in shown.steps)
    shown = replace(shown, steps=tuple(steps))
    if not secret:
        return shown
    error = _without_texts(shown.error)
    return replace(shown, args=HIDDEN, meta="{}", result=None, reason="", error=error)


def _entry(entry: EntryView) -> EntryView:
    return replace(entry, result=None, error=_without_texts(entry.error))


def _without_texts(error: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if error is None:
        return None
    kept = {name: error[name] for name in ("kind", "delay") if name in error}
    return {**kept, "message": HIDDEN}
