"""Looking back: what happened in the last hour, day or week, and what stands now, from minutes."""

from collections.abc import Mapping, Sequence
from typing import Final

from penstock.engine.minutes import DAY, HOUR, WEEK
from penstock.engine.reading import Reading
from penstock.engine.transactions import Transactions
from penstock.job import HourPast, KeptBy, Moment, Past, Place, Standing, TaskLook, WaitedFor
from penstock.minutes.minute import MINUTE, QUARTER, Level, Minute, together
from penstock.minutes.spread import quantile
from penstock.store import minutes as rows
from penstock.store.minutes import STORE, SeriesKey
from penstock.store.session import Session

SPANS: Final = {"hour": HOUR, "day": DAY, "week": WEEK}
KEYS: Final = "gate.key"  # the kind of the series of keys' gates
KEEPERS: Final = 4  # gates that are told apart
TASKS: Final = 20  # that are looked at
LOOKED_AT: Final = 1_000  # gates among which those of a tenant are looked for


class MinuteLookVerbs(Transactions):
    def gate_past(self, key: str, *, tenant: str = "", last: int = HOUR) -> Past:
        """Return what happened at a key's gate in the *last* microseconds: in minutes, beyond an hour in quarters."""
        return self._past(SeriesKey(KEYS, tenant, key), last)

    def queue_past(self, queue: str, *, tenant: str = "", last: int = HOUR) -> Past:
        """Return what happened in a queue."""
        return self._past(SeriesKey("queue", tenant, queue), last)

    def gates_past(self, places: Sequence[Place], *, last: int = HOUR) -> list[Past]:
        """Return what happened at the gates of keys, each of a tenant, in their order; all are read at once."""
        return self._pasts([SeriesKey(KEYS, place.tenant, place.key) for place in places], last)

    def queues_past(self, places: Sequence[Place], *, last: int = HOUR) -> list[Past]:
        """Return what happened in queues, each of a tenant, in their order; all are read at once."""
        return self._pasts([SeriesKey("queue", place.tenant, place.key) for place in places], last)

    def task_looks(self, *, tenant: str | None = None, most: int = TASKS) -> list[TaskLook]:
        """Return the tasks that have most to do, and then those that had last, with how their last hour was."""
        now, step = self._time.seen(), _step(HOUR)

        def work(db: Session) -> list[TaskLook]:
            keys = [row.key for row in rows.busiest_of_kind(db, "task", tenant, LOOKED_AT, most)]
            if not keys:
                return []
            found, levels = Reading(db, keys, now).of(HOUR), Reading(db, keys, now).levels()
            return [
                TaskLook(key.tenant, key.name, _standing(levels[key]), _past_of(found[key], step, now))
                for key in keys
            ]

        return self.store.read(work)

    def task_past(self, task: str, *, tenant: str = "", last: int = HOUR) -> Past:
        """Return what happened to the jobs of a task, in all queues of a tenant, or of none."""
        return self._past(SeriesKey("task", tenant, task), last)

    def past(self, *, tenant: str | None = None, last: int = HOUR) -> Past:
        """Return what happened in the whole store, or to the jobs of a tenant."""
        return self._past(_whole(tenant), last)

    def waited_for(self, *, tenant: str | None = None, last: int = HOUR, most: int = KEEPERS) -> WaitedFor:
        """Return what jobs waited for: the gates that keep most of them, other gates, a free worker."""
        now, whole = self._time.seen(), _whole(tenant)

        def work(db: Session) -> WaitedFor:
            keepers = _keepers(db, tenant, now - last, most)
            return _waited_for(Reading(db, [whole, *keepers], now).of(last), whole, keepers, _step(last), now)

        return self.store.read(work)

    def hour_past(
        self,
        *,
        tenant: str | None = None,
        gates: Sequence[Place] = (),
        queues: Sequence[Place] = (),
        most: int = KEEPERS,
    ) -> HourPast:
        """Return how the last hour was, what jobs waited for, and how it was at some gates and queues: read at once."""
        now, whole, step = self._time.seen(), _whole(tenant), _step(HOUR)
        named = [SeriesKey(KEYS, place.tenant, place.key) for place in gates]
        named += [SeriesKey("queue", place.tenant, place.key) for place in queues]

        def work(db: Session) -> HourPast:
            keepers = _keepers(db, tenant, now - HOUR, most)
            found = Reading(db, [whole, *keepers, *named], now).of(HOUR)
            pasts = [_past_of(found[key], step, now) for key in named]
            return HourPast(
                _past_of(found[whole], step, now), _waited_for(found, whole, keepers, step, now),
                pasts[: len(gates)], pasts[len(gates) :],
            )  # fmt: skip

        return self.store.read(work)

    def stands(self, *, tenant: str | None = None) -> Standing:
        """Return how many jobs wait and run, in the whole store or of a tenant."""
        now, key = self._time.seen(), _whole(tenant)
        return _standing(self.store.read(lambda db: Reading(db, [key], now).levels())[key])

    def _past(self, key: SeriesKey, last: int) -> Past:
        return self._pasts([key], last)[0]

    def _pasts(self, keys: Sequence[SeriesKey], last: int) -> list[Past]:
        if not keys:
            return []
        now, step = self._time.seen(), _step(last)
        found = self.store.read(lambda db: Reading(db, keys, now).of(last))
        return [_past_of(found[key], step, now) for key in keys]


def _keepers(db: Session, tenant: str | None, since: int, most: int) -> list[SeriesKey]:
    """Return the gates of keys that keep most jobs, or kept most since then."""
    kept = rows.keepers_since(db, since - since % QUARTER)
    for row in rows.that_keep(db, KEYS, tenant, LOOKED_AT, most):
        kept[row.id] = max(kept.get(row.id, 0), row.level.kept * MINUTE)
    found = {row.id: row.key for row in rows.by_id(db, sorted(kept))}
    order = sorted(found, key=lambda id_: -kept[id_])
    keys = [found[id_] for id_ in order]
    return [key for key in keys if key.kind == KEYS and tenant in (None, key.tenant)][:most]


def _whole(tenant: str | None) -> SeriesKey:
    return SeriesKey("tenant", tenant, "") if tenant else STORE


def _step(last: int) -> int:
    return MINUTE if last <= HOUR else QUARTER


def _mean(time: int, minute: Minute, step: int, now: int) -> float:
    """Return how many there were on average, given how *long* all of them stood in a minute."""
    return round(max(time, 0) / max(min(minute.at + step, now) - minute.at, 1), 2)


def _past_of(minutes: Sequence[Minute], step: int, now: int) -> Past:
    moments = [_moment(minute, min(minute.at + step, now) - minute.at) for minute in minutes]
    since = minutes[0].at
    return Past(since, now, step, moments, _moment(together(since, minutes), now - since))


def _moment(minute: Minute, span: int) -> Moment:
    return Moment(
        minute.at, minute.arrived, minute.started - minute.undone, minute.ended - minute.undone, minute.failed,
        minute.dropped, max(minute.waiting, 0), round(max(minute.kept_time, 0) / max(span, 1), 2),
        round(max(minute.used_time, 0) / max(span, 1), 2), max(minute.most, 0), quantile(minute.waits, 0.5),
        quantile(minute.waits, 0.95), quantile(minute.held, 0.5), quantile(minute.held, 0.95),
    )  # fmt: skip


def _waited_for(
    found: Mapping[SeriesKey, Sequence[Minute]],
    whole: SeriesKey,
    keepers: Sequence[SeriesKey],
    step: int,
    now: int,
) -> WaitedFor:
    gates = [
        KeptBy(key.name, key.tenant, [_mean(each.kept_time, each, step, now) for each in found[key]])
        for key in keepers
    ]
    minutes = found[whole]
    kept = [_mean(minute.kept_time, minute, step, now) for minute in minutes]
    lines = [gate.kept for gate in gates] or [[0.0] * len(kept)]
    named = [sum(of_gates) for of_gates in zip(*lines, strict=True)]
    means = [_mean(minute.waiting_time, minute, step, now) for minute in minutes]
    others = [round(max(total - of_gates, 0), 2) for total, of_gates in zip(kept, named, strict=True)]
    worker = [round(max(mean - total, 0), 2) for mean, total in zip(means, kept, strict=True)]
    return WaitedFor(minutes[0].at, now, step, gates, others, worker)


def _standing(level: Level) -> Standing:
    return Standing(*(max(number, 0) for number in (level.waiting, level.kept, level.scheduled, level.used)))
