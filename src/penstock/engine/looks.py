"""Looking at a store: what people see of it, at a cost that does not grow with it.

Counts stop, lists go on by cursor, and what is looked for among many is looked for a part at a time.
"""

import json
import re
from collections import Counter
from typing import Final

from penstock.engine.transactions import Transactions
from penstock.job import Count, FailedLately
from penstock.lifecycle.states import State
from penstock.store import looks as look_rows
from penstock.store.session import Session

COUNTED: Final = 10_000  # counts stop here
FAILED: Final = 500  # jobs that failed of which is told how
_KIND: Final = re.compile(r'"kind": *("(?:[^"\\]|\\.)*")')


class LookVerbs(Transactions):
    def changes(self) -> str:
        """Return a text that is another one whenever any process has changed something."""
        return self.store.changes()

    def ended_lately(self, since: int, tenant: str | None = None) -> dict[State, Count]:
        """Count the jobs that ended after a moment, among the 10,000 that ended last."""

        def work(db: Session) -> dict[State, Count]:
            found = look_rows.ended(db, tenant, since, COUNTED)
            more = sum(looked for _, looked, _ in found) >= COUNTED
            return {State(state): Count(jobs, more=more) for state, _, jobs in found if jobs}

        return self.store.read(work)

    def failed_lately(self, since: int, tenant: str | None = None) -> list[FailedLately]:
        """Return which tasks failed for good after a moment and how, most first, of the 500 that did last."""
        found = self.store.read(lambda db: look_rows.failed(db, tenant, since, COUNTED, FAILED))
        counts = Counter((owner, task, _kind(error)) for owner, task, error in found)
        more = len(found) >= FAILED
        return [FailedLately(*what, Count(jobs, more)) for what, jobs in counts.most_common()]


def _kind(error: str) -> str:
    """Return the kind of an error, given how it begins."""
    found = _KIND.search(error)
    return json.loads(found[1]) if found else ""


def bounded(count: Count) -> Count:
    """Return a count that stops where counts stop."""
    return count if count.number < COUNTED else Count(COUNTED, more=True)
