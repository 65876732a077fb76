"""After a change a page is made once for all who may see the same, and no visitor gets what only another may see."""

import asyncio
import re
from contextlib import AsyncExitStack, closing

import pytest

from penstock.http.access import Access, Role
from penstock.http.tokens import Keyring
from penstock.job import NewJob
from penstock.monitor import Monitor, live, sessions, shared
from penstock.monitor.answers import Answer
from penstock.monitor.shared import Shared
from penstock.testing import engine_in_memory
from tests.support.looking import listening, look, looked

TEN = [f"viewer-{n}-0123456789" for n in range(10)]
OPERATOR, ACME, OTHER = "operator-01234567", "acme-012345678901", "other-01234567890"
JOBS = [
    NewJob("mine", id="a", tenant="acme", args='"acme-args"', meta='{"secret": true}'),
    NewJob("theirs", id="b", tenant="other", args='"other-args"'),
    NewJob("hushed", id="c", args='"hidden-args"', meta='{"secret": true}'),
]


@pytest.fixture
def engine():
    with closing(engine_in_memory()) as made:
        made.enqueue(JOBS)
        yield made


@pytest.fixture
def monitor(engine, monkeypatch):
    monkeypatch.setattr(live, "EVERY", 0.01)
    keyring = Keyring()
    for n, token in enumerate(TEN):
        keyring.add(token, Access(f"<screen {n}>", frozenset({Role.VIEWER})))
    keyring.add(OPERATOR, Access("anna", frozenset(Role)))
    for token, tenant in ((ACME, "acme"), (OTHER, "other")):
        keyring.add(token, Access(f"{tenant} desk", frozenset(Role), tenant))
    return Monitor(engine, keyring=keyring, operate=True)


@pytest.fixture
def made(monkeypatch):
    """Count the pages that are made."""
    count, shown = [], Monitor._shown

    def counting(self, engine, page, query, visitor):
        count.append(page.path)
        return shown(self, engine, page, query, visitor)

    monkeypatch.setattr(Monitor, "_shown", counting)
    return count


def cookie_of(monitor, token):
    (cookie,) = look(monitor, "/sign-in", form={"token": token}).cookies
    return cookie.partition(";")[0]


def test_ten_viewers_of_a_page_cost_one_rendering_for_each_change(engine, monitor, made):
    cookies = [cookie_of(monitor, token) for token in TEN]

    async def work():
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(listening(monitor, cookie=each)) for each in cookies]
            assert {"first"} == {await told.get() for told in streams}
            found = []
            for n in range(3):
                engine.enqueue([NewJob("late", queue=f"appeared-{n}")])
                heard = [await told.get() for told in streams]
                seen = [
                    looked(monitor, "/queues", cookie=cookie, penstock_change=each)
                    for cookie, each in zip(cookies, heard, strict=True)
                ]
                found.append(await asyncio.gather(*seen))
            return found

    found = asyncio.run(asyncio.wait_for(work(), 60))

    assert ["/queues"] * 3 == made
    for n, pages in enumerate(found):
        assert {200} == {page.status for page in pages}
        assert all(f"appeared-{n}" in page.text for page in pages)
    # Each has its own name and the word of its own session.
    names = [re.search("signed in as <b>(.*?)</b>", page.text)[1] for page in found[-1]]
    words = [re.search(r'name="form" value="(\w+)"', page.text)[1] for page in found[-1]]
    assert [f"&lt;screen {n}&gt;" for n in range(10)] == names
    assert [sessions.form_word(cookie.partition("=")[2]) for cookie in cookies] == words


def test_no_visitor_gets_what_only_another_may_see(monitor):
    visitors = {
        (token, theme, root): f"{cookie}; penstock-theme={theme}"
        for token in (TEN[0], OPERATOR, ACME, OTHER)
        for root in ("", "/ops")
        for theme in ("light", "dark")
        for cookie in [(look(monitor, "/sign-in", form={"token": token}, root=root).cookies)[0].partition(";")[0]]
    }  # fmt: skip
    addresses = ["/jobs", "/jobs?state=waiting", "/queues", "/job?id=a", "/job?id=c"]

    async def work():
        own, together = {}, {}
        async with listening(monitor, cookie=visitors[OPERATOR, "light", ""]) as told:
            await told.get()
            monitor._live._tell()
            heard = await told.get()
            for address in addresses:
                for who, cookie in visitors.items():
                    for json in (False, True):
                        options = {"cookie": cookie, "root": who[2], "json": json}
                        own[address, who, json] = await looked(monitor, address, **options)
                        together[address, who, json] = await looked(
                            monitor, address, **options, penstock_change=heard
                        )
        return own, together

    own, together = asyncio.run(asyncio.wait_for(work(), 60))

    assert {key: plain(seen) for key, seen in own.items()} == {
        key: plain(seen) for key, seen in together.items()
    }
    texts = {key: seen.text for key, seen in together.items()}
    assert [] == [key for key, text in texts.items() if key[1][0] == TEN[0] and "hidden-args" in text]
    assert [] == [key for key, text in texts.items() if key[1][0] == ACME and "other-args" in text]
    assert [] == [key for key, text in texts.items() if key[1][0] == OTHER and "acme-args" in text]
    assert any("acme-args" in text for key, text in texts.items() if key[1][0] == ACME)


def plain(seen):
    """Return an answer without the moments at which it was made."""
    text = re.sub(r"<time[^>]*>[^<]*</time>|\d+(\.\d+)? (ms|s)\b", "", seen.text)
    return seen.status, re.sub(r'"(now|until|end)":\d+', "", text)


def test_only_who_was_told_of_a_change_shares_and_who_changes_something_sees_it(engine, monitor, made):
    cookie = cookie_of(monitor, OPERATOR)
    word = sessions.form_word(cookie.partition("=")[2])

    async def seen(heard):
        return (await looked(monitor, "/queues", cookie=cookie, penstock_change=heard)).text

    async def work():
        async with listening(monitor, cookie=cookie) as told:
            await told.get()
            monitor._live._tell()
            heard = await told.get()
            mark, _, number = heard.partition(".")
            unshared = [None, "first", "", f"0{mark}.{number}", f"{mark}.{int(number) + 1}", f"{mark}.²"]
            for each in [heard, heard, *unshared]:
                await seen(each)
            before = len(made)
            form = {"form": word, "queue": "default", "reason": "a test"}
            monkey = (
                monitor._live._look
            )  # no look comes between, so that nothing but the change itself clears
            monitor._live._look = asyncio.Event().wait
            done = await looked(monitor, "/queues/pause", form=form, cookie=cookie)
            after = await seen(heard)
            monitor._live._look = monkey
        assert not monitor._live.has_told(heard)
        return before, done.status, after

    before, status, after = asyncio.run(asyncio.wait_for(work(), 60))

    assert 1 + 6 == before
    assert 303 == status
    assert "paused" in after


def test_what_was_made_before_pages_listened_again_is_not_shared(engine, monitor, made):
    cookie = cookie_of(monitor, OPERATOR)

    async def listened():
        async with listening(monitor, cookie=cookie) as told:
            await told.get()
            heard = f"{monitor._live._mark}.{monitor._live.number}"
            await looked(monitor, "/queues", cookie=cookie, penstock_change=heard)
        await monitor._live._following

    async def work():
        await listened()
        engine.enqueue([NewJob("t", queue="meanwhile")])
        await listened()

    asyncio.run(asyncio.wait_for(work(), 60))

    assert ["/queues"] * 2 == made


def test_what_is_kept_is_bounded_and_what_fails_is_not_kept(monkeypatch):
    monkeypatch.setattr(shared, "MOST", 5)
    monkeypatch.setattr(shared, "MOST_BYTES", 100)

    async def work():
        made = Shared()
        calls = []

        def making(size):
            async def make():
                calls.append(size)
                if size < 0:
                    raise ZeroDivisionError
                return Answer(b"x" * size)

            return make

        for n in range(20):
            await made.answer(n, 1, making(10))
        few = len(made._kept)
        for n in range(20):
            await made.answer(n, 1, making(40))
        large = len(made._kept)
        await made.answer("huge", 1, making(1_000))
        huge = len(made._kept)
        await made.answer("a", 2, making(1))
        calls.clear()
        await made.answer("a", 2, making(1))
        await made.answer("a", 3, making(2))
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                await made.answer("bad", 3, making(-1))
        return few, large, huge, calls

    assert (5, 2, 0, [2, -1, -1]) == asyncio.run(work())


def test_who_hangs_up_ends_the_page_for_no_other():
    async def work():
        made, may_go_on = Shared(), asyncio.Event()

        async def make():
            await may_go_on.wait()
            return Answer(b"made")

        first = asyncio.ensure_future(made.answer("a", 1, make))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(made.answer("a", 1, make))
        await asyncio.sleep(0)
        first.cancel()
        may_go_on.set()
        return (await second).body

    assert b"made" == asyncio.run(asyncio.wait_for(work(), 20))
