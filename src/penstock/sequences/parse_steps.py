"""Read the fields of a step.  Pure."""

from datetime import date, datetime, time
from typing import Final

from penstock.errors import InvalidError
from penstock.lifecycle.retry import MAX_ATTEMPTS, RetryPolicy
from penstock.sequences.blocks import Action, Choice, Condition, Delay, SendWindow, Step, Tree, Wait
from penstock.sequences.reading import (
    Fields,
    condition,
    each,
    flag,
    handler,
    identifier,
    name,
    number,
    params,
    some_time,
    span,
    template,
    text,
    tree,
    whole,
    zone,
)
from penstock.sequences.values import to_text

ASSERT: Final = "assert"
HUMAN_REVIEW: Final = "human_review"
# Known, and without effect here.
IGNORED: Final = ("cache_key", "context_access", "output_schema")
_WAIT_FIELDS: Final = ("prompt", "timeout", "choices", "store_as", "escalation_handler", "allow_comment")
_HOUR: Final = 3_600_000_000
_SECOND: Final = 1_000_000


def read_step(fields: Fields, block_id: str) -> Step:
    """Read a step; fields that are no part of it are left for the caller to refuse."""
    runs = fields.need("handler", handler)
    deadline = fields.read("deadline", some_time, None)
    breach = fields.read("on_deadline_breach", _action, None)
    if breach is not None and deadline is None:
        raise InvalidError(fields.at("on_deadline_breach"), "needs a deadline")
    retry, retry_if = fields.read("retry", _retry, (RetryPolicy(), None))
    return Step(
        block_id,
        runs,
        _params(fields, runs),
        when=fields.read("when", condition, True),  # noqa: FBT003 - a condition
        delay=fields.read("delay", _delay, None),
        send_window=fields.read("send_window", _send_window, None),
        retry=retry,
        retry_if=retry_if,
        timeout=fields.read("timeout", some_time, None),
        deadline=deadline,
        on_deadline_breach=breach,
        wait=_asked(fields, runs),
        rate_limit_key=fields.read("rate_limit_key", template, None),
        queue_name=fields.read("queue_name", name, ""),
        pool=fields.read("pool", name, None),
        fallback_handler=fields.read("fallback_handler", handler, None),
        cancellable=fields.read("cancellable", flag, True),  # noqa: FBT003 - the default
    )


def _action(value: object, path: str) -> Action:
    fields = Fields(value, path)
    runs = fields.need("handler", handler)
    action = Action(runs, _params(fields, runs))
    fields.end()
    return action


def _params(fields: Fields, runs: str) -> Tree:
    """Return what a handler is given; the condition of `assert` is an expression, not a text with values in it."""
    if runs != ASSERT:
        return fields.read("params", params, {})
    inside = Fields(fields.raw("params"), fields.at("params"))
    message = inside.read("message", tree, None)
    wanted = inside.need("condition", condition)
    inside.end()
    return {"condition": wanted} if message is None else {"condition": wanted, "message": message}


def _delay(value: object, path: str) -> Delay:
    if not isinstance(value, dict):
        return Delay(span(value, path))
    fields = Fields(value, path)
    delay = Delay(
        fields.read("duration", span, 0),
        fields.read("jitter", span, 0),
        fields.read("business_days_only", flag, False),  # noqa: FBT003 - the default
        frozenset(fields.read("holidays", each(_day), [])),
        fields.read("fire_at_local", _local, None),
        fields.read("timezone", zone, None),
    )
    fields.end()
    return delay


def _send_window(value: object, path: str) -> SendWindow:
    fields = Fields(value, path)
    window = SendWindow(
        fields.read("start_hour", whole(0, 23), 9),
        fields.read("end_hour", whole(0, 23), 17),
        frozenset(fields.read("days", each(whole(0, 6), some=True), list(range(7)))),
        fields.read("timezone", zone, None),
    )
    if window.start_hour == window.end_hour:
        raise InvalidError(fields.at("end_hour"), "must not be the start_hour")
    fields.end()
    return window


def _retry(value: object, path: str) -> tuple[RetryPolicy, Condition | None]:
    fields = Fields(value, path)
    attempts = fields.need("max_attempts", whole(1, MAX_ATTEMPTS))
    first = fields.read("initial_backoff", span, _SECOND)
    longest = fields.read("max_backoff", span, max(first, _HOUR))
    if first > longest:
        raise InvalidError(fields.at("initial_backoff"), "must not be longer than max_backoff")
    factor = fields.read("backoff_multiplier", number, 2.0)
    codes = fields.read("non_retryable_codes", each(_code), [])
    retry_if = fields.read("retry_if", condition, None)
    fields.end()
    try:
        policy = RetryPolicy(
            attempts, delay=first, cap=longest, factor=factor, jitter=False, never=tuple(codes)
        )
    except InvalidError as error:
        raise InvalidError(fields.at("backoff_multiplier"), error.problem) from None
    return policy, retry_if


def _asked(fields: Fields, runs: str) -> Wait | None:
    """Return what is asked of a person before the step goes on."""
    if fields.has("wait_for_input"):
        return fields.need("wait_for_input", _wait)
    if runs != HUMAN_REVIEW:
        return None
    given = fields.raw("params")
    known = (
        {key: value for key, value in given.items() if key in _WAIT_FIELDS} if isinstance(given, dict) else {}
    )
    return _wait(known, fields.at("params"))


def _wait(value: object, path: str) -> Wait:
    fields = Fields(value, path)
    wait = Wait(
        fields.read("prompt", text, ""),
        fields.read("timeout", some_time, None),
        tuple(fields.read("choices", each(_choice), [])),
        fields.read("store_as", identifier, None),
        fields.read("escalation_handler", handler, None),
        fields.read("allow_comment", flag, False),  # noqa: FBT003 - the default
    )
    fields.end()
    return wait


def _choice(value: object, path: str) -> Choice:
    if not isinstance(value, dict):
        return Choice(to_text(value), value)
    fields = Fields(value, path)
    chosen = fields.raw("value")
    choice = Choice(fields.read("label", text, to_text(chosen)), chosen)
    fields.end()
    return choice


def _code(value: object, path: str) -> str:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else text(value, path)


def _day(value: object, path: str) -> date:
    try:
        return date.fromisoformat(text(value, path))
    except ValueError:
        raise InvalidError(path, 'must be a day, such as "2026-05-25"') from None


def _local(value: object, path: str) -> time | datetime:
    written = text(value, path)
    try:
        local = time.fromisoformat(written) if "-" not in written else datetime.fromisoformat(written)
    except ValueError:
        local = None
    if local is None or local.tzinfo is not None:
        problem = 'must be a local time, such as "09:00" or "2026-03-08T02:30:00"'
        raise InvalidError(path, problem)
    return local
