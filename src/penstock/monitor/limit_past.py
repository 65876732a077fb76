"""What a gate allowed in a span of time: the numbers in force, which changed when the audit says so."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.errors import PenstockError
from penstock.job import AuditEntry, GateLook
from penstock.limits.gate import ALWAYS, Rules
from penstock.limits.rules import Numbers
from penstock.monitor import words
from penstock.monitor.actions.fields import as_throttle, as_window
from penstock.monitor.lookback import per_minute


class Limit(Struct, frozen=True):
    """Numbers that were in force from a moment on, and by whose change: *what* it was, empty if there was none.

    While it is *shut* nothing starts.
    """

    at: int
    numbers: Numbers
    shut: bool = False
    what: str = ""
    who: str = ""

    @property
    def told(self) -> str:
        """What was changed, in a few words."""
        if not self.what:
            return ""
        numbers = "" if self.shut else f" {words.numbers(self.numbers)}"
        return f"{self.what}{numbers}{f', {words.shortened(words.name(self.who), 24)}' if self.who else ''}"

    def starts(self, step: int) -> float | None:
        """Return how many jobs may start in each minute of a *step*, None if as many as come."""
        numbers = self.numbers
        if self.shut or numbers.slots == 0:
            return 0.0
        rate, throttle = numbers.rate, numbers.throttle
        most = [] if rate is None else [rate.limit * -(-step // rate.period)]
        if throttle is not None:
            most.append(throttle.burst + step // throttle.gap if throttle.limit else 0)
        return per_minute(min(most), step) if most else None


def limits_over(gate: GateLook, entries: Sequence[AuditEntry], since: int, until: int) -> list[Limit]:
    """Return what was in force since then, given the latest changes of the gate, the latest first."""
    changes = [entry for entry in reversed(entries) if since < entry.at <= until]
    before = next((entry.after for entry in entries if entry.at <= since), None)
    if before is None and changes:
        before = changes[0].before
    rules = _present(gate) if before is None else _rules(gate, before)
    found = _in_force(gate, rules, since, changes[0].at if changes else until)
    ends = [*(entry.at for entry in changes[1:]), until]
    for entry, end in zip(changes, ends, strict=False):  # without a change there is no end either
        first, *later = _in_force(gate, _rules(gate, entry.after), entry.at, end)
        found += [replace(first, what=entry.verb.rpartition(".")[2], who=entry.who), *later]
    return found


def _in_force(gate: GateLook, rules: Rules, since: int, until: int) -> list[Limit]:
    """Return what rules made of a gate's numbers; an override and a gate that is shut end by the clock."""
    ends = {at for at in (rules.override_until, rules.shut_until) if at is not None and since < at < until}
    words_of = {rules.shut_until: "open again", rules.override_until: "override ended"}
    return [
        Limit(at, rules.effective(gate.own, at), rules.shut_until > at, words_of[at] if at in ends else "")
        for at in [since, *sorted(ends)]
    ]


def _present(gate: GateLook) -> Rules:
    return Rules(
        gate.configured, gate.floating, gate.override, gate.override_until, gate.shut_until or ALWAYS, gate.shut_reason
    )  # fmt: skip


def _rules(gate: GateLook, text: str | None) -> Rules:
    """Read the rules that an entry of the audit tells of; what floats is as it is now."""
    try:
        told = json.loads(text or "{}")
        return Rules(
            _numbers(told.get("configured")), gate.floating, _numbers(told.get("override")), told.get("override_until"),
            told.get("shut_until") or ALWAYS,
        )  # fmt: skip
    except (ValueError, AttributeError, PenstockError):  # what was too long to be kept whole
        return Rules(floating=gate.floating)


def _numbers(told: Mapping[str, Any] | None) -> Numbers | None:
    if told is None:
        return None
    rate, throttle = told.get("rate"), told.get("throttle")
    return Numbers(
        told.get("slots"),
        None if rate is None else as_window("rate", rate),
        None if throttle is None else as_throttle("throttle", throttle),
    )
