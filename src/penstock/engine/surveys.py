"""A survey: one look at all jobs and keys of a tenant, page by page, on one view of the store.

However many there are, no more than a page of them is in memory, and no other caller waits for the survey.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeVar

from penstock.engine.admission.rows import rules_from_text, stands_from_text
from penstock.engine.in_use import following_at_keys
from penstock.engine.transactions import Transactions
from penstock.limits.gate import ON_RELEASE
from penstock.limits.rules import Numbers, numbers_from_text
from penstock.limits.spec import limits_from_json
from penstock.store import jobs as job_rows
from penstock.store import surveys as survey_rows
from penstock.store.session import Session
from penstock.store.surveys import SurveyedJob, SurveyedKey

T = TypeVar("T")

FIRST_PAGE: Final = 100  # jobs: who wants a few is answered at once
PAGE: Final = 2_000
CENSUS: Final = 20_000  # jobs that are counted at once
ROOM: Final = 4 * 1024 * 1024  # characters of longer texts that are read at once, if one alone is not longer
LONGEST: Final = 20 * 1024 * 1024  # characters of a text that is read at all

Place = Literal["anywhere", "pending", "running", "ended"]
Text = Literal["args", "meta", "limits"]


class Tally(NamedTuple):
    """How many jobs are alike in these."""

    queue: str
    priority: int
    state: str
    jobs: int


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """How many attempts run at a key and how many jobs wait, and its numbers in force; they *float* or not."""

    key: str
    running: int
    waiting: int
    numbers: Numbers
    floats: bool


class Survey:
    """What can be seen of a *tenant* at one moment, as long as the work of `Engine.survey` goes on."""

    def __init__(self, db: Session, tenant: str, now: int) -> None:
        self._db = db
        self._tenant = tenant
        self.now = now

    def job_pages(self, place: Place) -> Iterator[list[SurveyedJob]]:
        """Return the jobs in a place, newest first; a page may have none, so that its caller can give up."""
        for seqs in self._numbers(place, FIRST_PAGE, PAGE):
            if place in ("pending", "running"):
                yield survey_rows.jobs(self._db, seqs, self._tenant, self.now)
            else:  # by far the most have ended, so that few others stand between them
                first, last, ended = seqs[-1], seqs[0], place == "ended"
                yield survey_rows.jobs_between(self._db, first, last, self._tenant, self.now, ended=ended)

    def of_ids(self, ids: Sequence[str]) -> list[SurveyedJob]:
        """Return those of these jobs that exist, newest first."""
        seqs = [seq for id_ in ids for seq, _ in job_rows.of_id(self._db, id_, self._tenant)]
        return survey_rows.jobs(self._db, seqs, self._tenant, self.now) if seqs else []

    def with_texts(self, jobs: Sequence[SurveyedJob], names: Sequence[Text]) -> Iterator[list[SurveyedJob]]:
        """Return the jobs with these longer texts, a few at a time; without one that is too long to be read."""
        sizes = dict(survey_rows.sizes(self._db, names, [job.seq for job in jobs])) if jobs else {}
        rest = list(reversed(jobs))
        while rest:
            few = [rest.pop()]
            room = ROOM - sizes[few[0].seq]
            while rest and (room := room - sizes[rest[-1].seq]) >= 0:
                few.append(rest.pop())
            read = [job.seq for job in few if sizes[job.seq] <= LONGEST]
            found = {row[0]: row[1:] for row in survey_rows.texts(self._db, names, read)} if read else {}
            yield [job.with_texts(found[job.seq]) if job.seq in found else job for job in few]

    def tallies(self, place: Place) -> Iterator[list[Tally]]:
        """Count the jobs in a place, many at a time: what is alike is counted again in the next list."""
        for seqs in self._numbers(place, CENSUS, CENSUS):
            rows = survey_rows.census(self._db, place, seqs[-1], seqs[0], self._tenant, self.now)
            yield list(map(Tally._make, rows))

    def key_pages(self, name: str | None = None) -> Iterator[list[KeyCounts]]:
        """Return the keys by name, a page at a time; or only the one of this *name*."""
        coming = self._coming()
        after = ""
        following = following_at_keys(self._db)
        while rows := survey_rows.keys(self._db, self._tenant, name, after, PAGE):
            yield [self._counts(row, coming.pop(row.name, None), following[row.gate]) for row in rows]
            after = rows[-1].name
        yield [
            KeyCounts(key, 0, waiting, numbers, numbers.floats)
            for key, (numbers, waiting) in sorted(coming.items())
            if name in (None, key)
        ]

    def _numbers(self, place: Place, first: int, most: int) -> Iterator[list[int]]:
        """Return the numbers of the jobs of all tenants in a place, newest first."""
        before, count = ON_RELEASE, first
        while seqs := survey_rows.page(self._db, place, before, count):
            yield seqs
            before, count = seqs[-1], most

    def _counts(self, row: SurveyedKey, coming: tuple[Numbers, int] | None, following: int) -> KeyCounts:
        own = numbers_from_text(row.own or "")
        if row.gates is not None:
            own = next((s.own for s in stands_from_text(row.gates)[0] if s.gate == row.gate), own)
        rules = rules_from_text(row.rules)
        numbers = own if rules is None else rules.effective(own, self.now)
        waiting = row.waiting + (coming[1] if coming else 0)
        return KeyCounts(row.name, row.running - following, waiting, numbers, bool(row.floats))

    def _coming(self) -> dict[str, tuple[Numbers, int]]:
        """Return what the jobs at the door will bring to each key, and how many they are."""
        found: dict[str, tuple[Numbers, int]] = {}
        for text, jobs in survey_rows.at_door(self._db, self._tenant, self.now):
            for limit in limits_from_json(text):
                if not limit.group and limit.owner(self._tenant) == self._tenant:
                    _, before = found.get(limit.key, (limit.numbers, 0))
                    found[limit.key] = limit.numbers, before + jobs
        return found


class SurveyVerbs(Transactions):
    def survey(self, tenant: str, work: Callable[[Survey], T], *, span: int) -> T:
        """Let *work* look at all jobs and keys of a tenant; `TooLongError` if a look takes longer than *span*."""
        now = self._time.seen()
        return self.store.survey(lambda db: work(Survey(db, tenant, now)), span)
