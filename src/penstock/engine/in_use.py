"""How many slots of a gate are in use: of a relay, all of whose attempts count there, it is one."""

from collections import Counter

from penstock.limits.gate import Gate
from penstock.limits.rules import Numbers
from penstock.store import views as view_rows
from penstock.store.session import Session


def in_use(db: Session, gate: Gate, numbers: Numbers, starting: int = 0) -> int:
    """Return how many slots are taken at a gate, given how many followers are *starting* and not written yet."""
    if numbers.slots is None or gate.running <= numbers.slots:
        return gate.running
    return gate.running - starting - sum(n for gates, n in view_rows.following(db) if gate.id in gates)


def following_at_keys(db: Session) -> Counter[int]:
    """Return how many of the attempts that count at the gate of each key follow another one in a relay."""
    return Counter({gates[0]: n for gates, n in view_rows.following(db)})
