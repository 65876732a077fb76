"""Looking at a store: what people see of it, at a cost that does not grow with it.

Counts stop, lists go on by cursor, and what is looked for among many is looked for a part at a time.
"""

from typing import Final

from penstock.engine.transactions import Transactions
from penstock.job import Count
from penstock.lifecycle.states import State
from penstock.store import looks as look_rows
from penstock.store.session import Session

COUNTED: Final = 10_000  # counts stop here


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


def bounded(count: Count) -> Count:
    """Return a count that stops where counts stop."""
    return count if count.number < COUNTED else Count(COUNTED, more=True)
