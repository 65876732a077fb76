"""The form of an action as a record, and what is answered when it was done."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from penstock.errors import InvalidError, PenstockError
from penstock.job import Count
from penstock.monitor.actions.action import Action
from penstock.monitor.actions.fields import Field
from penstock.monitor.requests import Query


class FormField(Struct):
    """One field: what stands in it, and what is wrong with that.  A *fixed* one says what the form is about."""

    name: str
    label: str
    hint: str
    value: str
    needed: bool
    among: list[str]
    long: bool
    fixed: bool
    problem: str = ""


class Form(Struct):
    """The form of an action, with how many jobs it touches; *back* is the page to which it leads."""

    path: str
    button: str
    title: str
    says: str
    grave: bool
    fields: list[FormField]
    touches: Count | None
    back: str
    problem: str = ""  # of the whole form


class Done(Struct):
    """What was done."""

    action: str
    done: str


def form_of(
    action: Action,
    fields: Sequence[Field],
    fixed: Mapping[str, str],
    written: Mapping[str, str],
    back: str,
    *,
    touches: Count | None = None,
    error: PenstockError | None = None,
) -> Form:
    """Return the form of an action, about what is *fixed*; an *error* is told beside the field that it names."""
    wrong = error.field if isinstance(error, InvalidError) else ""
    shown = [
        FormField(
            field.name,
            field.label,
            field.hint,
            fixed.get(field.name, written.get(field.name, "")),
            field.needed,
            list(field.among),
            field.long,
            bool(fixed) and field in action.names,
            error.problem if isinstance(error, InvalidError) and field.name == wrong else "",
        )
        for field in fields
    ]
    named = any(field.problem and not field.fixed for field in shown)
    problem = "" if error is None or named else str(error)
    return Form(
        action.path, action.button, action.title, action.says, action.grave, shown, touches, back, problem
    )


def written_in(fields: Sequence[Field], form: Query) -> dict[str, str]:
    """Return what was written in fields, those that are empty left out."""
    found = {field.name: form.text(field.name) for field in fields}
    return {name: text for name, text in found.items() if text is not None}
