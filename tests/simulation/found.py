"""What the simulation found, each history shrunk to the few operations that matter."""

from tests.simulation.world import Operation

FOUND: dict[str, tuple[str, list[Operation]]] = {
    "a limit of its type that was set later keeps a job, and why says so": (
        "A",
        [
            ("enqueue", [{"name": "a", "queue": "q"}]),
            ("configure", "type", "t1", "c0"),
            ("why", "a"),
        ],
    ),
    "a job too heavy for what is left of its queue's rate is told so": (
        "B",
        [
            ("configure", "queue", "q", "r2/3000000"),
            ("enqueue", [{"name": "a", "queue": "q"}, {"name": "b", "queue": "q", "cost": 2}]),
            ("claim", ["q"], 1),
            ("why", "b"),
        ],
    ),
    "one that was claimed and has not begun yet does not make a prediction too late": (
        "A",
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
}
