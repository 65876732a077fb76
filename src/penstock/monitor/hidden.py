"""Keep secrets from viewers: the arguments and results of jobs whose `meta` says `"secret": true`."""

from typing import Final

import msgspec
from msgspec.structs import replace

from penstock.http.codec import decode
from penstock.job import GateDetail, PastAttempt
from penstock.monitor.page import View

HIDDEN: Final = "(hidden)"
SECRET: Final = "secret"  # noqa: S105 - the name of a field


def is_hidden(view: View, meta: str) -> bool:
    """Tell whether arguments and result of a job with such *meta* are not for this visitor."""
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


def without_result(attempt: PastAttempt) -> PastAttempt:
    """Return an attempt without what it returned."""
    return replace(attempt, result=None)
