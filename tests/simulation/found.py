"""What random histories found, each shrunk to the few operations that matter, and a wound that it notices.

Numbers are `c` slots, `r` rate and `t` throttle; times are microseconds.
"""

from typing import Any

from tests.simulation.world import Operation

LATEST = ("u", "scheduled,waiting,running", None, "replace")


def found(wound: str, *history: Operation, mode: str = "A") -> tuple[str, str, list[Operation]]:
    return mode, wound, list(history)


def enqueue(*jobs: dict[str, Any]) -> Operation:
    return ("enqueue", list(jobs))


def job(name: str, *limits: str, queue: str = "q", **facts: Any) -> dict[str, Any]:
    """Ask for a job with *limits* such as `X c2`, `X c2 drop`, or `X c2 wait 5000000` if a worker computes them."""
    if limits:
        facts["limits"] = [_limit(*limit.split()) for limit in limits]
    return {"name": name, "queue": queue, **facts}


def _limit(key: str, numbers: str, on_limit: str = "wait", *every: str) -> tuple[Any, ...]:
    return (key, numbers, on_limit, *map(int, every))


# By name: the mode, the wound, the history.
FOUND = {
    "a limit of its type that was set later keeps a job, and why says so": found(
        "a why that forgets the type",
        enqueue(job("a")),
        ("configure", "type", "t1", "c0"),
        ("why", "a"),
    ),
    "a job too heavy for what is left of its queue's rate is told so": found(
        "a why that forgets the queue",
        ("configure", "queue", "q", "r2/3000000"),
        enqueue(job("a"), job("b", cost=2)),
        ("claim", ["q"], 1),
        ("why", "b"),
        mode="B",
    ),
    "one that was claimed and has not begun yet does not make a prediction too late": found(
        "a prediction that counts none ahead",
        enqueue(job("a", "X r2/200000")),
        ("claim", ["q"], 1),
        enqueue(job("b", "X r2/200000"), job("c", "X r2/200000")),
        ("why", "c"),
    ),
    "a begin told after the clock was set back is remembered when it was, though the attempt is handed back": found(
        "begins that do not move with the clock",
        enqueue(job("a", "X c1;r5/100000;t3/100000")),
        ("claim", ["q"], 1, 15_000_000, (10_000,)),
        ("set_clock", -1_000_000),
        ("advance", 1_000_000),
        ("upkeep",),
        ("settle", [("a", ("handed back",), True)]),
        ("claim", ["q"], 1),
        mode="C",
    ),
    "a begin told after the clock was set back opens the gate of another queue on time": found(
        "begins that do not move with the clock",
        enqueue(job("a", "X c1;t2/100000", queue="q1")),
        ("set_clock", -1_000_000),
        enqueue(job("b", "X c1;t2/100000", queue="q2")),
        ("claim", ["q2"], 1),
        ("advance", 1_000_000),
        ("upkeep",),
        ("settle", [("b", ("done",), True)]),
        ("claim", ["q1"], 1),
    ),
    "a job whose type was paused since it came is not given the turn": found(
        "a turn for a job whose type is limited since it came",
        enqueue(job("j5", "A r2/3000000", queue="q1"), job("j6", "A r2/3000000", queue="q1")),
        enqueue(job("j13", "A r3/3000000", queue="q1", cost=2)),
        ("claim", ["q1"], 1, 15_000_000, (44_000, 10_000, 44_000), "w3"),
        ("override", "A", "r0/3000000", 10_000, ""),
        enqueue(job("j44", "A c2;r3/3000000 reschedule", queue="q1", cost=3, task="t2")),
        ("advance", 1_000_000),
        ("claim", ["q1"], 1, 15_000_000, (1000, 10_000, 1000), "w1"),
        enqueue(job("j46", "A r3/3000000 reschedule", queue="q1")),
        ("advance", 3_000_000),
        ("claim", ["q1"], 1, 60_000_000, (44_000, 10_000, None), "w2"),
        ("advance", 200_000),
        ("claim", ["q1"], 1, 1_000_000, (0, None, 0), "w1"),
        ("advance", 2_850_000),
        ("configure", "type", "t2", "c0"),
        ("claim", ["q1"], 1, 15_000_000, (1000, None, None), "w1"),
        mode="C",
    ),
    "a turn ends when the type of its holder is paused": found(
        "a turn that outlives the pause of its holder's type",
        enqueue(job("j1", "A c1", queue="q2", task="t2")),
        enqueue(job("j7", "*E c1 wait 5000000", queue="q2")),
        ("claim", ["q2"], 1, 15_000_000, (1000, 44_000, 0), "w3"),
        enqueue(
            job("j17", "D c1;r2/200000;t1/200000", "*E c2 reschedule 5000000", "A c1 reschedule", queue="q1")
        ),
        enqueue(job("j20", "*E c2 reschedule 5000000", queue="q1")),
        ("shut", "D", 50_000, ""),
        ("override", "A", "c2", 3_000_000, ""),
        ("claim", ["q1"], 1, 15_000_000, (1000, 10_000, 0), "w2"),
        ("advance", 100_000),
        ("claim", ["q1"], 1, 60_000_000, (1000, 10_000, 10_000), "w2"),
        ("settle", [("j20", ("handed back",), False)]),
        ("claim", ["q1", "q2"], 2, 1_000_000, (10_000, 1000, 10_000), "w3"),
        ("advance", 3_000_000),
        ("claim", ["q1"], 1, 15_000_000, (0, 44_000, 44_000), "w1"),
        ("advance", 15_000_001),
        ("configure", "type", "t1", "c0"),
        ("claim", ["q2"], 1, 1_000_000, (10_000, 44_000, 44_000), "w2"),
        mode="C",
    ),
    "a job that ends with its lease leaves its lane's next where it stands": found(
        "an end that drops the next of its lane",
        enqueue(
            job("j1", "D c1;t3/100000 drop", "C c2;r2/3000000;t2/3000000", queue="q2"),
            job("j2", "D c1;t3/100000 drop", "C c2;r2/3000000;t2/3000000", queue="q2"),
        ),
        ("claim", ["q2"], 1, 15_000_000, (1000, 44_000, 0), "w1"),
        ("cancel", "j1"),
        enqueue(job("j4", "D c3;t3/100000 reschedule", queue="q1")),
        ("advance", 200_000),
        ("claim", ["q1"], 1, 15_000_000, (10_000, 44_000, 0), "w3"),
        ("advance", 14_999_999),
        ("claim", ["q1"], 1, 1_000_000, (0, 0, 0), "w2"),
    ),
    "a prediction counts rate and throttle of those ahead together": found(
        "a prediction that adds rate and throttle",
        enqueue(
            job("j25", "A c2;r1/3000000;t1/3000000", queue="q2", task="t2"),
            job("j26", "A c2;r1/3000000;t1/3000000", queue="q2", task="t2"),
        ),
        ("why", "j26"),
    ),
    "a prediction counts rate and throttle together after a start": found(
        "a prediction that adds rate and throttle",
        enqueue(job("j3", "D c1;r3/3000000;t3/3000000 drop", queue="q1")),
        ("claim", ["q1"], 1, 60_000_000, (None, 1000, None), "w3"),
        ("settle", [("j3", ("done",), True)]),
        enqueue(
            job("j6", "D c3;r3/3000000;t3/3000000", queue="q2"),
            job("j7", "D c3;r3/3000000;t3/3000000", queue="q2"),
            job("j8", "D c3;r3/3000000;t3/3000000", queue="q2"),
        ),
        ("why", "j8"),
    ),
    "a begin told after the clock was set back opens a throttle on time": found(
        "begins that do not move with the clock",
        enqueue(job("j55", "A t1/3000000", queue="q1"), job("j56", "A c3;t2/3000000 reschedule", queue="q1")),
        ("set_clock", -1_000_000),
        ("claim", ["q1"], 1, 15_000_000, (1000, 44_000, None), "w2"),
        ("advance", 1_000_000),
        ("rest",),
        mode="C",
    ),
    "two light starts at one moment are not one heavy start": found(
        "starts of one moment taken for a heavy one",
        enqueue(job("a", "X r3/3000000")),
        enqueue(job("b", "X r3/3000000")),
        ("claim", ["q"], 3),
        ("advance", 1_550_000),
        enqueue(job("c", "X r3/3000000;t2/3000000")),
        ("claim", ["q"], 1),
    ),
    "an attempt handed back after it began counts from when it began": found(
        "a begin forgotten when the attempt is handed back",
        enqueue(job("a", "X t2/100000")),
        ("claim", ["q"], 1),
        ("settle", [("a", ("handed back",), True)]),
        ("claim", ["q"], 1),
        ("advance", 51_000),
        ("claim", ["q"], 1),
    ),
    "a cancel outlives being limited by the called system": found(
        "a cancel forgotten when the attempt is handed back",
        enqueue(job("a")),
        ("claim", ["q"], 1),
        ("cancel", "a"),
        ("settle", [("a", ("limited", 500_000, "X"), False)]),
    ),
    "a cancelled job that is retried by hand after its time to live runs": found(
        "a retry by hand that keeps its time to live",
        enqueue(job("a", expires=500_000)),
        ("cancel", "a"),
        ("advance", 3_000_000),
        ("retry", "a"),
        ("claim", ["q"], 1),
    ),
    "a job that is due, dropped and expired at one moment ends once": found(
        "a dropped job that expires too",
        ("configure", "key", "X", "c0"),
        enqueue(job("a", "X c1 drop", due=50_000, expires=50_000)),
        ("advance", 200_000),
        ("claim", ["q"], 1),
    ),
    "a job whose type was configured later keeps its place": found(
        "a job of a type limited since that goes to the back",
        enqueue(job("a", task="t2")),
        ("configure", "type", "t2", "c1"),
        enqueue(job("b"), job("c", task="t2")),
        ("claim", ["q"], 1),
    ),
    "a newcomer that comes before its like is dropped at a shut gate": found(
        "a first newcomer that is not dropped",
        enqueue(job("a", "X c1 drop")),
        ("shut", "X", 500_000),
        enqueue(job("b", "X c1 drop", priority=1)),
    ),
    "a parked job that became too heavy does not block its line": found(
        "a parked job too heavy for its key that blocks its line",
        enqueue(job("a", "X r5/100000", cost=3)),
        enqueue(job("b", "X r5/100000", cost=3)),
        ("claim", ["q"], 1),
        ("claim", ["q"], 1),
        ("override", "X", "r2/100000", None),
        enqueue(job("c", "X r5/100000 reschedule")),
        ("advance", 1_000_000),
        ("claim", ["q"], 1),
        mode="B",
    ),
    "a job too heavy for its queue does not block its like": found(
        "a job too heavy for its queue that blocks its lane",
        ("configure", "type", "t1", "r1000/100000"),
        enqueue(job("a", cost=3), job("b")),
        ("configure", "queue", "q", "r2/200000"),
        ("claim", ["q"], 1),
        mode="B",
    ),
    "a job once too heavy for its key and now for its queue does not block the queue": found(
        "a job set apart from its key that blocks its queue",
        ("configure", "queue", "q", "r1/100000"),
        ("configure", "key", "X", "r2/200000"),
        enqueue(job("a")),
        enqueue(job("b", "X r3/200000", cost=3, priority=1)),
        ("configure", "key", "X", "r3/200000"),
        ("claim", ["q"], 1),
        mode="B",
    ),
    "a heavy start weighs on its queue's rate": found(
        "a heavy start that a queue takes for a light one",
        ("configure", "queue", "q", "r3/200000"),
        enqueue(job("a", cost=2), job("b", cost=2)),
        ("claim", ["q"], 2),
        mode="B",
    ),
    "a heavy throttled start is remembered for all its gaps": found(
        "a heavy start forgotten after one gap",
        enqueue(job("a", "X t1/200000", cost=3)),
        enqueue(job("b", "X t1/200000")),
        ("claim", ["q"], 1),
        ("advance", 500_000),
        enqueue(job("c", "X t3/200000")),
        ("claim", ["q"], 1, 15_000_000, (None,)),
        ("settle", [("c", ("handed back",), False)]),
        ("claim", ["q"], 1),
        mode="B",
    ),
    "no turn stands while a gate of its holder lets nothing through": found(
        "a turn that stands whatever shuts its gates",
        ("configure", "key", "X", "t0/500000"),
        enqueue(job("a", "Y t3/3000000", queue="p")),
        enqueue(job("b", "X t1/500000", "Y t3/3000000"), job("c", "Y t3/3000000 reschedule")),
        ("override", "X", "t2/500000", 1000),
        ("claim", ["p", "q"], 2),
        ("advance", 3_000_000),
        ("claim", ["q"], 1),
        ("override", "X", "t3/500000", 10_000),
        ("claim", ["q"], 1),
        ("advance", 15_000_000),
        ("claim", ["q"], 1),
        mode="C",
    ),
    "tenants are in rotation across the queues of one claim": found(
        "a rotation of tenants that begins again in each queue",
        enqueue(job("a", queue="p"), job("b")),
        enqueue(job("c", tenant="x")),
        ("claims", [(["p", "q"], 6, 15_000_000, "w1")], (0,), "strict"),
    ),
    "a shared gate shows the jobs of all tenants that are on their way to it": found(
        "a shared gate that does not count jobs at the door",
        enqueue(job("a", unique=LATEST, tenant="x")),
        ("claim", ["q"], 1),
        *[("advance", 1)] * 5,
        enqueue(job("b", "*E c1", unique=LATEST, tenant="x")),
    ),
    "each call of a key lengthens the pause it waits for": found(
        "a pause that no call lengthens",
        enqueue(job("a", unique=(*LATEST, (500_000, 3_000_000)))),
        ("advance", 200_000),
        enqueue(job("b", unique=(*LATEST, (500_000, 3_000_000)))),
        ("advance", 400_000),
        ("claim", ["q"], 1),
    ),
    "the latest call has the place of the attempt that it replaces when that is handed back": found(
        "a latest call that a rescue puts last",
        enqueue(job("a", unique=LATEST), job("b")),
        ("claim", ["q"], 1),
        enqueue(job("c", unique=LATEST)),
        ("settle", [("a", ("handed back",), False)]),
        ("claim", ["q"], 1),
    ),
    "the longest wait for a pause begins again with the first call after a start": found(
        "a pause that counts calls that were served",
        enqueue(job("a", unique=(*LATEST, (500_000, 1_000_000)))),
        ("advance", 500_000),
        ("claim", ["q"], 1),
        ("advance", 1_000_000),
        enqueue(job("b", unique=(*LATEST, (500_000, 1_000_000)))),
        ("settle", [("a", ("done",), True)]),
        ("claim", ["q"], 1),
    ),
    "a job that expires right after the one before it is not told to be blocked once more": found(
        "a job that is told to be blocked after its end",
        enqueue(job("a", "X c1")),
        ("claim", ["q"], 5),
        enqueue(job("b", "X c1", expires=50_000), job("c", "X c1", expires=50_000)),
        ("advance", 3_000_000),
        ("claim", ["q"], 1),
        ("retry", "c"),
        mode="B",
    ),
    "a job that was told to be blocked is not told so once more when it starts in the claim that refuses it": found(
        "a job that is told to be blocked where it starts",
        enqueue(job("a", "X c1"), job("b", "Y c1", "X c2", queue="p")),
        ("claim", ["q"], 1, 15_000_000, (0,), "w2", ("u",)),
        enqueue(job("c", "Y c1")),
        ("claim", ["q"], 2, 15_000_000, (44_000, None), "w1", ("t*",)),
        enqueue(
            job("d", "X c1 reschedule", "Y c2", due=51_000),
            job("e", "X c1 reschedule", "Y c2"),
            job("f", "X c1 reschedule", "Y c2"),
        ),
        ("advance", 1_000_000),
        enqueue(job("g", "X c3", "Y c1", task="t2")),
        ("upkeep",),
        enqueue(job("h", "Y c1")),
        ("rest",),
        mode="C",
    ),
    "a job that moves to a parked lane is told to be blocked": found(
        "a job that moves to a parked lane untold",
        enqueue(job("a", "X c1;r2/500000")),
        ("configure", "type", "t1", "c0"),
        enqueue(job("b", "X c1;r2/500000")),
        ("claim", ["q"], 1),
        mode="C",
    ),
    "a job that a turn kept from its gate starts when the turn stands no longer": found(
        "a turn that is not looked at again when the clock has opened its gate",
        enqueue(job("a", "Y c1;r3/3000000;t1/3000000")),
        enqueue(job("b", "X c1;r3/3000000;t2/3000000", "Y c1;r3/3000000;t1/3000000", priority=1)),
        enqueue(
            job("c", "X c2;r3/3000000;t3/3000000"),
            job("d", "X c3;r3/3000000;t1/3000000", queue="p", costs={"X": 3}),
        ),
        ("claim", ["p"], 1, 15_000_000, (0,)),
        ("advance", 3_500_000),
        ("claim", ["q"], 2, 60_000_000, (10_000, 44_000)),
        ("advance", 51_000),
        ("settle", [("a", ("done",), False)]),
        ("advance", 1_000_000),
        ("claim", ["q"], 1),
        mode="C",
    ),
}
