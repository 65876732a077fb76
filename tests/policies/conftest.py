"""Virtual time, and work that counts how much of it runs at once."""

import asyncio

import pytest

from penstock import App
from penstock.testing import VirtualTime
from tests.support.sharing_faults import LONG


class Watch:
    def __init__(self, time):
        self.time, self.inside, self.peak, self.starts = time, 0, 0, []

    @property
    def order(self):
        return [who for who, _ in self.starts]

    def enter(self, who):
        self.starts.append((who, self.time.now()))
        self.inside += 1
        self.peak = max(self.peak, self.inside)

    async def work(self, who=None, seconds=1.0):
        self.enter(who)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.inside -= 1
        return who


@pytest.fixture
def time():
    return VirtualTime()


@pytest.fixture
def watch(time):
    return Watch(time)


@pytest.fixture
def place(tmp_path):
    """Return what opens apps on one file, each of which stands for a process."""
    apps = []

    def opened(lease=LONG):
        apps.append(App(tmp_path / "jobs.db", lease=lease))
        return apps[-1]

    yield opened
    for app in apps:
        assert [] == app.engine.doctor()
        app.close()


@pytest.fixture
def here(place):
    return place()


@pytest.fixture
def there(place):
    return place()
