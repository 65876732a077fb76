"""Make the job that a call comes to."""

from collections.abc import Mapping

from penstock.app.options import Options
from penstock.job import NewJob
from penstock.limits.spec import resolve
from penstock.tracing import noted


def new_job(
    task: str,
    options: Options,
    text: str,
    arguments: Mapping[str, object],
    now: int,
) -> NewJob:
    """Return the job of a call of *task* at *now*: *text* is the call as JSON, *arguments* are its values by name."""
    return NewJob(
        task,
        text,
        options.queue,
        options.tenant,
        options.id,
        options.priority,
        resolve(options.limits, arguments) if options.limits else (),
        options.cost if isinstance(options.cost, int) else options.cost(arguments),
        None if options.due is None else options.due.at(now),
        None if options.expires is None else options.expires.at(now),
        options.timeout,
        options.retry,
        None
        if options.unique is None
        else options.unique.of_call(task, arguments, options.quiet, options.max_wait),
        noted(options.meta),
    )
