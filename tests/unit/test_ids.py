"""What ids promise."""

import os
import threading
from uuid import RFC_4122, UUID

import pytest

from penstock import ids
from penstock.clock import SystemClock
from penstock.ids import _Maker, new_id

MILLISECOND = 1_000


class Watch:
    """Tells the time it was set to."""

    def __init__(self, now):
        self.time = now

    def now(self):
        return self.time


@pytest.fixture
def watch(monkeypatch):
    watch = Watch(1_767_225_600_000 * MILLISECOND)
    monkeypatch.setattr(ids, "SystemClock", lambda: watch)
    return watch


def test_an_id_is_a_uuid_of_version_7_in_its_plain_form():
    made = new_id()
    read = UUID(made)

    assert (7, RFC_4122, made) == (read.version, read.variant, str(read))


def test_an_id_begins_with_its_millisecond():
    before = SystemClock().now() // MILLISECOND
    made = UUID(_Maker().make())
    after = SystemClock().now() // MILLISECOND

    assert before <= made.int >> 80 <= after


def test_ids_grow():
    made = [new_id() for _ in range(20_000)]

    assert sorted(set(made)) == made


def test_ids_of_several_threads_differ_and_grow_in_each():
    made = [[] for _ in range(4)]
    threads = [
        threading.Thread(target=lambda mine=mine: mine.extend(new_id() for _ in range(2_000)))
        for mine in made
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(sorted(mine) == mine for mine in made)
    assert 8_000 == len({each for mine in made for each in mine})


def test_ids_grow_when_the_clock_steps_back(watch):
    maker = _Maker()
    first = maker.make()
    watch.time -= 3_600_000 * MILLISECOND

    made = [first, *(maker.make() for _ in range(100))]

    assert sorted(set(made)) == made
    assert 1_767_225_600_000 == UUID(made[-1]).int >> 80


def test_ids_grow_when_a_millisecond_is_full(watch):
    maker = _Maker()
    maker.make()
    maker._place(maker._millisecond, 2**26 - 1, 2**48 - 1)

    made = [maker.make() for _ in range(3)]

    assert sorted(set(made)) == made
    assert {1_767_225_600_001} == {UUID(each).int >> 80 for each in made}
    assert {7} == {UUID(each).version for each in made}


def test_a_carry_moves_the_bits_above(watch):
    maker = _Maker()
    maker.make()
    maker._place(maker._millisecond, 5, 2**48 - 1)
    before = UUID(f"{maker._front}{maker._low:012x}").int

    after = UUID(maker.make()).int

    assert 0 < after - before <= 2**24
    assert 1_767_225_600_000 == after >> 80


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_makes_ids_of_its_own(watch, monkeypatch):
    monkeypatch.setattr(ids, "_maker", _Maker())
    reading, writing = os.pipe()
    new_id()

    child = os.fork()
    if not child:
        os.write(writing, "".join(new_id() for _ in range(50)).encode())
        os._exit(0)
    mine = {new_id() for _ in range(50)}
    os.waitpid(child, 0)
    text = os.read(reading, 36 * 50).decode()
    os.close(reading)
    os.close(writing)

    theirs = {text[place : place + 36] for place in range(0, len(text), 36)}
    assert 50 == len(theirs)
    assert not mine & theirs


def test_a_new_process_starts_with_a_new_maker(monkeypatch):
    before = ids._maker
    monkeypatch.setattr(ids, "_maker", before)

    ids._restart()

    assert ids._maker is not before
