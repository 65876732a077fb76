"""How errors travel: by their code and the arguments that they were made with, so that both sides raise the same."""

import msgspec

from penstock.client.wire import ErrorReport, Problem
from penstock.errors import (
    AccessError,
    ConflictError,
    DuplicateJobError,
    GateShutError,
    InvalidError,
    InvalidJobError,
    InvalidLimitError,
    InvalidWorkflowError,
    NotFoundError,
    PenstockError,
    QueueFullError,
    StoreBusyError,
    StoreDownError,
    StoreError,
    TenantLimitError,
    WrongStateError,
)

_FACTS: dict[type[PenstockError], tuple[str, ...]] = {
    InvalidError: ("field", "problem"),
    InvalidJobError: ("field", "problem"),
    InvalidLimitError: ("field", "problem"),
    InvalidWorkflowError: ("field", "problem"),
    NotFoundError: ("kind", "name"),
    DuplicateJobError: ("existing",),
    WrongStateError: ("job", "state", "wanted"),
    GateShutError: ("job", "gates", "opens_at"),
    QueueFullError: ("queue", "depth", "bound", "tenant"),
    TenantLimitError: ("tenant", "limit", "current", "maximum", "retry_after"),
}
_KINDS = {kind.code: kind for kind in _FACTS}
_PLAIN = {kind.code: kind for kind in (ConflictError, StoreError, StoreBusyError, StoreDownError)}
_CONFLICTS = (409, 429)
_refusals = msgspec.json.Decoder(ErrorReport)


def to_wire(error: PenstockError) -> ErrorReport:
    """Return *error* as it is sent."""
    names = _FACTS.get(type(error), ())
    return ErrorReport(Problem(error.code, str(error), {name: getattr(error, name) for name in names}))


def from_wire(status: int, body: bytes, where: str) -> PenstockError:
    """Return the error that an answer of the server at *where* stands for."""
    try:
        problem = _refusals.decode(body).error
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
        problem = Problem("", body[:200].decode("utf-8", "replace"))
    kind = _KINDS.get(problem.code)
    # A server refuses by the same codes what never reaches an engine, as a path that it does not know.
    if kind is not None and problem.facts.keys() >= set(_FACTS[kind]):
        return _made(kind, problem)
    if problem.code in _PLAIN:
        return _PLAIN[problem.code](f"the server at {where} says: {problem.message}")
    return _by_status(status, problem.message, where)


def _by_status(status: int, message: str, where: str) -> PenstockError:
    match status:
        case 401:
            return AccessError(f"the server at {where} refuses the token: {message}")
        case 403:
            return AccessError(f"the server at {where} does not allow this: {message}")
        case 404:
            return StoreDownError(f"what answers at {where} is not a penstock server of this version")
        case 413:
            return InvalidError("request", f"is too long: {message}")
        case 502 | 503 | 504:
            return StoreDownError(f"the server at {where} is away: {message}")
        case _:
            kind = ConflictError if status in _CONFLICTS else PenstockError
            return kind(f"the server at {where} says: {message} (status {status})")


def _made(kind: type[PenstockError], problem: Problem) -> PenstockError:
    error = kind(*(problem.facts[name] for name in _FACTS[kind]))
    error.args = (problem.message,)
    return error
