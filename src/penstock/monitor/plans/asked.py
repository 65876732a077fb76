"""What is asked of a play: the fields of the form, and the plans that are made of them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from penstock.errors import InvalidError
from penstock.limits.durations import format_duration
from penstock.limits.rules import UNLIMITED, Numbers, Window
from penstock.monitor.actions.fields import (
    Field,
    Values,
    as_key,
    as_number,
    as_span,
    as_text,
    as_window,
    numbers_fields,
    numbers_in,
    numbers_written,
)
from penstock.monitor.plans.plays import JOBS, SPAN
from penstock.monitor.requests import Query
from penstock.simulate.example import EXAMPLE as EXAMPLE_PLAN
from penstock.simulate.plan import end_of, read_plan

SIDES: Final = ("a", "b")
_MOST: Final = 100_000  # handlers
_MOST_SLOTS: Final = 2**31  # of a plan
JOB_FIELDS: Final = (
    Field("line", "In line at first", as_number, "jobs that wait already, such as 500"),
    Field("come", "New jobs come", as_window, "by chance, such as 90/1m; empty: none"),
    Field("median", "Half of them take at most", as_span, "such as 2s", needed=True),
    Field("p95", "95 of 100 take at most", as_span, "such as 10s; empty: all take as long"),
    Field("workers", "Handlers at once", as_number, "over all workers, such as 8", needed=True),
    Field("span", "Play for", as_span, "such as 2h; empty: until all are done"),
)
NUMBER_FIELDS: Final = tuple(
    replace(field, name=f"{side}_{field.name}") for side in SIDES for field in numbers_fields()
)
TEXT_FIELDS: Final = (
    Field("a", "Plan A", as_text, needed=True, long=True),
    Field("b", "Plan B", as_text, "empty: only A is played", long=True),
)
EXAMPLE: Final = {
    "line": "240", "come": "50/1m", "median": "400ms", "p95": "2s", "workers": "16", "span": "1h",
    "a_rate": "60/1m", "b_rate": "100/1m",
}  # fmt: skip
TEXT_EXAMPLE: Final = {"a": EXAMPLE_PLAN, "b": EXAMPLE_PLAN.replace('rate = "30/1d" ', 'rate = "60/1d" ')}


def fields(*, text: bool) -> tuple[Field, ...]:
    """Return the fields of a form: for plans in words, or for the numbers of one gate."""
    return TEXT_FIELDS if text else (*JOB_FIELDS, *NUMBER_FIELDS)


def plans_in(form: Query, *, text: bool) -> list[str]:
    """Return the plans that a form asks for; raise if one cannot be played."""
    values = {field.name: _value(field, form) for field in fields(text=text)}
    if text:
        written = {name: form.text(name) or "" for name in SIDES if values[name] is not None}
        for name, plan in written.items():
            _check_text(name, plan)
        return list(written.values())
    key = form.text("key")
    if key is not None:
        as_key("key", key)
    _check(values)
    plans = [_plan(values, numbers_of(side, values), key) for side in SIDES]
    _check_size("span" if values["span"] is not None else "line", plans[0])
    return plans


def numbers_of(side: str, values: Values) -> Numbers:
    """Return the numbers of one side."""
    return numbers_in({name: values[f"{side}_{name}"] for name in ("slots", "rate", "throttle")})


def written_numbers(side: str, numbers: Numbers) -> dict[str, str]:
    """Return numbers as the fields of one side are written."""
    return {f"{side}_{name}": text for name, text in numbers_written(numbers).items()}


def _value(field: Field, form: Query) -> Any:  # noqa: ANN401 - as the field has it
    try:
        return field.value(form)
    except InvalidError as error:
        # A part of it, as the burst of a throttle, has a name of its own.
        raise InvalidError(field.name, error.problem if error.field == field.name else str(error)) from None


def _check(values: Mapping[str, Any]) -> None:
    come = values["come"]
    if not values["line"] and come is None:
        raise InvalidError("line", "say how many jobs are in line, or how many come")
    if (values["line"] or 0) > JOBS:
        raise InvalidError("line", f"must be at most {JOBS:,}")
    if come is not None and not come.limit:
        raise InvalidError("come", "must be more than 0; leave it empty if none come")
    if come is not None and values["span"] is None:
        raise InvalidError("span", "must not be empty if jobs come: they never end")
    if values["span"] is not None and values["span"] > SPAN:
        raise InvalidError("span", f"must be at most {format_duration(SPAN)}")
    if values["p95"] is not None and values["p95"] < values["median"]:
        raise InvalidError("p95", "must not be less than what half of them take")
    if not 1 <= values["workers"] <= _MOST:
        raise InvalidError("workers", f"must be from 1 to {_MOST:,}")


def _check_size(name: str, plan: str) -> None:
    try:
        end_of(read_plan(plan), most=JOBS)
    except InvalidError as error:
        raise InvalidError(name, error.problem) from None


def _check_text(name: str, text: str) -> None:
    try:
        plan = read_plan(text)
        end_of(plan, most=JOBS)
    except InvalidError as error:
        raise InvalidError(name, str(error)) from None
    if plan.until is not None and plan.until > SPAN:
        raise InvalidError(name, f"until: must be at most {format_duration(SPAN)}")


def _plan(values: Mapping[str, Any], numbers: Numbers, key: str | None) -> str:
    """Return the plan for one side, in words."""
    limits = [] if numbers == UNLIMITED else ["[limits.gate]", *_limit(numbers, key), ""]
    jobs = []
    if values["line"]:
        jobs += _jobs("in line", f"count = {values['line']}", values, limited=bool(limits))
    if values["come"] is not None:
        jobs += _jobs("new", f"rate = {_window(values['come'])}", values, limited=bool(limits))
    until = [] if values["span"] is None else [f"until = {_text(format_duration(values['span']))}", ""]
    workers = ["[workers]", f"concurrency = {values['workers']}", ""]
    return "\n".join([*until, *workers, *limits, *jobs])


def _limit(numbers: Numbers, key: str | None) -> list[str]:
    lines = []
    if key:
        lines.append(f"key = {_text(key.replace('{', '{{').replace('}', '}}'))}")
    if numbers.slots is not None:
        lines.append(f"slots = {min(numbers.slots, _MOST_SLOTS)}")
    if numbers.rate is not None:
        lines.append(f"rate = {_window(numbers.rate)}")
    if numbers.throttle is not None:
        lines.append(f"throttle = {_window(numbers.throttle)}")
        if numbers.throttle.burst > 1:
            lines.append(f"burst = {min(numbers.throttle.burst, _MOST_SLOTS)}")
    return lines


def _jobs(name: str, arrivals: str, values: Mapping[str, Any], *, limited: bool) -> list[str]:
    median, p95 = values["median"], values["p95"]
    duration = _text(format_duration(median))
    if p95 is not None and p95 > median:
        duration = f"{{ lognormal = {{ median = {duration}, p95 = {_text(format_duration(p95))} }} }}"
    limits = ['limits = ["gate"]'] if limited else []
    return [
        "[[jobs]]", f"name = {_text(name)}", *limits, f"duration = {duration}", f"arrivals = {{ {arrivals} }}", ""
    ]  # fmt: skip


def _window(window: Window) -> str:
    return _text(f"{window.limit}/{format_duration(window.period)}")


def _text(text: str) -> str:
    """Write a text without control characters, as TOML has it."""
    return json.dumps(text, ensure_ascii=False)
