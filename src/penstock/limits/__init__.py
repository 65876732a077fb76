"""When may a job start?  The rules, and what users write to set them."""

from penstock.limits.costs import Cost
from penstock.limits.durations import Duration, format_duration, parse_duration, to_iso
from penstock.limits.rules import UNLIMITED, Floating, Limit, Numbers, OnLimit, Window
from penstock.limits.spec import (
    Concurrency,
    Key,
    OnLimitName,
    Rate,
    Spec,
    Throttle,
    check_specs,
    limits_from_json,
    limits_to_json,
    resolve,
)
from penstock.limits.template import check_template

__all__ = [
    "UNLIMITED",
    "Concurrency",
    "Cost",
    "Duration",
    "Floating",
    "Key",
    "Limit",
    "Numbers",
    "OnLimit",
    "OnLimitName",
    "Rate",
    "Spec",
    "Throttle",
    "Window",
    "check_specs",
    "check_template",
    "format_duration",
    "limits_from_json",
    "limits_to_json",
    "parse_duration",
    "resolve",
    "to_iso",
]
