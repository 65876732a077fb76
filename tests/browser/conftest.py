"""One browser for all tests of a process; each test has pages of its own, which are closed when it ends."""

import pytest

from tests.support.devtools import driving


@pytest.fixture(scope="session")
def running_browser(tmp_path_factory):
    with driving(tmp_path_factory.mktemp("browser") / "it") as it:
        yield it


@pytest.fixture
def browser(running_browser):
    yield running_browser
    running_browser.close_pages()
