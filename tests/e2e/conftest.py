"""One server for all tests on each store, emptied before each test."""

import pytest

from tests.support.postgres import drop_schema, fresh_schema, shared_url
from tests.support.server import served
from tests.support.silo import SiloClient


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def address(request, tmp_path_factory):
    if request.param == "sqlite":
        yield str(tmp_path_factory.mktemp("server") / "jobs.db")
        return
    url = fresh_schema(shared_url())
    yield url
    drop_schema(url)


@pytest.fixture(scope="session")
def lasting(address):
    """A server of HTTP and of Silo's protocol."""
    with served(address, "--test-mode", "--silo", "0") as one:
        yield one


@pytest.fixture
def server(lasting):
    assert 200 == lasting.post("/ojs/v1/admin/reset").status
    return lasting


@pytest.fixture
def silo(lasting):
    """A client of Silo's protocol, at a server that has no jobs."""
    with SiloClient(lasting.silo) as client:
        client.ResetShards()
        yield client
