"""Stores that hang or fail under shared bulkheads, and leases that are lost, for tests."""

from contextlib import contextmanager

from penstock.errors import StoreDownError
from penstock.policies.shared.borrower import _borrowers
from tests.support.sharing import until

LONG = 20  # a lease that does not end during a test
SHORT = 1  # one that does
GLIMPSE = 0.3  # how long something is watched that must not happen


def told(answer):
    """Return why a call was refused, or what it returned."""
    return getattr(answer, "reason", answer)


def events_of(one):
    events = []
    one.listen(lambda event: events.append(event.kind if event.reason is None else event.reason))
    return events


def borrower_of(app):
    return _borrowers[id(app.engine)]


def used_once(one):
    """Return the borrower of a bulkhead, with nothing left to do."""
    with one:
        pass
    borrower = one.pool._borrower
    until(lambda: not borrower._busy() and not borrower._lead.locked())
    return borrower


@contextmanager
def one_round_trip(borrower, wants):
    """Let so many wants come to the store together."""
    with borrower._lead:
        yield
        until(lambda: len(borrower._new) == wants)
    borrower.ring()


def lose_the_lease(app):
    """Let the store give a lease up, as after a halt, and let its process hear of it."""
    borrower = borrower_of(app)
    with borrower._lead:
        app.engine.leave(borrower._holder)
        borrower._round_trip(look=True)


class Asked:
    """Stands between a borrower and its store: counts what is asked, and does something else on the way."""

    def __init__(self, engine, monkeypatch, verb="lend"):
        self.orders = []
        self.before = self.after = lambda order: None
        self._real = getattr(engine, verb)
        monkeypatch.setattr(engine, verb, self)

    @property
    def wants(self):
        return [want for order in self.orders for want in order.wanted]

    def __call__(self, *order):
        self.orders.append(order[0])
        self.before(order[0])
        answer = self._real(*order)
        self.after(order[0])
        return answer


def down(*_):
    raise StoreDownError("the store is down")


def once(do):
    """Return what does something the first time only."""
    times = [do]
    return lambda *args: times.pop()(*args) if times else None


def if_wanted(do):
    """Return what does something for orders with wants."""
    return lambda order: do(order) if order.wanted else None
