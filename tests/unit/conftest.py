"""Engines and apps in memory."""

import pytest

from penstock import App
from penstock.testing import app_for_tests, engine_in_memory


@pytest.fixture
def engine():
    engine = engine_in_memory()
    yield engine
    engine.close()


@pytest.fixture
def app():
    """Return an app with a clock to move."""
    with app_for_tests() as app:
        yield app


@pytest.fixture
def live():
    """Return an app with the clock of this machine."""
    with App(":memory:") as app:
        yield app
