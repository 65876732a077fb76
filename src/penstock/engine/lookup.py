"""Which job is meant by an id.

An id is a tenant's.  A caller that names no tenant means the job of no tenant that has the id, or else the only one.
"""

from collections.abc import Sequence

from penstock.errors import InvalidError, NotFoundError
from penstock.store import jobs as job_rows
from penstock.store import views as view_rows
from penstock.store.session import Session
from penstock.store.views import JobViewRow


def job_of(db: Session, job_id: str, tenant: str | None) -> tuple[int, str]:
    """Return the number of a job, and its tenant."""
    found = job_rows.of_id(db, job_id, tenant)
    return found[_meant(job_id, [owner for _, owner in found])]


def seq_of(db: Session, job_id: str, tenant: str | None) -> int:
    """Return the number of a job."""
    return job_of(db, job_id, tenant)[0]


def _meant(job_id: str, tenants: Sequence[str]) -> int:
    """Return which of the jobs is meant that have this id, given whose they are, in order."""
    if not tenants:
        raise NotFoundError("job", job_id)
    if len(tenants) > 1 and tenants[0]:
        whose = ", ".join(map(repr, tenants))
        raise InvalidError(
            "tenant", f"jobs of several tenants have the id {job_id!r}, as of {whose}; name one"
        )
    return 0


def row_of(db: Session, id_: str, tenant: str | None) -> JobViewRow:
    """Return all that is known of a job."""
    found = view_rows.of_id(db, id_, tenant)
    return found[_meant(id_, [row.tenant for row in found])]
