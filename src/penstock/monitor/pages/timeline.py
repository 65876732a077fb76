"""The timeline: what ran when, what it waited for, and what became of it.

The figure is drawn by a script from the JSON of this page; the same span is a table, which needs none.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec import Struct, field

from penstock.clock import SECOND
from penstock.errors import InvalidError
from penstock.job import TIMELINE_BY, TIMELINE_MOST, TimedAttempt
from penstock.lifecycle.outcomes import Ending
from penstock.monitor.page import View
from penstock.monitor.requests import Query

SPANS: Final = ((60, "1 min"), (120, "2 min"), (900, "15 min"), (3_600, "1 h"))
SPAN: Final = 120  # seconds that are shown unless others are asked for
LONGEST: Final = 400 * 86_400
MOST: Final = 100  # attempts of a page, or among how many it looks for those of a name
AMONG: Final = 2_000
TRIED_AGAIN: Final = "tried again"  # failed, or lost, and followed by another attempt
_FOLLOWED: Final = (Ending.FAILED, Ending.LOST)


class Columns(Struct):
    """Attempts, one list for each thing known of them; a text is its place in the list of texts.

    Of times *claimed* is how long after the beginning of the span it was; *waited*, *late* and *ran* are how long
    before and after that the job could first run, its handler began, and its attempt ended, where that is known.
    """

    seq: list[int] = field(default_factory=list)
    number: list[int] = field(default_factory=list)
    id: list[str] = field(default_factory=list)
    tenant: list[int] = field(default_factory=list)
    queue: list[int] = field(default_factory=list)
    task: list[int] = field(default_factory=list)
    worker: list[int] = field(default_factory=list)
    keys: list[tuple[int, ...]] = field(default_factory=list)
    behind: list[int] = field(default_factory=list)
    outcome: list[int] = field(default_factory=list)
    claimed: list[int] = field(default_factory=list)
    waited: list[int] = field(default_factory=list)
    late: list[int | None] = field(default_factory=list)
    ran: list[int | None] = field(default_factory=list)


class Timeline(Struct):
    """The attempts of a span, those that run first and then the latest; *cursor* is where the next page begins.

    *until_now* says that the span ends with the present; no attempt is missing that ended after *reached*.
    """

    by: str
    name: str
    since: int
    until: int
    until_now: bool
    now: int
    table: bool
    reached: int
    cursor: str | None
    texts: list[str]
    columns: Columns

    @property
    def spans(self) -> tuple[tuple[int, str], ...]:
        """The spans that are offered."""
        return SPANS

    @property
    def offered(self) -> tuple[str, ...]:
        """What there may be a row for."""
        return TIMELINE_BY

    @property
    def span(self) -> int:
        """How long it is, in seconds."""
        return (self.until - self.since) // SECOND

    def rows(self) -> Iterator["Row"]:
        """Return the attempts one by one, as a table has them."""
        each, texts = self.columns, self.texts
        for n, id_ in enumerate(each.id):
            claimed, ran = self.since + each.claimed[n], each.ran[n]
            yield Row(
                id_, texts[each.tenant[n]], texts[each.queue[n]], texts[each.task[n]], texts[each.worker[n]],
                tuple(texts[key] for key in each.keys[n]), texts[each.behind[n]], texts[each.outcome[n]],
                claimed, each.waited[n], self.now - claimed if ran is None else ran,
                f"{each.seq[n]}.{each.number[n]}",
            )  # fmt: skip


class Row(NamedTuple):
    """An attempt in the table."""

    id: str
    tenant: str
    queue: str
    task: str
    worker: str
    keys: tuple[str, ...]
    behind: str
    outcome: str
    claimed: int
    waited: int
    ran: int
    mark: str


def show(view: View, query: Query) -> Timeline:
    """Return the attempts of a span: by default of the last two minutes."""
    by, name = query.choice("by", TIMELINE_BY) or "key", query.text("name") or ""
    span = query.number("span", 1, LONGEST) or SPAN
    asked = query.number("until")
    until = view.now if asked is None else asked
    since = query.number("since")
    since = max(0, until - span * SECOND) if since is None else since
    if since > until:
        raise InvalidError("since", f"{since} must not be later than {until}")
    most = query.number("most", 1, TIMELINE_MOST) or (AMONG if name or view.tenant is not None else MOST)
    table = query.choice("as", ("table",)) is not None
    page = view.engine.timeline(
        since, until, by=by, name=name, tenant=view.tenant, most=most, cursor=query.text("cursor")
    )
    texts = _Texts()
    columns = Columns()
    for attempt in page.attempts:
        _add(columns, attempt, texts, since)
    return Timeline(
        by, name, since, until, asked is None, view.now, table, page.reached, page.cursor, list(texts), columns
    )  # fmt: skip


class _Texts(dict[str, int]):
    """Texts, in the order in which they came, and the place of each."""

    def __missing__(self, text: str) -> int:
        self[text] = place = len(self)
        return place


def _add(columns: Columns, attempt: TimedAttempt, texts: _Texts, since: int) -> None:
    # What was dropped was never claimed: it has the moment at which it came, and no length.
    claimed = attempt.claimed or attempt.ended or attempt.since
    columns.seq.append(attempt.seq)
    columns.number.append(attempt.number)
    columns.id.append(attempt.id)
    columns.tenant.append(texts[attempt.tenant])
    columns.queue.append(texts[attempt.queue])
    columns.task.append(texts[attempt.task])
    columns.worker.append(texts[attempt.worker])
    columns.keys.append(tuple(texts[key] for key in attempt.keys))
    columns.behind.append(texts[attempt.behind])
    columns.outcome.append(texts[_outcome(attempt)])
    columns.claimed.append(claimed - since)
    columns.waited.append(max(0, claimed - attempt.since))
    columns.late.append(None if attempt.began is None else attempt.began - claimed)
    columns.ran.append(None if attempt.ended is None else max(0, attempt.ended - claimed))


def _outcome(attempt: TimedAttempt) -> str:
    return (
        TRIED_AGAIN if attempt.returns and attempt.outcome in _FOLLOWED else attempt.outcome.replace("_", " ")
    )
