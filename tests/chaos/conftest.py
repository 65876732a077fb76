"""What storms need."""

import pytest

from tests.support.postgres import Server, need_package


@pytest.fixture(scope="module")
def server():
    """A server of our own, since it will not stay up; durable, since it must forget nothing."""
    need_package()
    server = Server.begin(durable=True)
    yield server
    server.close()
