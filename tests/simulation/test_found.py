"""What the simulation found, each history shrunk to the few operations that matter."""

import pytest

from tests.simulation.world import replay

FOUND = {
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
}


@pytest.mark.parametrize("name", FOUND)
def test_it_does_not_happen_any_more(name):
    replay(*FOUND[name])
