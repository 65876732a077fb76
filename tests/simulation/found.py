"""What random histories found, each shrunk to the few operations that matter, and a wound that it notices.

Numbers are `c` slots, `r` rate and `t` throttle; times are microseconds.
"""

from tests.simulation.world import Operation

# By name: the mode, the wound, the history.
FOUND: dict[str, tuple[str, str, list[Operation]]] = {
    "a limit of its type that was set later keeps a job, and why says so": (
        "A",
        "a why that forgets the type",
        [
            ("enqueue", [{"name": "a", "queue": "q"}]),
            ("configure", "type", "t1", "c0"),
            ("why", "a"),
        ],
    ),
    "a job too heavy for what is left of its queue's rate is told so": (
        "B",
        "a why that forgets the queue",
        [
            ("configure", "queue", "q", "r2/3000000"),
            ("enqueue", [{"name": "a", "queue": "q"}, {"name": "b", "queue": "q", "cost": 2}]),
            ("claim", ["q"], 1),
            ("why", "b"),
        ],
    ),
    "one that was claimed and has not begun yet does not make a prediction too late": (
        "A",
        "a prediction that counts none ahead",
        [
            ("enqueue", [{"name": "a", "queue": "q", "limits": (("X", "r2/200000", "wait"),)}]),
            ("claim", ["q"], 1),
            (
                "enqueue",
                [{"name": name, "queue": "q", "limits": (("X", "r2/200000", "wait"),)} for name in "bc"],
            ),
            ("why", "c"),
        ],
    ),
    "a begin told after the clock was set back is remembered when it was, though the attempt is handed back": (
        "C",
        "begins that do not move with the clock",
        [
            ("enqueue", [{"name": "a", "queue": "q", "limits": (("X", "c1;r5/100000;t3/100000", "wait"),)}]),
            ("claim", ["q"], 1, 15_000_000, (10_000,)),
            ("set_clock", -1_000_000),
            ("advance", 1_000_000),
            ("upkeep",),
            ("settle", [("a", ("handed back",), True)]),
            ("claim", ["q"], 1),
        ],
    ),
    "a begin told after the clock was set back opens the gate of another queue on time": (
        "A",
        "begins that do not move with the clock",
        [
            ("enqueue", [{"name": "a", "queue": "q1", "limits": (("X", "c1;t2/100000", "wait"),)}]),
            ("set_clock", -1_000_000),
            ("enqueue", [{"name": "b", "queue": "q2", "limits": (("X", "c1;t2/100000", "wait"),)}]),
            ("claim", ["q2"], 1),
            ("advance", 1_000_000),
            ("upkeep",),
            ("settle", [("b", ("done",), True)]),
            ("claim", ["q1"], 1),
        ],
    ),
    "a job whose type was paused since it came is not given the turn": (
        "C",
        "a turn for a job whose type is limited since it came",
        [
            (
                "enqueue",
                [
                    {"name": "j5", "queue": "q1", "limits": (("A", "r2/3000000", "wait"),)},
                    {"name": "j6", "queue": "q1", "limits": (("A", "r2/3000000", "wait"),)},
                ],
            ),
            (
                "enqueue",
                [{"name": "j13", "queue": "q1", "limits": (("A", "r3/3000000", "wait"),), "cost": 2}],
            ),
            ("claim", ["q1"], 1, 15000000, (44000, 10000, 44000), "w3"),
            ("override", "A", "r0/3000000", 10000, ""),
            (
                "enqueue",
                [
                    {
                        "name": "j44",
                        "queue": "q1",
                        "limits": [("A", "c2;r3/3000000", "reschedule")],
                        "cost": 3,
                        "task": "t2",
                    }
                ],
            ),
            ("advance", 1000000),
            ("claim", ["q1"], 1, 15000000, (1000, 10000, 1000), "w1"),
            ("enqueue", [{"name": "j46", "queue": "q1", "limits": [("A", "r3/3000000", "reschedule")]}]),
            ("advance", 3000000),
            ("claim", ["q1"], 1, 60000000, (44000, 10000, None), "w2"),
            ("advance", 200000),
            ("claim", ["q1"], 1, 1000000, (0, None, 0), "w1"),
            ("advance", 2850000),
            ("configure", "type", "t2", "c0"),
            ("claim", ["q1"], 1, 15000000, (1000, None, None), "w1"),
        ],
    ),
    "a turn ends when the type of its holder is paused": (
        "C",
        "a turn that outlives the pause of its holder's type",
        [
            ("enqueue", [{"name": "j1", "queue": "q2", "limits": (("A", "c1", "wait"),), "task": "t2"}]),
            ("enqueue", [{"name": "j7", "queue": "q2", "limits": [("*E", "c1", "wait", 5000000)]}]),
            ("claim", ["q2"], 1, 15000000, (1000, 44000, 0), "w3"),
            (
                "enqueue",
                [
                    {
                        "name": "j17",
                        "queue": "q1",
                        "limits": (
                            ("D", "c1;r2/200000;t1/200000", "wait"),
                            ("*E", "c2", "reschedule", 5000000),
                            ("A", "c1", "reschedule"),
                        ),
                    }
                ],
            ),
            ("enqueue", [{"name": "j20", "queue": "q1", "limits": [("*E", "c2", "reschedule", 5000000)]}]),
            ("shut", "D", 50000, ""),
            ("override", "A", "c2", 3000000, ""),
            ("claim", ["q1"], 1, 15000000, (1000, 10000, 0), "w2"),
            ("advance", 100000),
            ("claim", ["q1"], 1, 60000000, (1000, 10000, 10000), "w2"),
            ("settle", [("j20", ("handed back",), False)]),
            ("claim", ["q1", "q2"], 2, 1000000, (10000, 1000, 10000), "w3"),
            ("advance", 3000000),
            ("claim", ["q1"], 1, 15000000, (0, 44000, 44000), "w1"),
            ("advance", 15000001),
            ("configure", "type", "t1", "c0"),
            ("claim", ["q2"], 1, 1000000, (10000, 44000, 44000), "w2"),
        ],
    ),
    "a job that ends with its lease leaves its lane's next where it stands": (
        "A",
        "an end that drops the next of its lane",
        [
            (
                "enqueue",
                [
                    {
                        "name": "j1",
                        "queue": "q2",
                        "limits": (("D", "c1;t3/100000", "drop"), ("C", "c2;r2/3000000;t2/3000000", "wait")),
                    },
                    {
                        "name": "j2",
                        "queue": "q2",
                        "limits": (("D", "c1;t3/100000", "drop"), ("C", "c2;r2/3000000;t2/3000000", "wait")),
                    },
                ],
            ),
            ("claim", ["q2"], 1, 15000000, (1000, 44000, 0), "w1"),
            ("cancel", "j1"),
            ("enqueue", [{"name": "j4", "queue": "q1", "limits": [("D", "c3;t3/100000", "reschedule")]}]),
            ("advance", 200000),
            ("claim", ["q1"], 1, 15000000, (10000, 44000, 0), "w3"),
            ("advance", 14999999),
            ("claim", ["q1"], 1, 1000000, (0, 0, 0), "w2"),
        ],
    ),
    "a prediction counts rate and throttle of those ahead together": (
        "A",
        "a prediction that adds rate and throttle",
        [
            (
                "enqueue",
                [
                    {
                        "name": "j25",
                        "queue": "q2",
                        "limits": (("A", "c2;r1/3000000;t1/3000000", "wait"),),
                        "task": "t2",
                    },
                    {
                        "name": "j26",
                        "queue": "q2",
                        "limits": (("A", "c2;r1/3000000;t1/3000000", "wait"),),
                        "task": "t2",
                    },
                ],
            ),
            ("why", "j26"),
        ],
    ),
    "a prediction counts rate and throttle together after a start": (
        "A",
        "a prediction that adds rate and throttle",
        [
            (
                "enqueue",
                [{"name": "j3", "queue": "q1", "limits": (("D", "c1;r3/3000000;t3/3000000", "drop"),)}],
            ),
            ("claim", ["q1"], 1, 60000000, (None, 1000, None), "w3"),
            ("settle", [("j3", ("done",), True)]),
            (
                "enqueue",
                [
                    {"name": "j6", "queue": "q2", "limits": (("D", "c3;r3/3000000;t3/3000000", "wait"),)},
                    {"name": "j7", "queue": "q2", "limits": (("D", "c3;r3/3000000;t3/3000000", "wait"),)},
                    {"name": "j8", "queue": "q2", "limits": (("D", "c3;r3/3000000;t3/3000000", "wait"),)},
                ],
            ),
            ("why", "j8"),
        ],
    ),
    "a begin told after the clock was set back opens a throttle on time": (
        "C",
        "begins that do not move with the clock",
        [
            (
                "enqueue",
                [
                    {"name": "j55", "queue": "q1", "limits": (("A", "t1/3000000", "wait"),)},
                    {"name": "j56", "queue": "q1", "limits": [("A", "c3;t2/3000000", "reschedule")]},
                ],
            ),
            ("set_clock", -1000000),
            ("claim", ["q1"], 1, 15000000, (1000, 44000, None), "w2"),
            ("advance", 1000000),
            ("rest",),
        ],
    ),
    "two light starts at one moment are not one heavy start": (
        "A",
        "starts of one moment taken for a heavy one",
        [
            ("enqueue", [{"name": "a", "queue": "q", "limits": (("X", "r3/3000000", "wait"),)}]),
            ("enqueue", [{"name": "b", "queue": "q", "limits": (("X", "r3/3000000", "wait"),)}]),
            ("claim", ["q"], 3),
            ("advance", 1550000),
            ("enqueue", [{"name": "c", "queue": "q", "limits": (("X", "r3/3000000;t2/3000000", "wait"),)}]),
            ("claim", ["q"], 1),
        ],
    ),
    "an attempt handed back after it began counts from when it began": (
        "A",
        "a begin forgotten when the attempt is handed back",
        [
            ("enqueue", [{"name": "a", "queue": "q", "limits": (("X", "t2/100000", "wait"),)}]),
            ("claim", ["q"], 1),
            ("settle", [("a", ("handed back",), True)]),
            ("claim", ["q"], 1),
            ("advance", 51000),
            ("claim", ["q"], 1),
        ],
    ),
    "a cancel outlives being limited by the called system": (
        "A",
        "a cancel forgotten when the attempt is handed back",
        [
            ("enqueue", [{"name": "a", "queue": "q"}]),
            ("claim", ["q"], 1),
            ("cancel", "a"),
            ("settle", [("a", ("limited", 500000, "X"), False)]),
        ],
    ),
    "a cancelled job that is retried by hand after its time to live runs": (
        "A",
        "a retry by hand that keeps its time to live",
        [
            ("enqueue", [{"name": "a", "queue": "q", "expires": 500000}]),
            ("cancel", "a"),
            ("advance", 3000000),
            ("retry", "a"),
            ("claim", ["q"], 1),
        ],
    ),
    "a job that is due, dropped and expired at one moment ends once": (
        "A",
        "a dropped job that expires too",
        [
            ("configure", "key", "X", "c0"),
            (
                "enqueue",
                [
                    {
                        "name": "a",
                        "queue": "q",
                        "limits": (("X", "c1", "drop"),),
                        "due": 50000,
                        "expires": 50000,
                    }
                ],
            ),
            ("advance", 200000),
            ("claim", ["q"], 1),
        ],
    ),
    "a job whose type was configured later keeps its place": (
        "A",
        "a job of a type limited since that goes to the back",
        [
            ("enqueue", [{"name": "a", "queue": "q", "task": "t2"}]),
            ("configure", "type", "t2", "c1"),
            ("enqueue", [{"name": "b", "queue": "q"}, {"name": "c", "queue": "q", "task": "t2"}]),
            ("claim", ["q"], 1),
        ],
    ),
    "a newcomer that comes before its like is dropped at a shut gate": (
        "A",
        "a first newcomer that is not dropped",
        [
            ("enqueue", [{"name": "a", "queue": "q", "limits": (("X", "c1", "drop"),)}]),
            ("shut", "X", 500000),
            ("enqueue", [{"name": "b", "queue": "q", "limits": (("X", "c1", "drop"),), "priority": 1}]),
        ],
    ),
    "a parked job that became too heavy does not block its line": (
        "B",
        "a parked job too heavy for its key that blocks its line",
        [
            ("enqueue", [{"name": "a", "queue": "q", "limits": (("X", "r5/100000", "wait"),), "cost": 3}]),
            ("enqueue", [{"name": "b", "queue": "q", "limits": (("X", "r5/100000", "wait"),), "cost": 3}]),
            ("claim", ["q"], 1),
            ("claim", ["q"], 1),
            ("override", "X", "r2/100000", None),
            ("enqueue", [{"name": "c", "queue": "q", "limits": (("X", "r5/100000", "reschedule"),)}]),
            ("advance", 1000000),
            ("claim", ["q"], 1),
        ],
    ),
    "a job too heavy for its queue does not block its like": (
        "B",
        "a job too heavy for its queue that blocks its lane",
        [
            ("configure", "type", "t1", "r1000/100000"),
            ("enqueue", [{"name": "a", "queue": "q", "cost": 3}, {"name": "b", "queue": "q"}]),
            ("configure", "queue", "q", "r2/200000"),
            ("claim", ["q"], 1),
        ],
    ),
    "a job once too heavy for its key and now for its queue does not block the queue": (
        "B",
        "a job set apart from its key that blocks its queue",
        [
            ("configure", "queue", "q", "r1/100000"),
            ("configure", "key", "X", "r2/200000"),
            ("enqueue", [{"name": "a", "queue": "q"}]),
            (
                "enqueue",
                [
                    {
                        "name": "b",
                        "queue": "q",
                        "limits": (("X", "r3/200000", "wait"),),
                        "cost": 3,
                        "priority": 1,
                    }
                ],
            ),
            ("configure", "key", "X", "r3/200000"),
            ("claim", ["q"], 1),
        ],
    ),
    "a heavy start weighs on its queue's rate": (
        "B",
        "a heavy start that a queue takes for a light one",
        [
            ("configure", "queue", "q", "r3/200000"),
            ("enqueue", [{"name": "a", "queue": "q", "cost": 2}, {"name": "b", "queue": "q", "cost": 2}]),
            ("claim", ["q"], 2),
        ],
    ),
    "a heavy throttled start is remembered for all its gaps": (
        "B",
        "a heavy start forgotten after one gap",
        [
            ("enqueue", [{"name": "a", "queue": "q", "limits": (("X", "t1/200000", "wait"),), "cost": 3}]),
            ("enqueue", [{"name": "b", "queue": "q", "limits": (("X", "t1/200000", "wait"),)}]),
            ("claim", ["q"], 1),
            ("advance", 500000),
            ("enqueue", [{"name": "c", "queue": "q", "limits": (("X", "t3/200000", "wait"),)}]),
            ("claim", ["q"], 1, 15000000, (None,)),
            ("settle", [("c", ("handed back",), False)]),
            ("claim", ["q"], 1),
        ],
    ),
    "no turn stands while a gate of its holder lets nothing through": (
        "C",
        "a turn that stands before a gate shut by the clock",
        [
            ("configure", "key", "X", "t0/500000"),
            ("enqueue", [{"name": "a", "queue": "p", "limits": (("Y", "t3/3000000", "wait"),)}]),
            (
                "enqueue",
                [
                    {
                        "name": "b",
                        "queue": "q",
                        "limits": (("X", "t1/500000", "wait"), ("Y", "t3/3000000", "wait")),
                    },
                    {"name": "c", "queue": "q", "limits": (("Y", "t3/3000000", "reschedule"),)},
                ],
            ),
            ("override", "X", "t2/500000", 1000),
            ("claim", ["p", "q"], 2),
            ("advance", 3000000),
            ("claim", ["q"], 1),
            ("override", "X", "t3/500000", 10000),
            ("claim", ["q"], 1),
            ("advance", 15000000),
            ("claim", ["q"], 1),
        ],
    ),
    "each call of a key lengthens the pause it waits for": (
        "A",
        "a pause that no call lengthens",
        [
            (
                "enqueue",
                [
                    {
                        "name": "a",
                        "queue": "q",
                        "unique": ("u", "scheduled,waiting,running", None, "replace", (500_000, 3_000_000)),
                    }
                ],
            ),
            ("advance", 200_000),
            (
                "enqueue",
                [
                    {
                        "name": "b",
                        "queue": "q",
                        "unique": ("u", "scheduled,waiting,running", None, "replace", (500_000, 3_000_000)),
                    }
                ],
            ),
            ("advance", 400_000),
            ("claim", ["q"], 1),
        ],
    ),
}
