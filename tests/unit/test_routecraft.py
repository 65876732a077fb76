"""Routes: what is about the whole, what is about a step, and the examples of the page they come from."""

import asyncio
import json
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from penstock import App
from penstock.dialects.routecraft import Jobs, Route, http
from penstock.policies import AttemptTimeout, BulkheadFull, InvalidPolicyError, RateExceeded
from penstock.testing import VirtualTime
from tests.support.tasks import Inside, together


class Backend:
    """Takes its time, and counts the calls that are inside at once."""

    def __init__(self, seconds=0.1):
        self.seconds, self.inside = seconds, Inside()

    @property
    def peak(self):
        return self.inside.most

    async def __call__(self, body):
        with self.inside:
            await asyncio.sleep(self.seconds)
        return body


@pytest.fixture
def time():
    return VirtualTime()


def test_a_step_is_bounded_and_the_next_is_not(time):
    reserve, receipt = Backend(), Backend()
    route = Route("reserve-inventory").source(range(20)).concurrency(max=5).to(reserve).transform(receipt)

    assert list(range(20)) == time.run(route.run())
    assert 5 == reserve.peak
    slow = Backend(1)
    unbounded = Route("same").source(range(20)).concurrency(max=5).to(Backend(0.01)).transform(slow)
    time.run(unbounded.run())
    assert 20 == slow.peak


def test_a_route_is_bounded_as_a_whole(time):
    backend, second = Backend(), Backend()
    route = Route("bounded-pipeline").concurrency(max=10).source(range(50)).to(backend).to(second)

    time.run(route.run())

    assert 10 >= max(backend.peak, second.peak)
    assert 10 == backend.peak


def test_reject_mode_sheds_load_at_a_step(time):
    route = (
        Route("enrich").source([]).concurrency(max=5, mode="reject").to(Backend()).transform(lambda n: n + 1)
    )

    answers = time.run(together(*map(route.send, range(8)), return_exceptions=True))

    assert [1, 2, 3, 4, 5] == answers[:5]
    assert ["busy"] * 3 == [error.reason for error in answers[5:]]
    assert ["RC5026"] * 3 == [error.rc for error in answers[5:]]


def test_route_and_step_scope_compose(time):
    scarce, wide = Backend(), Backend()
    route = Route("both").concurrency(max=4).source(range(12)).to(wide).concurrency(max=2).to(scarce)

    time.run(route.run())

    assert (4, 2) == (wide.peak, scarce.peak)


def test_global_and_per_key_limits_stack(time):
    inside = defaultdict(Inside)

    async def work(body):
        with inside[body[0]], inside["all"]:
            await asyncio.sleep(0.1)

    route = (
        Route("stacked")
        .source([(key, n) for n in range(5) for key in "abcd"])
        .concurrency(max=1, key=lambda exchange: exchange.body[0], maxKeys=100)
        .concurrency(max=3)
        .to(work)
    )

    time.run(route.run())

    assert {"a": 1, "b": 1, "c": 1, "d": 1, "all": 3} == {key: each.most for key, each in inside.items()}


def test_a_rejection_goes_to_the_error_handler_of_the_route(time):
    seen = []

    def handler(error):
        seen.append(error.rc)
        if error.rc == "RC5026":
            return 503
        raise error

    route = Route("shedding").error(handler).concurrency(max=1, mode="reject").source([]).to(Backend())

    assert [200, 503] == time.run(together(route.send(200), route.send(200)))
    assert ["RC5026"] == seen


def test_retry_around_a_bulkhead_backs_off_and_comes_back(time):
    backend = Backend()
    insistent = Route("insistent").source([]).retry(maxAttempts=4, backoffMs=50, factor=2)
    route = insistent.concurrency(max=8, mode="reject").to(backend)

    assert list(range(16)) == time.run(together(*map(route.send, range(16))))
    assert 8 == backend.peak


def test_a_slot_is_free_while_a_retry_sleeps(time):
    failures = iter([True, False])
    inside = []

    async def fails_once(body):
        if body == "first" and next(failures):
            raise ConnectionError
        inside.append((body, time.now()))
        return body

    route = Route("freed").concurrency(max=1).retry(3, backoffMs=10_000).source([]).to(fails_once)

    assert ["first", "second"] == time.run(together(route.send("first"), route.send("second")))
    assert [("second", 0), ("first", 10)] == [(who, pytest.approx(at)) for who, at in inside]


@pytest.mark.parametrize("order", ["outermost last", "outermost first"])
def test_the_order_around_a_route_is_fixed_however_it_is_written(time, order):
    runs = []

    async def work(body):
        runs.append(time.now())
        await asyncio.sleep(1)

    route = Route("any")
    policies = [
        lambda: route.concurrency(max=1),
        lambda: route.timeout(0.5),
        lambda: route.retry(3, backoffMs=0),
        lambda: route.throttle(1, per=100),
    ]
    for policy in policies if order == "outermost last" else policies[::-1]:
        policy()

    # Throttle outside retry: three attempts for one start.  Timeout inside retry: each attempt has its own.
    with pytest.raises(AttemptTimeout):
        time.run(route.source([]).to(work).send(1))
    assert [0, 0.5, 1] == [pytest.approx(at) for at in runs]


def test_a_throttle_of_a_route_is_handled_but_never_retried(time):
    calls = []
    route = (
        Route("paced")
        .throttle(1, per=100, mode="reject")
        .retry(5, backoffMs=0)
        .error(lambda error: error.rc)
        .source([])
        .to(calls.append)
    )

    async def main():
        return [await route.send(1), await route.send(2)]

    assert [None, "RC5013"] == time.run(main())
    assert [1] == calls


def test_the_four_events_have_their_payloads(time):
    told = []

    async def reserve(body):
        await asyncio.sleep(0.1)

    route = (
        Route("observed")
        .source([])
        .concurrency(max=1, maxQueue=1, label="scarce", key=lambda exchange: exchange.headers["user"])
        .to(reserve)
        .on("route:concurrency:*", lambda name, payload: told.append((name, payload)))
    )

    calls = (route.send(n, {"user": "ann"}) for n in range(3))
    answers = time.run(together(*calls, return_exceptions=True))

    assert isinstance(answers[2], BulkheadFull)
    names = ["acquired", "queued", "rejected", "released", "acquired", "released"]
    assert [f"route:concurrency:{name}" for name in names] == [name for name, _ in told]
    first, queued, rejected, released, second, _ = (payload for _, payload in told)
    common = {"routeId": "observed", "stepLabel": "reserve", "scope": "step", "label": "scarce", "key": "ann"}
    for payload in (first, queued, rejected, released, second):
        assert common.items() <= payload.items()
        assert payload["exchangeId"] == payload["correlationId"]
    assert (False, 1) == (first["waited"], first["inUse"])
    assert 1 == queued["queueDepth"]
    assert "queue-full" == rejected["reason"]
    assert 100 == pytest.approx(released["heldMs"])
    assert (True, 1) == (second["waited"], second["inUse"])
    assert queued["exchangeId"] == second["exchangeId"] != first["exchangeId"]


def test_events_of_a_route_say_so(time):
    told = []
    heard = Route("whole").on("route:concurrency:*", lambda name, payload: told.append(payload))
    route = heard.concurrency(max=1, mode="reject").source([]).to(Backend())

    time.run(together(route.send(1), route.send(2), return_exceptions=True))

    assert {("route", "route")} == {(payload["scope"], payload["stepLabel"]) for payload in told}
    assert "busy" in [payload.get("reason") for payload in told]


@pytest.mark.parametrize(
    "options",
    [
        {"max": 0}, {"max": 1.5}, {"max": 1, "mode": "drop"}, {"max": 1, "maxQueue": 0}, {"max": 1, "maxKeys": 0},
        {"max": 1, "maxQueue": 2, "mode": "reject"}, {}, {"max": 1, "label": 3},
    ],
)  # fmt: skip
def test_wrong_options_are_refused_when_a_route_is_built(options):
    with pytest.raises(InvalidPolicyError) as caught:
        Route("wrong").source([]).concurrency(**options)
    assert "RC5003" == caught.value.rc


def test_a_policy_that_no_step_follows_is_an_error(time):
    route = Route("loose").source([1]).concurrency(max=1)

    with pytest.raises(InvalidPolicyError, match="RC2001"):
        time.run(route.run())
    with pytest.raises(InvalidPolicyError, match="source"):
        Route("early").to(print)
    with pytest.raises(InvalidPolicyError, match="one retry"):
        Route("twice").retry(2).retry(3)


def test_each_route_has_slots_of_its_own(time):
    backend = Backend()
    one, other = (Route(name).concurrency(max=1).source([]).to(backend) for name in ("one", "other"))

    time.run(together(one.send(1), one.send(2), other.send(3), other.send(4)))

    assert 2 == backend.peak


def test_what_is_dropped_or_fails_frees_its_slot(time):
    def odd(*bodies):
        return Route("sieve").concurrency(max=1).source(bodies).filter(lambda body: body % 2)

    route = odd(1, 2, 3, 4).to(lambda body: 1 // (body - 3))

    with pytest.raises(ZeroDivisionError):
        time.run(route.run())
    assert 0 == route.limits[0].stats().in_use
    assert [1] == time.run(odd(1, 2, 4).to(lambda body: body).run())


def test_an_error_handler_of_a_step_lets_the_route_go_on(time):
    def fails(body):
        raise LookupError

    route = Route("patched").source([1]).error(lambda error: 5).to(fails).to(lambda body: body + 1)

    assert [6] == time.run(route.run())


def test_sources_are_iterables_functions_and_async_iterables(time):
    async def numbers():
        yield 1
        yield 2

    for source in ([1, 2], lambda: [1, 2], numbers, numbers()):
        assert [2, 4] == time.run(Route("any").source(source).to(lambda body: body * 2).run())


def test_an_http_call_is_a_destination():
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(503 if body["order"] == 13 else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Retry-After", "7")
            self.end_headers()
            self.wfile.write(json.dumps({"reserved": body["order"]}).encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/reserve"
        route = Route("reserve").source([{"order": 1}]).concurrency(max=5).to(http(url))

        assert [{"reserved": 1}] == asyncio.run(route.run())
        with pytest.raises(Exception, match="answered 503") as caught:
            asyncio.run(route.send({"order": 13}))
        assert (True, 7) == (caught.value.retryable, caught.value.retry_after)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    with pytest.raises(InvalidPolicyError):
        http("file.txt")


def test_a_route_feeds_and_drains_jobs(tmp_path):
    app = App(tmp_path / "jobs.db")
    seen = []
    drain = Route("drain").concurrency(max=2).source(jobs := Jobs(app, "orders")).to(seen.append)
    feed = Route("feed").source(range(5)).to(jobs.task)

    asyncio.run(feed.run())
    asyncio.run(drain.run())
    app.close()

    assert list(range(5)) == sorted(seen)
    assert 5 == drain.limits[0].stats().acquired


def test_a_throttle_of_a_step_is_retried(time):
    refused = []
    route = (
        Route("insistent")
        .source([])
        .retry(3, backoffMs=1000, on=lambda error: refused.append(error) or True)
        .throttle(1, per=1, mode="reject")
        .to(lambda body: body)
    )

    async def main():
        return [await route.send(1), await route.send(2)]

    assert [1, 2] == time.run(main())
    assert [RateExceeded] == [type(error) for error in refused]
