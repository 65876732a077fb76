"""Bulk operations: those of this process, with how far they are, and those before, as the audit has them."""

from msgspec import Struct

from penstock.job import AuditEntry, AuditFilter, Count
from penstock.monitor.operations import Operation
from penstock.monitor.page import View
from penstock.monitor.requests import Query


class OperationRow(Struct):
    """A bulk operation of this process."""

    number: int
    change: str
    jobs: str
    who: str
    reason: str
    at_first: Count
    began: int
    done: int
    passed: int
    state: str
    problem: str


class OperationList(Struct):
    """Bulk operations: *here*, and in the *past* or in other processes."""

    here: list[OperationRow]
    past: list[AuditEntry]
    before: int | None


MOST = 50


def show(view: View, query: Query) -> OperationList:
    """Return the bulk operations."""
    here = [_row(each) for each in view.operations]
    wanted = AuditFilter(kind="jobs", tenant=view.tenant)
    found = view.engine.audit(wanted, before=query.number("before"), limit=MOST + 1)
    known = {row.number for row in here}
    past = [entry for entry in found[:MOST] if entry.number not in known]
    return OperationList(here, past, found[MOST - 1].number if len(found) > MOST else None)


def _row(operation: Operation) -> OperationRow:
    return OperationRow(
        operation.number, operation.wanted.change, operation.wanted.told, operation.who, operation.reason,
        operation.at_first, operation.began, operation.done, operation.passed, operation.state, operation.problem,
    )  # fmt: skip
