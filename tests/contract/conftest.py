"""Every test here runs on every store."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from penstock.engine import Engine, open_engine
from penstock.limits.rules import Limit
from penstock.store import migrations
from penstock.store.session import Session
from tests.support.clock import FakeClock
from tests.support.connections import keep_connections
from tests.support.desk import Desk, slots
from tests.support.monitored import OPERATOR, TENANT, Site, Visit, keyring, monitored
from tests.support.postgres import drop_schema, empty_store, fresh_schema, shared_url
from tests.support.runs import Runs, steps
from tests.support.stores import new_file
from tests.support.works import Works


@contextmanager
def a_file(folder: Path) -> Iterator[str]:
    yield new_file(folder / "jobs.db")


STORES = {"sqlite": a_file, "postgres": lambda _folder: empty_store()}


@pytest.fixture(autouse=True)
def _kept_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_connections(monkeypatch)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    """The kind of store under test."""
    return str(request.param)


@pytest.fixture
def url(store: str, tmp_path: Path) -> Iterator[str]:
    """The address of a store that is new."""
    with STORES[store](tmp_path) as address:
        yield address


@pytest.fixture
def opened(url: str, clock: FakeClock) -> Iterator[Callable[[], Engine]]:
    """Open the same store as often as asked, as several processes would."""
    engines: list[Engine] = []

    def start() -> Engine:
        engines.append(open_engine(url, clock=clock))
        return engines[-1]

    yield start
    for engine in engines:
        engine.close()


@pytest.fixture
def engine(opened: Callable[[], Engine]) -> Engine:
    return opened()


@pytest.fixture
def runs(engine: Engine) -> Iterator[Runs]:
    """Instances, and two workflows to make them of; the doctor finds nothing in the end."""
    yield Runs(engine, wf=steps("a b"), other=steps("c"))
    assert engine.doctor() == []


@pytest.fixture
def works(engine: Engine) -> Iterator[Works]:
    """Workflows; the doctor finds nothing in the end."""
    yield Works(engine)
    assert engine.doctor() == []


@pytest.fixture
def desk(opened: Callable[[], Engine], clock: FakeClock) -> Desk:
    return Desk(opened(), clock)


@pytest.fixture
def desks(opened: Callable[[], Engine], clock: FakeClock) -> list[Desk]:
    """Two processes at one store."""
    return [Desk(opened(), clock) for _ in range(2)]


@pytest.fixture(params=[(), (slots("k", 1),)], ids=["free", "limited"])
def limits(request: pytest.FixtureRequest) -> tuple[Limit, ...]:
    """None, or one slot of a key."""
    return request.param


@pytest.fixture(params=[(), (slots("k", 99),)], ids=["free", "limited"])
def ample(request: pytest.FixtureRequest) -> tuple[Limit, ...]:
    """None, or more slots of a key than there are jobs."""
    return request.param


@pytest.fixture
def healthy(desk: Desk) -> Iterator[None]:
    """The doctor finds nothing in the end."""
    yield
    assert desk.engine.doctor() == []


@pytest.fixture
def migrated(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, Callable[[Session], None]], Engine]]:
    """Make a store by the steps before *step*, let *work* write rows of that time, and open it as it is now."""
    url = str(tmp_path / "old.db") if store == "sqlite" else fresh_schema(shared_url())
    engines: list[Engine] = []

    def start(step: str, work: Callable[[Session], None]) -> Engine:
        known = migrations.names()
        with monkeypatch.context() as then:
            then.setattr(migrations, "names", lambda: known[: known.index(step)])
            with closing(open_engine(url)) as old:
                old.store.write(work)
        engines.append(open_engine(url))
        return engines[-1]

    yield start
    for engine in engines:
        engine.close()
    if store == "postgres":
        drop_schema(url)


@pytest.fixture
def site(engine: Engine) -> Iterator[Site]:
    """A monitor that may change things, over HTTP."""
    with monitored(engine, keyring=keyring()) as made:
        yield made


@pytest.fixture
def anna(site: Site) -> Visit:
    """A browser in which an operator of all tenants is signed in."""
    return site.browser(OPERATOR)


@pytest.fixture
def acme(site: Site) -> Visit:
    """A browser in which an operator of the tenant acme is signed in."""
    return site.browser(TENANT)
