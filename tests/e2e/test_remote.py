"""Workers and clients that know nothing but a URL: a real server, real processes, killed and started again."""

import asyncio
import http.server
import json
import logging
import signal
import socket
import statistics
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from penstock import (
    AccessError,
    App,
    Client,
    Concurrency,
    InvalidError,
    InvalidJobError,
    JobCancelledError,
    NotFoundError,
    StoreDownError,
)
from penstock.acting import Actor
from penstock.client import RemoteEngine, verbs, wire
from penstock.clock import SECOND
from penstock.engine import open_engine
from penstock.job import AuditFilter, NewJob, Sequel, Settlement
from penstock.lifecycle.outcomes import Done, Failed
from penstock.lifecycle.retry import RetryPolicy
from penstock.lifecycle.states import State
from penstock.lifecycle.unique import Unique
from penstock.limits.rules import Floating, Limit, Numbers, Window
from tests.e2e import test_killed_workers as embedded
from tests.support import outside
from tests.support.command import Process, penstock
from tests.support.postgres import fresh_schema, shared_url
from tests.support.server import Served, served
from tests.support.server import guarded as guarded_server
from tests.support.stores import server_on_sqlite
from tests.support.timing import until
from tests.support.wire import Wire

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
TOKENS = {
    "everything": "the-token-of-everybody",
    "producer": "the-token-of-producers roles=producer",
    "worker": "the-token-of-workers roles=worker",
    "acme": "the-token-of-acme-only tenant=acme",
    "bolt": "the-token-of-bolt-only tenant=bolt",
}


class Watch(embedded.Watch):
    """A server, and worker processes that know its URL only."""

    def __init__(self, folder, url):
        super().__init__(folder)
        if url is not None:
            self.engine.close()
            self.engine = open_engine(url)
        self.server = Served(url or self.store)
        self.server.start()
        self.log = folder / "log"
        self.log.touch()

    def hire(self, url=None):
        worker = Process(
            *embedded.WORKER, "--url", url or self.server.url, "--log-level", "warning", folder=ROOT, log=self.log,
            **self.environment | {outside.STORE: "/nowhere/at/all.db"},
        )  # fmt: skip
        self.workers.append(worker)
        return worker

    def said(self):
        return self.log.read_text()

    def until(self, true):
        until(true, PATIENCE, self._told, every=0.02)

    def _told(self):
        return f"{self.engine.count()}\n{self.said()}\n{''.join(self.server.log)}"

    def close(self):
        super().close()
        self.server.stop()


@pytest.fixture
def watch(request, tmp_path):
    url = fresh_schema(shared_url()) if getattr(request, "param", "sqlite") == "postgres" else None
    watch = Watch(tmp_path, url)
    yield watch
    watch.close()


@pytest.fixture
def remote(server):
    engine = RemoteEngine(server.url)
    yield engine
    engine.close()


@pytest.fixture
def guarded(tmp_path):
    with guarded_server(tmp_path, *TOKENS.values()) as server:
        yield server


@contextmanager
def at_work(app, **options):
    """Have a worker of *app* in a thread while the block lasts."""
    worker = app.worker(**options)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(20)
        app.close()


def token(name):
    return TOKENS[name].split()[0]


@pytest.mark.parametrize("watch", ["sqlite", "postgres"], indirect=True)
def test_remote_workers_that_are_killed_break_no_limit_and_lose_no_job(watch):
    remote = RemoteEngine(watch.server.url)
    for _ in range(2):
        watch.hire()
    end, next_kill = time.monotonic() + 3, time.monotonic() + 0.5
    while time.monotonic() < end or len(watch.killed) < 2 or len(watch.jobs) < embedded.ENOUGH // 2:
        for name in embedded.MIX:
            with outside.app.connection.lent(remote):
                account = len(watch.jobs) % 3
                watch.jobs[getattr(outside, name).enqueue(account).id] = (name, account)
        at_work = [worker for worker in watch.workers if worker.pid in watch.begun_by()]
        if time.monotonic() > next_kill and at_work:
            watch.kill(at_work[0])
            watch.hire()
            next_kill = time.monotonic() + 1.0
        time.sleep(0.1)
        assert time.monotonic() < end + PATIENCE, watch.said()
    watch.until(watch.all_done)
    remote.close()

    embedded.check_limits(watch)
    assert watch.engine.doctor() == []


@pytest.mark.parametrize("watch", ["sqlite", "postgres"], indirect=True)
def test_a_server_that_is_killed_in_the_middle_loses_nothing_and_breaks_no_limit(watch, monkeypatch):
    monkeypatch.setattr("penstock.client.rpc.PATIENCE", 60 * SECOND)  # longer than any restart
    remote = RemoteEngine(watch.server.url)
    for _ in range(2):
        watch.hire()
    stop = threading.Event()

    def produce():
        while not stop.wait(0.05):
            with outside.app.connection.lent(remote):
                for name in ("one", "two", "rated", "spaced", "both"):
                    account = len(watch.jobs) % 3
                    watch.jobs[getattr(outside, name).enqueue(account).id] = (name, account)

    producer = threading.Thread(target=produce)
    producer.start()
    watch.until(lambda: {worker.pid for worker in watch.workers} <= watch.begun_by())
    for _ in range(3):
        seen = len(watch.lines())
        watch.until(lambda seen=seen: len(watch.lines()) > seen + 30)
        watch.server.kill()
        time.sleep(0.4)
        watch.server.restart()
    watch.until(lambda: len(watch.jobs) > embedded.ENOUGH // 3)
    stop.set()
    producer.join(PATIENCE)
    watch.until(watch.all_done)
    remote.close()

    assert {State.DONE: len(watch.jobs)} == watch.engine.count()
    embedded.check_limits(watch)
    assert all(worker.returncode is None for worker in watch.workers)
    assert watch.engine.doctor() == []


def test_a_long_wire_breaks_no_rate(watch):
    wire = Wire(watch.server.url, delay=0.06)
    watch.hire(url=wire.url)
    with outside.app.connection.lent(watch.engine):
        for account in range(24):
            watch.jobs[outside.rated.enqueue(account).id] = ("rated", account)
    watch.until(watch.all_done)
    watch.kill(watch.workers[0])
    wire.close()

    spans = watch.attempts()
    assert 24 == len(spans)
    embedded.windows(spans, 10, 500_000_000)


@pytest.mark.parametrize("watch", ["sqlite", "postgres"], indirect=True)
def test_an_idle_remote_worker_picks_up_a_job_soon(watch, record_property, capsys):
    remote = RemoteEngine(watch.server.url)
    watch.hire()
    picked, enqueued = [], []
    with outside.app.connection.lent(remote):
        outside.boxed.enqueue(0)
        watch.until(watch.all_done)
        for n in range(15):
            time.sleep(0.03)
            before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            outside.boxed.enqueue(n)
            after = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            watch.until(watch.all_done)
            began = max(line["at"] for line in watch.lines() if line["what"] == "began")
            picked.append((began - before) / 1e6)
            enqueued.append((began - after) / 1e6)
    remote.close()
    told = f"from the call {statistics.median(picked):.1f} ms (at most {max(picked):.1f}); "
    told += f"from its return {statistics.median(enqueued):.1f} ms (at most {max(enqueued):.1f})"
    record_property("pickup", told)
    with capsys.disabled():
        print(f"\nan idle remote worker begins a job, median of {len(picked)}: {told}")

    assert statistics.median(picked) < 2_000


def test_a_remote_worker_stops_and_drains_like_any_other(watch):
    worker = watch.hire()
    with outside.app.connection.lent(watch.engine):
        for _ in range(5):
            outside.boxed.enqueue(1)
    watch.until(watch.lines)
    worker.send_signal(signal.SIGTERM)

    assert 0 == worker.wait(PATIENCE)
    assert State.RUNNING not in watch.engine.count()


def test_a_server_with_idle_workers_ends_at_once_when_it_is_asked_to(watch):
    watch.hire()
    with outside.app.connection.lent(watch.engine):
        outside.boxed.enqueue(1)
    watch.until(watch.all_done)
    time.sleep(0.3)
    began = time.monotonic()
    watch.server.stop()

    assert time.monotonic() - began < 20


def test_the_whole_app_works_on_a_url(server):
    app = App(server.url)

    @app.task(name="double", limits=[outside.Concurrency(1, key="k")])
    def double(number: int) -> int:
        return 2 * number

    with app:
        jobs = [double.enqueue(number) for number in range(5)]
        assert [] != jobs[-1].why().sentence
        app.work(until_idle=True)

        assert [0, 2, 4, 6, 8] == [job.result(30) for job in jobs]
        assert jobs[0].id == app.job(jobs[0].id).id


def test_a_floating_limit_is_refreshed_by_a_remote_worker(server):
    app = App(server.url)
    seen = threading.Event()

    @app.floating("capacity")
    def capacity(limit):
        seen.set()
        return limit.value + 1

    @app.task(
        name="quick", limits=[outside.Concurrency.floating(1, key="pool", handler="capacity", every="200ms")]
    )
    def quick():
        return 1

    with at_work(app):
        quick.enqueue().result(20)
        assert seen.wait(20)
        assert "capacity" == app.engine.floating("pool").handler
        app.engine.set_floating("pool", value=7, every=60 * SECOND)
        assert 7 == app.engine.floating("pool").value
        app.engine.delete_floating("pool")
        with pytest.raises(NotFoundError):
            app.engine.floating("pool")
        with pytest.raises(InvalidError, match="events"):
            app.engine.listen(print)


def test_a_job_that_runs_remotely_is_cancelled_soon(server):
    app = App(server.url)
    began = threading.Event()

    @app.task(name="long")
    async def long():
        began.set()
        await asyncio.sleep(60)

    with at_work(app):
        job = long.enqueue()
        assert began.wait(20)
        job.cancel()
        with pytest.raises(JobCancelledError):
            job.result(20)


@server_on_sqlite
def test_a_client_waits_for_what_a_worker_elsewhere_returns(server):
    app = App(server.url)
    app.task(lambda number: number + 1, name="next")
    with at_work(app, queues=["mail"]), Client(server.url) as client:
        job = client.enqueue("next", 4, queue="mail")

        assert 5 == client.result(job.id, timeout=20)
        with pytest.raises(NotFoundError):
            client.job("nobody")


@server_on_sqlite
def test_the_latest_call_wins_and_waits_for_a_pause_over_http_too(server, remote):
    with Client(server.url) as client:
        options = {"unique": "settings", "quiet": "1h", "max_wait": "2h"}
        first, second = (client.enqueue("task", size, **options) for size in (1, 2))
        assert ["cancelled", "scheduled"] == [first.state, second.state]
        assert remote.why(second.id).sentence.startswith(
            "waits until no call has come for 1h, at the latest "
        )
        with pytest.raises(InvalidJobError, match="max_wait"):
            client.enqueue("task", 3, unique="settings", quiet="1h", max_wait="1s")

        latest = {"by": "other", "on_duplicate": "replace"}
        third = client.enqueue("task", 3, unique=latest)
        (claimed,) = remote.claim(["default"], 5, worker="w").jobs
        fourth = client.enqueue("task", 4, unique=latest)
        assert f"waits for job {third.id} to end" == remote.why(fourth.id).sentence
        remote.settle([Settlement(claimed.seq, claimed.fence, Done())])
        assert [fourth.id] == [job.id for job in remote.claim(["default"], 5, worker="w").jobs]


@server_on_sqlite
def test_every_look_at_a_server_is_the_same_as_at_its_database(remote, address):
    direct = open_engine(address)
    limits = (Limit("k", Numbers(slots=1, rate=Window(3, SECOND))),)
    first, second = remote.enqueue(
        [NewJob("a", limits=limits), NewJob("b", limits=limits, unique=Unique("u"))]
    )
    (again,) = remote.enqueue([NewJob("b", unique=Unique("u"))])
    claim = remote.claim(["default"], 5, worker="w")
    attempt = (claim.jobs[0].seq, claim.jobs[0].fence)
    remote.begun([(*attempt, remote.clock.now() - claim.jobs[0].started)])
    assert remote.progress(*attempt, "3")
    assert [True] == [beat.alive for beat in remote.heartbeat([attempt])]
    remote.override("k", Numbers(slots=2), until=remote.clock.now() + 60 * SECOND)
    remote.configure("queue", "default", Numbers(slots=9))
    remote.pause("other")

    assert again.reused
    assert second.id == again.id
    assert direct.job(first.id) == remote.job(first.id)
    assert direct.failures(first.id) == remote.failures(first.id)
    assert direct.jobs(key="k") == remote.jobs(key="k")
    assert direct.count() == remote.count()
    assert direct.queues() == remote.queues()
    assert direct.gate("k").override == remote.gate("k").override == Numbers(slots=2)
    assert 1 == remote.gates(prefix="k")[1]
    assert direct.why(second.id).sentence == remote.why(second.id).sentence
    assert [] == remote.doctor()
    remote.clear_override("k")
    remote.shut("k", remote.clock.now() + SECOND)
    assert remote.gate("k").override is None
    accepted, more = remote.exchange([Settlement(*attempt, Done("1"))], ["default"], 1, worker="w")
    assert [True] == accepted
    assert [] == more.jobs
    assert State.CANCELLED is remote.cancel(second.id)
    remote.retry(second.id)
    assert 1 == remote.prune(remote.clock.now() + SECOND)
    direct.close()


@server_on_sqlite
def test_a_lost_answer_adds_no_job_twice(server):
    wire = Wire(server.url)
    remote = RemoteEngine(wire.url)
    wire.lose_answer(b"/enqueue")
    (added,) = remote.enqueue([NewJob("a")])
    remote.close()
    wire.close()

    assert 1 == wire.lost
    with Client(server.url) as client:
        assert [added.id] == [view.id for view in client.engine.jobs()]


@server_on_sqlite
def test_an_enqueue_that_a_server_forgot_it_had_heard_adds_no_job_twice(server, remote):
    jobs = [NewJob("a", id="made-here"), NewJob("b", id="made-here-too")]
    remote.enqueue(jobs)
    # As if both ids had been made by this call, whose first sending was not answered.
    again = RemoteEngine(server.url)
    again_ids = iter(job.id for job in jobs)
    monkey = pytest.MonkeyPatch()
    monkey.setattr("penstock.client.engine.new_id", lambda: next(again_ids))
    added = again.enqueue([NewJob("a"), NewJob("b")])
    monkey.undo()
    again.close()

    assert ["made-here", "made-here-too"] == [each.id for each in added]
    assert 2 == len(remote.jobs())


@server_on_sqlite
@pytest.mark.parametrize("verb", ["settle", "exchange"])
def test_a_worker_is_told_what_follows_a_failure_and_one_that_never_asked_is_told_yes(server, remote, verb):
    twice = RetryPolicy(attempts=2, delay=SECOND, jitter=False)
    remote.enqueue([NewJob("a", retry=twice), NewJob("a", retry=twice)])
    first, second = (
        Settlement(job.seq, job.fence, Failed("Bad", "no"))
        for job in remote.claim(["default"], 2, worker="w").jobs
    )
    if verb == "settle":
        told = remote.settle([first])
        old = remote.rpc.ask(verbs.SETTLE, wire.SettleRequest(wire.reports_of([second])))
    else:
        told, _ = remote.exchange([first], ["default"], 1, worker="w")
        take = wire.ClaimRequest(["default"], 1, "w", SECOND, SECOND)
        old = remote.rpc.ask(verbs.EXCHANGE, wire.ExchangeRequest(wire.reports_of([second]), take)).accepted

    assert [Sequel(State.SCHEDULED, 2, SECOND)] == told
    assert [True] == old


@server_on_sqlite
@pytest.mark.parametrize("verb", [b"/claim", b"/exchange"])
def test_a_lost_answer_to_a_claim_loses_no_job(server, remote, verb):
    remote.enqueue([NewJob("a"), NewJob("b")])
    wire = Wire(server.url)
    worker = RemoteEngine(wire.url)
    first = worker.claim(["default"], 1, worker="w")
    wire.lose_answer(verb)
    if verb == b"/claim":
        found = worker.claim(["default"], 1, worker="w")
        accepted = worker.settle([Settlement(first.jobs[0].seq, first.jobs[0].fence, Done())])
    else:
        settled = Settlement(first.jobs[0].seq, first.jobs[0].fence, Done())
        accepted, found = worker.exchange([settled], ["default"], 1, worker="w")
    if not found.jobs:
        found = worker.claim(["default"], 1, worker="w")
    worker.close()
    wire.close()

    assert 1 == wire.lost
    assert [True] == accepted
    # Either the same claim once more, or it was given back meanwhile; not one that no worker holds.
    (job,) = found.jobs
    assert [True] == remote.settle([Settlement(job.seq, job.fence, Done())])


def test_a_server_that_is_not_there_is_named_without_its_token(unused):
    with pytest.raises(StoreDownError, match="cannot be reached: connection refused") as caught:
        RemoteEngine(f"http://:{token('everything')}@127.0.0.1:{unused}")

    assert token("everything") not in str(caught.value)
    ran = penstock("worker", "tests.support.outside:app", "--url", f"http://127.0.0.1:{unused}", folder=ROOT)
    assert 4 == ran.returncode
    assert "cannot be reached" in ran.stderr


def test_an_enqueue_waits_a_little_for_a_server_that_comes_back(tmp_path):
    with served(tmp_path / "jobs.db") as server, closing(RemoteEngine(server.url)) as remote:
        server.kill()
        threading.Timer(0.5, server.restart).start()
        (added,) = remote.enqueue([NewJob("a")])

        assert State.WAITING is remote.job(added.id).state


def test_more_attempts_than_fit_into_one_request_are_sent_in_several(remote):
    remote.enqueue([NewJob("a")])
    (claimed,) = remote.claim(["default"], 1, worker="w").jobs
    many = [(seq, claimed.fence) for seq in range(claimed.seq + wire.MOST_ATTEMPTS, claimed.seq - 1, -1)]

    beats = remote.heartbeat(many)
    assert [beat.seq for beat in beats if beat.alive] == [claimed.seq]
    assert len(beats) == len(many)

    answers = remote.settle([Settlement(seq, fence, Done()) for seq, fence in many])
    assert answers == [False] * wire.MOST_ATTEMPTS + [True]

    # A request holds two outcomes of this size, and no third.
    long = Done(json.dumps("x" * (wire.MOST_BYTES // 2 - 2)))
    assert remote.settle([Settlement(claimed.seq, claimed.fence, long)] * 3) == [False] * 3


@server_on_sqlite
def test_relays_return_more_than_fits_into_one_request(server, caplog):
    with closing(App(server.url)) as app:

        @app.task(limits=[Concurrency(1, key="k:{n}")])
        async def act(n: int) -> str:
            return "x" * 15_000

        handles = app.enqueue_many([act.call(n % 100) for n in range(4_000)])
        with caplog.at_level(logging.ERROR, "penstock.worker"):
            app.work(until_idle=True, concurrency=100)

        assert [record.getMessage() for record in caplog.records] == []
        assert handles[-1].result(timeout=0) == "x" * 15_000


def test_what_answers_but_is_no_penstock_is_told_apart(unused):
    page = http.server.ThreadingHTTPServer(("127.0.0.1", unused), http.server.SimpleHTTPRequestHandler)
    page.RequestHandlerClass.log_message = lambda *_: None
    threading.Thread(target=page.serve_forever, daemon=True).start()
    try:
        with pytest.raises(Exception, match=r"says|no server"):
            RemoteEngine(f"http://127.0.0.1:{unused}")
    finally:
        page.shutdown()
        page.server_close()


@pytest.fixture
def unused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.mark.parametrize("sent", [None, "a-token-that-is-wrong"])
def test_a_bad_token_is_refused_and_told_to_nobody(guarded, sent, monkeypatch):
    monkeypatch.delenv("PENSTOCK_TOKEN", raising=False)
    with pytest.raises(AccessError, match="refuses the token") as caught:
        Client(guarded.url, token=sent).enqueue("a")

    assert str(sent) not in str(caught.value)
    environment = {"PENSTOCK_TOKEN": sent} if sent else {}
    ran = penstock("worker", "tests.support.outside:app", "--url", guarded.url, folder=ROOT, **environment)
    assert 4 == ran.returncode
    assert "refuses the token" in ran.stderr
    assert str(sent) not in ran.stderr + ran.stdout


def test_a_worker_reads_its_token_from_a_file(guarded, tmp_path):
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text(f"# ours\n{token('everything')}\n")
    with Client(guarded.url, token=token("everything")) as client:
        job = client.enqueue("tests.support.outside.boxed", 1, queue="boxed")
        ran = penstock(
            "worker", "tests.support.outside:app", "--url", guarded.url, "--token-file", str(file), "--until-idle",
            folder=ROOT,
        )  # fmt: skip

        assert 0 == ran.returncode, ran.stderr
        assert State.DONE is job.state


def test_commands_look_at_a_server(guarded):
    with Client(guarded.url, token=token("everything")) as client:
        client.enqueue("some.task", queue="mail")
    url = guarded.url.replace("http://", f"http://:{token('everything')}@")

    listed = penstock("jobs", "list", "--store", url, "--json")
    assert ["some.task"] == [job["task"] for job in json.loads(listed.stdout)["jobs"]]
    doctor = penstock("doctor", "--store", url)
    assert f"{guarded.url}: healthy\n" == doctor.stdout
    assert 2 == penstock("migrate", "--store", url).returncode


def test_a_token_allows_what_its_roles_allow(guarded):
    producer = RemoteEngine(guarded.url, token=token("producer"))
    worker = RemoteEngine(guarded.url, token=token("worker"))
    (job,) = producer.enqueue([NewJob("a")])

    with pytest.raises(AccessError, match="worker"):
        producer.claim(["default"], 1, worker="w")
    with pytest.raises(AccessError, match="producer"):
        worker.enqueue([NewJob("b")])
    for engine in (producer, worker):
        with pytest.raises(AccessError, match="operator"):
            engine.pause("default")
        assert job.id == engine.job(job.id).id
    assert [job.id] == [each.id for each in worker.claim(["default"], 1, worker="w").jobs]
    producer.close()
    worker.close()


def test_a_change_over_http_is_written_down_with_the_name_of_the_token_and_the_reason(guarded):
    acme, everybody = (RemoteEngine(guarded.url, token=token(name)) for name in ("acme", "everything"))
    everybody.pause("theirs")
    with everybody.acting(Actor("anna", reason="é: too slow")):
        everybody.pause("mine", tenant="acme")

    second, first = everybody.audit()
    assert ("queue.pause", "theirs", "http", "") == (first.verb, first.subject, first.through, first.reason)
    assert ("mine", "http", "é: too slow") == (second.subject, second.through, second.reason)
    assert first.who == second.who != "anna"
    assert [second] == acme.audit()
    with pytest.raises(AccessError):
        acme.audit(AuditFilter(tenant="bolt"))
    for engine in (acme, everybody):
        engine.close()


def test_a_tenant_computes_its_own_floating_limits_only(guarded):
    acme, bolt = (RemoteEngine(guarded.url, token=token(name)) for name in ("acme", "bolt"))
    everybody = RemoteEngine(guarded.url, token=token("everything"))
    for engine in (acme, bolt, everybody):
        floats = Limit("pool", Numbers(slots=1), floating=Floating("free", 60 * SECOND))
        engine.enqueue([NewJob("a", limits=(floats,))])

    (mine,) = acme.refreshes(["free"], 9, worker="w")
    (other,) = bolt.refreshes(["free"], 9, worker="w")
    (shared,) = everybody.refreshes(["free"], 9, worker="w")

    assert ("acme", "bolt", "") == (mine.tenant, other.tenant, shared.tenant)
    lent = [(each.gate, each.fence) for each in (mine, other, shared)]
    assert [True, False, False] == acme.renew_refreshes(lent)
    assert [True, True, True] == everybody.renew_refreshes(lent)
    assert [True, False, False] == [acme.refreshed(each, value=5) for each in (mine, other, shared)]
    assert ["acme"] == [view.tenant for view in acme.floating_limits()[0]]
    assert [1, 5, 1] == [view.value for view in everybody.floating_limits()[0]]
    with pytest.raises(AccessError):
        acme.refreshes(["free"], 1, worker="w", tenant="bolt")
    for engine in (acme, bolt, everybody):
        engine.close()


def test_a_tenant_sees_and_touches_its_own_only(guarded):
    acme, bolt = (RemoteEngine(guarded.url, token=token(name)) for name in ("acme", "bolt"))
    everybody = RemoteEngine(guarded.url, token=token("everything"))
    limits = (Limit("k", Numbers(slots=1)),)
    (job,) = acme.enqueue([NewJob("a", queue="mail", limits=limits)])
    bolt.enqueue([NewJob("b", queue="mail", limits=limits)])

    view = acme.job(job.id)
    assert ("acme", "mail") == (view.tenant, view.queue)
    assert ("acme", "mail") == (everybody.job(job.id).tenant, everybody.job(job.id).queue)
    assert [job.id] == [each.id for each in acme.jobs()] == [each.id for each in acme.jobs(queue="mail")]
    assert {State.WAITING: 1} == acme.count() == acme.count(queue="mail")
    assert ["mail"] == [queue["name"] for queue in acme.queues()]
    assert 1 == acme.gates()[1]
    for verb in (bolt.job, bolt.failures, bolt.why, bolt.cancel, bolt.retry):
        with pytest.raises(NotFoundError):
            verb(job.id)
    with pytest.raises(AccessError):
        bolt.gate("k", "acme")
    with pytest.raises(AccessError):
        bolt.configure("type", "a", Numbers(slots=0))

    with pytest.raises(InvalidError):
        acme.configure("tenant", "acme", None)
    with pytest.raises(AccessError):
        acme.enqueue([NewJob("a", limits=(Limit("everybody", Numbers(slots=1), shared=True),))])
    for engine in (acme, everybody):
        assert ["k"] == [limit.key for limit in engine.job(job.id).limits]

    acme.pause("mail")
    (theirs,) = bolt.claim(["mail"], 5, worker="b").jobs
    assert ("b", "mail") == (theirs.task, theirs.queue)
    acme.resume("mail")
    (ours,) = acme.claim(["mail"], 5, worker="a").jobs
    attempt = (ours.seq, ours.fence)
    assert [False] == bolt.settle([Settlement(*attempt, Done())])
    assert [False] == [beat.alive for beat in bolt.heartbeat([attempt])]
    assert not bolt.progress(*attempt, "1")
    assert [False] == bolt.exchange([Settlement(*attempt, Done())], ["mail"], 1, worker="b")[0]
    assert [True] == acme.settle([Settlement(*attempt, Done())])
    for engine in (acme, bolt, everybody):
        engine.close()
