"""Words about jobs and gates: errors as JSON, reasons and rules in a few words.  Pure."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Final

from penstock.clock import SECOND
from penstock.job import JobView, UnknownTask
from penstock.lifecycle.outcomes import Again, Failed
from penstock.limits.durations import format_duration
from penstock.limits.gate import Gate
from penstock.limits.groups import Group, Member
from penstock.limits.rules import UNLIMITED, Numbers, Window

LONGEST: Final = 300  # characters of a reason
TOLD: Final = 20  # resources of a group of which each is told


def numbers_plain(numbers: Numbers) -> dict[str, object]:
    """Return numbers by name, as people write them."""
    plain: dict[str, object] = {} if numbers.slots is None else {"slots": numbers.slots}
    for name, window in (("rate", numbers.rate), ("throttle", numbers.throttle)):
        if window is not None:
            burst = f"+{window.burst}" if window.burst > 1 else ""
            plain[name] = f"{window.limit}/{format_duration(window.period)}{burst}"
    return plain


def storable(text: str) -> str:
    """Return *text* without characters that no database can store."""
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def in_short(text: str) -> str:
    """Return the first line of *text*, cut to what fits a table."""
    line = storable(text).strip().partition("\n")[0].rstrip()
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def error_text(outcome: Failed | Again, delay: int | None = None) -> str:
    """Return how an attempt failed as JSON; *delay* is until the next."""
    if isinstance(outcome, Again):
        told: dict[str, object] = {
            "kind": "Retry",
            "message": storable(outcome.reason) or "the handler asked to run again",
        }
    else:
        told = {"kind": outcome.kind, "message": storable(outcome.message), "traceback": outcome.traceback}
        if outcome.details:
            told["details"] = outcome.details
    if delay is not None:
        told["delay"] = delay
    return json.dumps(told)


def between_attempts(outcome: Failed | Again, used: int, attempts: int) -> str:
    """Return why a job waits for its next attempt."""
    if isinstance(outcome, Again):
        how, why = "asked to run again", outcome.reason
    else:
        how, why = "failed", ": ".join(filter(None, (outcome.kind, outcome.message)))
    return in_short(f"attempt {used} of {attempts} {how}" + (f": {why}" if why else ""))


def unasked(since: int) -> str:
    """Return since when no worker has asked for a task."""
    moment = datetime.fromtimestamp(since // SECOND, UTC)
    return f"no worker has asked for it since {moment:%Y-%m-%dT%H:%M:%SZ}"


def unasked_in_words(unknown: UnknownTask) -> str:
    """Return what to do about a task that no worker has asked for."""
    jobs = f"{unknown.waiting} job{'' if unknown.waiting == 1 else 's'} of task {unknown.task!r}"
    return (
        f"{jobs} wait{'s' if unknown.waiting == 1 else ''} in queue {unknown.queue!r}, but {unasked(unknown.since)};"
        " start or deploy a worker that knows the task"
    )


def rate_limited(reason: str) -> str:
    """Return why a job waits whose handler was told "too many"."""
    return in_short("rate limited" + (f": {reason}" if reason else ""))


def not_carried(key: str, keys: Sequence[str], so: str = "nothing was shut") -> str:
    """Return what is wrong with the *key* of a job that has others."""
    has = f"the keys of this job are {', '.join(map(repr, keys))}" if keys else "this job has no keys"
    return f"key: {key!r} is none of its keys, so {so}; {has}"


def too_long(timeout: int) -> Failed:
    """Return how an attempt ends that outlived its timeout."""
    return Failed("timeout", f"the attempt took longer than {format_duration(timeout)}")


def gate_title(kind: str, name: str) -> str:
    """Return what a gate is called: by its key, or by what it limits."""
    return name if kind == "key" else f"{kind} {name}".rstrip()


def scheduled(view: JobView, now: int) -> str:
    """Say why a job is scheduled."""
    if view.due is not None and view.due <= now:
        then = f"; it was put off: {view.reason}" if view.reason else ""
        return f"is due and waits for a worker of queue {view.queue!r}{then}"
    return f"is put off: {view.reason}" if view.reason else "was enqueued for later and is not due yet"


def shut_rule(gate_: Gate, numbers: Numbers, cost: int, now: int) -> str:
    """Say by which rule a gate is shut."""
    if isinstance(gate_, Group):
        return _no_room(gate_, cost, now)
    if gate_.rules is not None and gate_.rules.shut_until > now:
        reason = gate_.rules.shut_reason
        return "shut for now, by a handler or an operator" + (f": {reason}" if reason else "")
    if 0 in (numbers.slots, numbers.rate and numbers.rate.limit, numbers.throttle and numbers.throttle.limit):
        return "paused by a limit of 0; opens when that is raised"
    if numbers.slots is not None and gate_.running >= numbers.slots:
        return _full_slots(gate_.running, numbers.slots)
    full = _full_rate(gate_, numbers.rate, cost, now) if numbers.rate is not None else ""
    spaced = _spaced(numbers.throttle) if numbers.throttle is not None else ""
    return full or spaced or "open, but others come first"


def floating_value(value: int, refreshed: int | None, failures: int, now: int) -> str:
    """Say how old a floating value is."""
    if refreshed is None:
        age = "and was not computed yet"
    else:
        seconds = max(now - refreshed, 0) // SECOND
        age = f"and was computed {format_duration(seconds * SECOND) + ' ago' if seconds else 'just now'}"
    failed = f"; {failures} {'try' if failures == 1 else 'tries'} failed since" if failures else ""
    return f"the {value} floats {age}{failed}"


def _no_room(group: Group, cost: int, now: int) -> str:
    """Say what keeps each resource of a group."""
    if not group.members:
        return "has no resources; opens when one is added"
    told = [f"{m.resource.key}: {_state(m, cost, now)}" for m in group.members[:TOLD]]
    more = len(group.members) - len(told)
    return ", ".join(told) + (f", and {more} more" if more else "")


def _state(member: Member, cost: int, now: int) -> str:
    gate, daily = member.gate, member.resource.daily
    if not member.resource.enabled:
        return "disabled"
    if daily is not None and not member.has_day(now):
        day = daily.day(now)
        return f"{member.days.on(day)} of {daily.on(day)} starts on {date.fromordinal(day)} ({daily.zone})"
    if gate.opens_at(UNLIMITED, cost, now) > now:
        return shut_rule(gate, gate.numbers(UNLIMITED, now), cost, now)
    return "has room"


def _spaced(throttle: Window) -> str:
    burst = f" after a burst of {throttle.burst}" if throttle.burst > 1 else ""
    return f"starts {format_duration(throttle.gap)} apart{burst}"


def _full_slots(running: int, slots: int) -> str:
    if running == slots:
        return f"{running} running of {slots} at once; opens when one ends"
    # The number was lowered while they ran, or others brought a larger one.
    return f"{running} running, and only {slots} may at once; opens when {running - slots + 1} have ended"


def _full_rate(gate_: Gate, rate: Window, cost: int, now: int) -> str:
    used = gate_.starts.since(now - rate.period) if gate_.starts else 0
    if cost > rate.limit:
        return f"costs {cost}, more than the {rate.limit} it may; opens when that is raised"
    if used + cost <= rate.limit:
        return ""
    period = format_duration(rate.period)
    if used > rate.limit:
        # It was lowered since, or others brought a larger one.
        starts = "start" if rate.limit == 1 else "starts"
        return f"allows {rate.limit} {starts} per {period}; {used} were made when it allowed more"
    return f"{used} of {rate.limit} starts per {period}" + (f", and it costs {cost}" if cost > 1 else "")
