"""Differences that random runs once found, each shrunk to the few operations that matter.

Read as the referee does: numbers are `c` slots, `r` rate and `t` throttle, times are microseconds.
"""

import pytest

from tests.support.referee import Operation, replay

FOUND: dict[str, tuple[str, list[Operation]]] = {
    "two light starts at one moment are not one heavy start": (
        "A",
        [
            ("enqueue", [{"name": "a", "queue": "q", "limits": (("X", "r3/3000000", "wait"),)}]),
            ("enqueue", [{"name": "b", "queue": "q", "limits": (("X", "r3/3000000", "wait"),)}]),
            ("claim", ["q"], 3),
            ("advance", 1_550_000),
            ("enqueue", [{"name": "c", "queue": "q", "limits": (("X", "r3/3000000;t2/3000000", "wait"),)}]),
            ("claim", ["q"], 1),
        ],
    ),
    "an attempt handed back after it began counts from when it began": (
        "A",
        [
            ("enqueue", [{"name": "a", "queue": "q", "limits": (("X", "t2/100000", "wait"),)}]),
            ("claim", ["q"], 1),
            ("settle", [("a", ("handed back", True), 0)]),
            ("claim", ["q"], 1),
            ("advance", 51_000),
            ("claim", ["q"], 1),
        ],
    ),
    "a cancel outlives being limited by the called system": (
        "A",
        [
            ("enqueue", [{"name": "a", "queue": "q"}]),
            ("claim", ["q"], 1),
            ("cancel", "a"),
            ("settle", [("a", ("limited", 500_000, "X"), None)]),
        ],
    ),
    "a cancelled job that is retried by hand after its time to live runs": (
        "A",
        [
            ("enqueue", [{"name": "a", "queue": "q", "expires": 500_000}]),
            ("cancel", "a"),
            ("advance", 3_000_000),
            ("retry", "a"),
            ("claim", ["q"], 1),
        ],
    ),
    "a job that is due, dropped and expired at one moment ends once": (
        "A",
        [
            ("configure", "key", "X", "c0"),
            (
                "enqueue",
                [
                    {
                        "name": "a",
                        "queue": "q",
                        "limits": (("X", "c1", "drop"),),
                        "due": 50_000,
                        "expires": 50_000,
                    }
                ],
            ),
            ("advance", 200_000),
            ("claim", ["q"], 1),
        ],
    ),
    "a job whose type was configured later keeps its place": (
        "A",
        [
            ("enqueue", [{"name": "a", "queue": "q", "task": "t2"}]),
            ("configure", "type", "t2", "c1"),
            ("enqueue", [{"name": "b", "queue": "q"}, {"name": "c", "queue": "q", "task": "t2"}]),
            ("claim", ["q"], 1),
        ],
    ),
    "a newcomer that comes before its like is dropped at a shut gate": (
        "A",
        [
            ("enqueue", [{"name": "a", "queue": "q", "limits": (("X", "c1", "drop"),)}]),
            ("shut", "X", 500_000),
            ("enqueue", [{"name": "b", "queue": "q", "limits": (("X", "c1", "drop"),), "priority": 1}]),
        ],
    ),
    "a parked job that became too heavy does not block its line": (
        "B",
        [
            ("enqueue", [{"name": "a", "queue": "q", "limits": (("X", "r5/100000", "wait"),), "cost": 3}]),
            ("enqueue", [{"name": "b", "queue": "q", "limits": (("X", "r5/100000", "wait"),), "cost": 3}]),
            ("claim", ["q"], 1),
            ("claim", ["q"], 1),
            ("override", "X", "r2/100000", None),
            ("enqueue", [{"name": "c", "queue": "q", "limits": (("X", "r5/100000", "reschedule"),)}]),
            ("advance", 1_000_000),
            ("claim", ["q"], 1),
        ],
    ),
    "a job too heavy for its queue does not block its like": (
        "B",
        [
            ("configure", "type", "t1", "r1000/100000"),
            ("enqueue", [{"name": "a", "queue": "q", "cost": 3}, {"name": "b", "queue": "q"}]),
            ("configure", "queue", "q", "r2/200000"),
            ("claim", ["q"], 1),
        ],
    ),
    "a job once too heavy for its key and now for its queue does not block the queue": (
        "B",
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
        [
            ("configure", "queue", "q", "r3/200000"),
            ("enqueue", [{"name": "a", "queue": "q", "cost": 2}, {"name": "b", "queue": "q", "cost": 2}]),
            ("claim", ["q"], 2),
        ],
    ),
    "a heavy throttled start is remembered for all its gaps": (
        "B",
        [
            ("enqueue", [{"name": "a", "queue": "q", "limits": (("X", "t1/200000", "wait"),), "cost": 3}]),
            ("enqueue", [{"name": "b", "queue": "q", "limits": (("X", "t1/200000", "wait"),)}]),
            ("claim", ["q"], 1),
            ("advance", 500_000),
            ("enqueue", [{"name": "c", "queue": "q", "limits": (("X", "t3/200000", "wait"),)}]),
            ("claim", ["q"], 1),
            ("settle", [("c", ("handed back", False), None)]),
            ("claim", ["q"], 1),
        ],
    ),
    "no turn stands while a gate of its holder lets nothing through": (
        "C",
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
            ("override", "X", "t2/500000", 1_000),
            ("claim", ["p", "q"], 2),
            ("advance", 3_000_000),
            ("claim", ["q"], 1),
            ("override", "X", "t3/500000", 10_000),
            ("claim", ["q"], 1),
            ("advance", 15_000_000),
            ("claim", ["q"], 1),
        ],
    ),
}


@pytest.mark.parametrize("what", FOUND)
def test_no_longer(what: str) -> None:
    mode, operations = FOUND[what]

    replay(mode, operations)
