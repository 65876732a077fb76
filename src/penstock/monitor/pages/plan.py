"""The page that plays plans: the form, filled in with an example or with what is known of a gate, and the outcome."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from penstock.errors import InvalidError, PenstockError
from penstock.limits.rules import Numbers
from penstock.monitor.actions.forms import FormField
from penstock.monitor.page import View
from penstock.monitor.plans.asked import EXAMPLE, TEXT_EXAMPLE, fields
from penstock.monitor.plans.known import HOURS, MOST_HOURS, Known, known
from penstock.monitor.requests import Query
from penstock.simulate.side import Side

WORDS = "text"


class Plan(Struct):
    """The form, in *text* or by fields, of the gate of a *key* if there is one; the *sides* that were played."""

    key: str
    tenant: str
    text: bool
    fields: list[FormField]
    known: Known | None = None
    problem: str = ""  # of the whole form
    sides: tuple[Side, ...] = ()
    numbers: tuple[Numbers, ...] = ()  # of each side, where there are fields for them

    def field(self, name: str) -> FormField:
        """Return the field of a name."""
        return next(field for field in self.fields if field.name == name)

    @property
    def of_jobs(self) -> list[FormField]:
        """The fields that are the same for both sides."""
        return [field for field in self.fields if field.name[1:2] != "_"]

    def of_side(self, side: str) -> list[FormField]:
        """Return the fields of one side."""
        return [field for field in self.fields if field.name.startswith(f"{side}_")]

    @property
    def until(self) -> int:
        """How long was played, of the longer side."""
        return max(side.until for side in self.sides)


def show(view: View, query: Query) -> Plan:
    """Return the form: with a key filled in with what is known of its gate."""
    text = query.choice("as", (WORDS,)) is not None
    key = query.text("key")
    if key is None or text:
        return filled("", "", TEXT_EXAMPLE if text else EXAMPLE, text=text)
    tenant = view.tenant if view.tenant is not None else query.text("tenant") or ""
    found, values = known(view, key, tenant, query.number("hours", 1, MOST_HOURS) or HOURS)
    return filled(key, tenant, values, text=False, found=found)


def filled(
    key: str,
    tenant: str,
    values: Mapping[str, str],
    *,
    text: bool,
    found: Known | None = None,
    error: PenstockError | None = None,
) -> Plan:
    """Return the form with *values* in it; an *error* is told beside the field that it names."""
    wrong, problem = (error.field, error.problem) if isinstance(error, InvalidError) else ("", "")
    shown = [
        FormField(
            each.name, each.label, each.hint, values.get(each.name, ""), each.needed, list(each.among), each.long,
            fixed=False, problem=problem if each.name == wrong else "",
        )
        for each in fields(text=text)
    ]  # fmt: skip
    told = error is None or any(field.problem for field in shown)
    return Plan(key, tenant, text, shown, found, "" if told else str(error))


def played(form: Plan, sides: Sequence[Side], numbers: Sequence[Numbers]) -> Plan:
    """Return the form with what came of it."""
    return Plan(
        form.key, form.tenant, form.text, form.fields, form.known, sides=tuple(sides), numbers=tuple(numbers)
    )
