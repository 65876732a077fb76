"""What happens next: drawn from one seed, out of what is likely to matter in the world as it is."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.simulation.model import LIVE, WAITING
from tests.simulation.world import LEASE, Operation, World

MS = 1_000
SECOND = 1_000 * MS
# Names may be any text: these look like what stands between them where several are written down as one.
QUEUES = ("q", "q|c1|@x", "q # 2")
TASKS = ("t1", "t2")
KEYS = ("A", "B|c1", "C @#", 'D"%', "*E")
TENANTS = ("", "", "", "x|c1")
# What claims of one history know: all, or now this and now that.
KNOWLEDGE = ((None,), (None,), (("t1",), ("t2",), None), (("t1",), ("t1", "t2")), (("t2",), ("t*",), ("u",)))
# What claims of one history ask to be handed on: nothing, or jobs of tasks that take so long.
SHORT = (("t1", 4 * MS), ("t2", 4 * MS))
RELAYS = ((None,), (None,), (SHORT,), (None, SHORT), (SHORT, (("t1", 9 * MS), ("t2", 2 * MS)), (("t1", MS),)))
# How many more jobs claims of one history ask to stand by, where they know what is short; some have no hand free.
STANDBY, FULL = ((0,), (0, 0, 3), (0, 1, 2, 4, 9)), 0.3
LINES = 0.03  # of all operations are followed by one that has jobs stand by in a queue of their own
WORKERS = ("w1", "w2", "w3")
PERIODS = tuple(period * MS for period in (100, 200, 500, 3_000))
LAGS = (0, 0, MS, 10 * MS, 44 * MS, None)
SPANS = tuple(span * MS for span in (1, 10, 49, 50, 51, 100, 200, 500, 1_000, 3_000))
OUTCOMES = (*["done"] * 4, *["failed"] * 2, "again", "cancelled", "limited", "handed back")
NO_CRASH_IN = {"advance", "set_clock", "die", "why", "restart"}
FLOWS = 40  # rounds in which starts are granted ahead
PRESSED = 60  # rounds in which every job must have had its turn
PLAIN_UNIQUE = 4  # what there is to say of a unique key, but for a pause
CROWD = 24  # jobs, from which on only few come


class Fate:
    """Few keys and few queues, so that jobs meet; how many and of what kind differs from seed to seed."""

    def __init__(self, world: World, seed: int) -> None:
        chance = self._chance = random.Random(seed)
        self._world, self._model = world, world.model
        self._jobs = self._lined_up = 0
        self._keys = chance.sample(KEYS, chance.randint(1, len(KEYS)))
        self._queues = QUEUES[: chance.randint(1, len(QUEUES))]
        self._heavy = world.mode == "B" or (world.mode == "C" and chance.random() < 0.4)
        # Where starts are remembered every job asks for it, and all look back equally far: what a gate
        # remembers then does not depend on the jobs that came before.
        kinds = ("c", "c", "c", "f", "f", "r", "t", "rc", "tc", "rtc")
        self._kinds = {key: chance.choice(kinds) for key in KEYS}
        # Nothing is drawn for it: one key has bursts in some histories, all of the same numbers.
        self._bursts = {KEYS[seed % len(KEYS)]: (1 + seed % 3, 2 + seed % 4)} if seed % 7 < 3 else {}
        self._periods = {name: chance.choice(PERIODS) for name in (*KEYS, *QUEUES, *TASKS)}
        self._rated_scopes = chance.random() < 0.3
        self._priorities = chance.choice(((0,), (0, 0, 1), (-1, 0, 1)))
        self._drops = chance.choice((0, 0, 0.2)) if world.mode == "A" else 0
        # Types would make jobs with equal limits differ, and who is first among them matters to drops.
        self._scopes = ("key", "key", "queue") if self._drops else ("key", "key", "queue", "type")
        self._clock_is_set = chance.random() < 0.25
        self._unique = chance.choice((0, 0, 0.3))
        # Nothing is drawn for it: other histories stay the same.
        self._latest = self._unique > 0 and seed % 4 < 2
        self._beside_floating = seed % 3 < 2  # some jobs bring a number of their own for a key that floats
        self._costs = random.Random(~seed)
        self._weighs = self._costs.random() < 0.5  # limits have costs, and attempts tell what they used
        self._scheduled = chance.random() < 0.3
        # Jobs of one key and one sort each: long lines, in which places and predictions are certain.
        self._plain = chance.random() < 0.2
        self._calm = chance.random() < 0.5  # fewer changes of rules, so that lines grow
        # What workers know is drawn apart, so that all else happens as it did before.  Which of the jobs of equal
        # limits is the first matters to drops.
        self._learning = random.Random(f"known in {seed}")
        # Relays are drawn apart too.
        self._relaying = random.Random(f"relays in {seed}")
        self._relays = self._relaying.choice(RELAYS)
        # So are how many jobs are to stand by.
        self._standing_by = random.Random(f"stands by in {seed}")
        self._standby = self._standing_by.choice(STANDBY)
        self._knowledge = self._learning.choice(KNOWLEDGE) if not self._drops else (None,)
        choices = self._choices()
        self._choose = [choose for _, choose in choices]
        self._weights = [weight for weight, _ in choices]

    def be_uniform(self) -> None:
        """Have all jobs of a key bring the same numbers and keep their cost, and no job come by a schedule or again."""
        self._plain, self._scheduled, self._unique, self._weighs = True, False, 0, False
        self._kinds = {key: kinds.replace("f", "c") for key, kinds in self._kinds.items()}
        self._weights = [weight for weight, _ in self._choices()]

    def history(self, steps: int) -> Iterator[Operation]:
        """Yield operations, each chosen by what the ones before it did."""
        yield from self._first()
        for _ in range(steps):
            operation = self._chance.choices(self._choose, self._weights)[0]()
            if self._chance.random() < 0.04 and operation[0] not in NO_CRASH_IN:
                operation = ("crash_in", self._chance.choice((1, 2, 3, 5, 8, 12, 18, 25, 40, 99)), operation)
            yield operation
            if any(self._standby) and self._standing_by.random() < LINES:
                yield from self._line_up()
        if self._world.mode == "C" and self._chance.random() < 0.2:
            yield ("press", PRESSED)
        if self._world.mode == "C" and self._chance.random() < 0.3:
            yield ("flow", self._chance.randint(0, 2**32), FLOWS)
        yield ("rest",)

    def _choices(self) -> list[tuple[float, Callable[[], Operation]]]:
        rules = 0.4 if self._calm else 1.5
        return [
            (20, self._enqueue),
            (22, self._claim),
            (16, self._settle),
            (6, self._exchange),
            (6, self._claims),
            (10 if self._world.mode == "C" else 0, self._claim_ahead),
            (18, self._advance),
            (6, lambda: ("begun", self._pick(self._world.hands))),
            (3, self._cancel),
            (2, self._retry),
            (1, self._expedite),
            (2, self._claim_one),
            (2, lambda: ("beat", self._pick(self._world.hands), LEASE)),
            (8 if self._weighs else 0, self._spend),
            (1, lambda: ("die", self._chance.choice(WORKERS))),
            (1.5, self._settle_late),
            (3 * rules, self._configure),
            (2 * rules, self._override),
            (rules, lambda: ("clear_override", *self._key())),
            (rules, lambda: (("shut", (key := self._key())[0], self._chance.choice(SPANS), key[1]))),
            (rules, lambda: ("pause", self._chance.choice(self._queues))),
            (2 * rules, lambda: ("resume", self._chance.choice(self._queues))),
            (2, lambda: ("upkeep",)),
            (4, lambda: ("why", self._pick(self._in(WAITING)))),
            (1, lambda: ("restart",)),
            (8 if "f" in {self._kinds[key] for key in self._keys} else 0, self._refresh),
            (1 if self._clock_is_set else 0, self._set_clock),
            (6 if self._scheduled else 0, self._schedule),
        ]

    def _line_up(self) -> list[Operation]:
        """Have jobs of keys of their own, or nearly so, in a queue of their own, of which some stand by."""
        chance = self._standing_by
        self._lined_up += 1
        jobs: list[dict[str, Any]] = [
            {
                "name": f"s{self._lined_up}-{n}",
                "queue": "by",
                "limits": ((chance.choice("STUVWX"), "c1", "wait"),),
            }
            for n in range(chance.randint(1, 6))
        ]
        if chance.random() < 0.3:
            chance.choice(jobs).update(
                chance.choice(({"lost_counts": True}, {"limits": ()}, {"task": "t2"}, {"priority": 1}))
            )
        worker, more = chance.choice(WORKERS), chance.randint(1, 5)
        return [
            ("enqueue", jobs),
            ("claim", ["by"], chance.randint(0, 2), LEASE, (0,), worker, None, SHORT, more),
        ]

    def _first(self) -> list[Operation]:
        """Have queues and types remember starts from the beginning, in histories where they have rates."""
        if not self._rated_scopes:
            return []
        scopes = (("queue", QUEUES), ("type", () if self._drops else TASKS))
        return [("configure", scope, name, self._ample(name)) for scope, names in scopes for name in names]

    # What users do.

    def _enqueue(self) -> Operation:
        if len(self._model.live) > CROWD and self._chance.random() < 0.8:
            return self._settle()
        jobs = [self._job() for _ in range(self._chance.choice((1, 1, 2, 3)))]
        if self._chance.random() < 0.25:
            jobs = [{**jobs[0], "name": job["name"]} for job in jobs]
        if self._chance.random() < self._unique:
            jobs[-1]["unique"] = self._uniqueness()
            if len(jobs[-1]["unique"]) > PLAIN_UNIQUE:
                jobs[-1].pop("due", None)
        return ("enqueue", jobs)

    def _job(self) -> dict[str, Any]:
        chance = self._chance
        self._jobs += 1
        cost = chance.choice((1, 1, 2, 3)) if self._heavy else 1
        ask: dict[str, Any] = {"name": f"j{self._jobs}", "queue": chance.choice(self._queues)}
        weighed = self._heavy and self._weighs and self._costs.random() < 0.7
        ask["limits"] = self._limits(3 if weighed else cost)
        if cost > 1:
            ask["cost"] = cost
        if weighed:
            ask["costs"] = {limit[0]: self._costs.choice((1, 2, 3)) for limit in ask["limits"]}
        if chance.random() < 0.5 and not self._plain:
            ask["task"] = "t2"
        if priority := chance.choice(self._priorities):
            ask["priority"] = priority
        if tenant := chance.choice(TENANTS):
            ask["tenant"] = tenant
        if chance.random() < 0.1:
            ask["due"] = chance.choice(SPANS)
        if chance.random() < 0.05:
            ask["expires"] = chance.choice(SPANS)
        if chance.random() < 0.3:
            ask |= {"attempts": chance.randint(2, 4), "delay": chance.choice((0, 0, *SPANS))}
            if ask["delay"] and chance.random() < 0.5:
                ask["lost_counts"] = True
        if chance.random() < 0.1:
            ask["discard"] = True
        return ask

    def _limits(self, cost: int) -> tuple[tuple[Any, ...], ...]:
        chance = self._chance
        if self._plain:
            key = chance.choice(self._keys)
            kinds = self._kinds[key].replace("f", "c")
            return ((key, self._numbers(key, kinds, cost, chance=random.Random(key)), "wait"),)
        keys = chance.sample(self._keys, min(chance.choice((0, 1, 1, 2, 3)), len(self._keys)))
        return tuple(
            self._floating(key)
            if self._kinds[key] == "f"
            else (key, self._own_numbers(key, cost), self._on_limit())
            for key in keys
        )

    def _floating(self, key: str) -> tuple[Any, ...]:
        """Return a limit that floats; for some jobs one that does not, on a key that perhaps does."""
        chance = self._chance
        floats = (key, f"c{chance.choice((1, 2))}", self._on_limit(), chance.choice((SECOND, 5 * SECOND)))
        return floats[:3] if self._beside_floating and self._jobs % 3 == 0 else floats

    def _uniqueness(self) -> tuple[Any, ...]:
        chance = self._chance
        if self._latest:
            live = (chance.choice("uv"), "scheduled,waiting,running", None, "replace")
            pause = chance.choice(SPANS)
            return (*live, (pause, pause + chance.choice(SPANS))) if chance.random() < 0.4 else live
        states = chance.choice(("scheduled,waiting,running", "scheduled,waiting", "waiting,running,done"))
        # A window is a date once it was given, so that histories in which the clock is set have none.
        window = None if self._clock_is_set or chance.random() < 0.6 else chance.choice(SPANS)
        return (chance.choice("uvw"), states, window, chance.choice(("reuse", "reject", "replace")))

    def _own_numbers(self, key: str, cost: int) -> str:
        kinds = self._kinds[key]
        return self._numbers(key, kinds[0] + self._chance.choice(("", kinds)), cost)

    def _numbers(self, name: str, kinds: str, least: int = 0, chance: random.Random | None = None) -> str:
        """Return numbers of these *kinds*; a rate allows at least *least*."""
        chance, period = chance or self._chance, self._periods[name]
        parts = {
            "c": f"c{chance.choice((1, 1, 2, 3))}",
            "r": f"r{max(least, chance.choice((1, 2, 3, 5)))}/{period}",
            "t": f"t{chance.choice((1, 2, 3))}/{period}",
        }
        if name in self._bursts:
            limit, burst = self._bursts[name]
            parts["t"] = f"t{limit}/{period}/{burst}"
        return ";".join(parts[kind] for kind in "crt" if kind in kinds)

    def _changed_numbers(self, scope: str, name: str) -> str:
        chance = self._chance
        kinds = self._kinds[name].replace("f", "c") if scope == "key" else "c"
        if chance.random() < 0.15:
            kind = chance.choice(kinds)
            return "c0" if kind == "c" else f"{kind}0/{self._periods[name]}"
        return self._numbers(name, "".join(chance.sample(kinds, chance.randint(1, len(kinds)))))

    def _rated_numbers(self, name: str) -> str:
        """Return numbers for a queue or type that always remembers starts."""
        rated, slotted, ample = self._numbers(name, "r"), self._numbers(name, "c"), self._ample(name)
        return self._chance.choice((rated, f"{slotted};{ample}", ample))

    def _ample(self, name: str) -> str:
        return f"r1000/{self._periods[name]}"

    def _on_limit(self) -> str:
        if self._chance.random() < self._drops:
            return "drop"
        return self._chance.choice(("wait", "wait", "reschedule"))

    def _cancel(self) -> Operation:
        return ("cancel", self._pick(self._model.live))

    def _retry(self) -> Operation:
        return ("retry", self._pick([job.name for job in self._model.jobs.values() if job.state not in LIVE]))

    def _expedite(self) -> Operation:
        return (
            "expedite",
            self._pick([job.name for job in self._model.live.values() if job.due > self._model.now]),
        )

    def _claim_one(self) -> Operation:
        return ("claim_one", self._pick(self._model.live), self._chance.choice((0, 0, 20_000, None)))

    def _configure(self) -> Operation:
        chance = self._chance
        scope = chance.choice(self._scopes)
        if scope == "key":
            key, tenant = self._key()
            text = None if chance.random() < 0.4 else self._changed_numbers(scope, key)
            return ("configure", scope, key, text, tenant)
        name = chance.choice(self._queues if scope == "queue" else TASKS)
        if self._rated_scopes:
            return ("configure", scope, name, self._rated_numbers(name))
        text = None if chance.random() < 0.4 else self._changed_numbers(scope, name)
        return ("configure", scope, name, text)

    def _override(self) -> Operation:
        key, tenant = self._key()
        text = self._changed_numbers("key", key)
        return ("override", key, text, self._chance.choice((None, *SPANS)), tenant)

    def _key(self) -> tuple[str, str]:
        key = self._chance.choice(self._keys)
        return key, "" if key.startswith("*") else self._chance.choice(TENANTS)

    def _schedule(self) -> Operation:
        chance = self._chance
        name = chance.choice(("s1", "s2"))
        if chance.random() < 0.3:
            return ("enable_schedule", name, chance.random() < 0.7)
        if chance.random() < 0.5:
            return ("advance", chance.choice((10, 30, 60, 70)) * SECOND)
        kept = {"queue", "limits", "task", "priority"}
        ask = {fact: value for fact, value in self._job().items() if fact in kept}
        minutes, overlap = chance.choice((1, 2)), chance.choice(("allow", "skip", "cancel_previous", "wait"))
        return ("schedule", name, minutes, ask, overlap)

    # What workers do.

    def _claim_ahead(self) -> Operation:
        """Claim as a worker that begins jobs at their moments."""
        chance, (_, queues, count, _, _, worker, known, *_) = self._chance, self._claim()
        lags = tuple(chance.choice((0, 0, MS // 2, MS, 10 * MS)) for _ in range(3))
        return ("claim_ahead", queues, max(count, 1) + chance.choice((0, 4)), lags, worker, known)

    def _claim(self) -> Operation:
        chance = self._chance
        queues = chance.sample(self._queues, chance.randint(1, len(self._queues)))
        lags = tuple(chance.choice(LAGS) for _ in range(3))
        lease = LEASE if chance.random() < 0.8 else chance.choice((SECOND, 60 * SECOND))
        known = self._learning.choice(self._knowledge)
        relay = self._relaying.choice(self._relays)
        asked = ("claim", queues, chance.randint(1, 6), lease, lags, chance.choice(WORKERS), known)
        if relay is None:
            return asked
        if not (standby := self._standing_by.choice(self._standby)):
            return (*asked, relay)
        count = 0 if self._standing_by.random() < FULL else asked[2]
        return (*asked[:2], count, *asked[3:], relay, standby)

    def _claims(self) -> Operation:
        """Claim for several workers at once, often for the same queues."""
        if self._world.mode == "C":
            return self._claim()  # what each leaves behind is explained by the turns of its moment
        chance = self._chance
        asked = [self._claim() for _ in range(chance.randint(2, 4))]
        same = chance.random() < 0.4
        requests = [
            ((asked[0] if same else one)[1], max(one[2], 1), LEASE if same else one[3], *one[5:7])
            for one in asked
        ]
        return ("claims", requests, asked[0][4], chance.choice(("priority", "strict")))

    def _settle(self) -> Operation:
        return ("settle", self._reports())

    def _exchange(self) -> Operation:
        return ("exchange", self._reports(), *self._claim()[1:])

    def _reports(self) -> list[tuple[str, Operation, bool]]:
        hands = list(self._world.hands)
        names = self._chance.sample(hands, min(len(hands), self._chance.choice((1, 2, 3, 5))))
        told = [(name, self._outcome(), self._chance.random() < 0.4) for name in names]
        weighs = self._weighs and self._costs.random() < 0.4
        return [(*report, self._used(report[0])) for report in told] if weighs else told

    def _spend(self) -> Operation:
        late = self._costs.random() < 0.1
        name = self._pick(self._world.former if late else self._world.hands)
        return ("spend", name, self._used(name), late)

    def _used(self, name: str) -> dict[str, int]:
        limits = self._model.jobs[name].ask.get("limits", ()) if name else ()
        return {
            limit[0]: self._costs.choice((0, 1, 1, 2, 4)) for limit in limits if self._costs.random() < 0.7
        }

    def _outcome(self) -> Operation:
        chance = self._chance
        match kind := chance.choice(OUTCOMES):
            case "again":
                return (kind, chance.choice((None, 0, *SPANS)))
            case "limited":
                return (kind, chance.choice(SPANS), chance.choice((None, *KEYS)))
            case _:
                return (kind,)

    def _settle_late(self) -> Operation:
        return ("settle_late", self._pick(self._world.former))

    def _refresh(self) -> Operation:
        chance = self._chance
        if not self._world.lent or chance.random() < 0.5:
            return ("refreshes", chance.choice(WORKERS), chance.choice((100 * MS, SECOND, LEASE)))
        _, tenant, key = chance.choice(sorted(self._world.lent))
        value, old = chance.choice((None, 0, 1, 1, 2, 3)), chance.random() < 0.3
        if value == 0 and self._jobs % 2:
            return ("renew_refresh", key, tenant, LEASE, old)
        return ("refreshed", key, tenant, value, old)

    # What fate does.

    def _advance(self) -> Operation:
        chance = self._chance
        if chance.random() < 0.05:
            return ("advance", LEASE + chance.choice((-1, 0, 1)))
        if chance.random() < 0.15 and (moment := self._model.next_moment()) is not None:
            return ("advance", max(moment - self._world.now - chance.choice((0, 1)), 0))
        return ("advance", chance.choice(SPANS))

    def _set_clock(self) -> Operation:
        return ("set_clock", self._chance.choice((-3_600, -7, -1, 2, 60, 86_400)) * SECOND)

    def _in(self, state: str) -> list[str]:
        return [job.name for job in self._model.live.values() if job.state == state]

    def _pick(self, names: "Sequence[str] | dict[str, Any]") -> str:
        return self._chance.choice(list(names)) if names else ""
