"""Webhooks: subscriptions that last, deliveries that are signed, tried again, and no delivery delays another."""

import hashlib
import hmac
import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.server import served

PATH = "/ojs/v1/webhooks/subscriptions"
JOB = {"type": "test.echo", "args": [1]}
SECRET = "whsec_of_the_test"


class Receiver:
    """The server of another program.  It answers with *statuses* in turn, the last one for ever, each after *delay*."""

    def __init__(self, *statuses, delay=0.0, location=None):
        self.got = []
        self._statuses = list(statuses) or [200]
        self._delay = delay
        self._location = location
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((time.monotonic(), dict(self.headers.items()), body))
                time.sleep(receiver._delay)
                statuses = receiver._statuses
                self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
                if receiver._location:
                    self.send_header("Location", receiver._location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    @property
    def events(self):
        return [json.loads(body) for _, _, body in list(self.got)]

    @property
    def headers(self):
        return [headers for _, headers, _ in list(self.got)]


@contextmanager
def receiving(*statuses, **options):
    receiver = Receiver(*statuses, **options)
    threading.Thread(target=receiver._server.serve_forever, daemon=True).start()
    yield receiver
    receiver._server.shutdown()
    receiver._server.server_close()


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with served(
        tmp_path_factory.mktemp("webhooks") / "jobs.db", "--test-mode", "--log-level", "debug"
    ) as server:
        yield server


@pytest.fixture
def server(running):
    for subscription in running.get(PATH)["subscriptions"]:
        running.delete(f"{PATH}/{subscription['id']}")
    assert running.post("/ojs/v1/admin/reset").status == 200
    return running


def subscribed(server, url, *events, **more):
    headers = {name: more.pop(name) for name in list(more) if name.startswith("X_")}
    body = {"url": url, "events": events or ["job.*"], "secret": SECRET, **more}
    answer = server.post(PATH, body, **headers)

    assert 201 == answer.status, answer.body
    return answer["subscription"]


def done(server, **options):
    """Enqueue, fetch and acknowledge a job; return it."""
    job = server.enqueue({**JOB, "options": options})
    server.fetch(options.get("queue", "default"))
    server.ack(job)
    return job


def deliveries(server):
    return server.get("/ojs/v1/webhooks/deliveries")["deliveries"]


def signature(headers, body, secret=SECRET):
    content = headers["X-OJS-Timestamp"].encode() + b"." + body
    return "sha256=" + hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()


class TestSubscriptions:
    def test_one_can_be_made_seen_changed_and_ended(self, server):
        made = subscribed(server, "https://example.com/hook", "job.completed", metadata={"owner": "me"})
        answer = server.call("PATCH", f"{PATH}/{made['id']}", {"events": ["job.completed", "job.failed"]})

        assert made["active"] is True
        assert {"owner": "me"} == made["metadata"]
        assert ["job.completed", "job.failed"] == answer["subscription"]["events"]
        assert answer["subscription"] == server.get(f"{PATH}/{made['id']}")["subscription"]
        assert [made["id"]] == [each["id"] for each in server.get(PATH)["subscriptions"]]
        assert 200 == server.delete(f"{PATH}/{made['id']}").status
        assert 404 == server.get(f"{PATH}/{made['id']}").status
        assert 404 == server.delete(f"{PATH}/{made['id']}").status

    def test_a_secret_is_shown_once_if_it_is_made_here_and_never_if_it_was_given(self, server):
        given = server.post(PATH, {"url": "https://example.com", "events": ["*"], "secret": SECRET})
        made = server.post(PATH, {"url": "https://example.com", "events": ["*"]})
        everything = json.dumps(
            [given.body, server.get(PATH).body, server.get(f"{PATH}/{made['id']}").body, server.log]
        )

        assert len(made["subscription"]["secret"]) > 30
        assert made["subscription"]["secret"] not in everything
        assert SECRET not in everything

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"url": "ftp://example.com"}, "url"),
            ({"url": "https://user:pass@example.com"}, "url"),
            ({"url": "http://169.254.169.254/latest/meta-data"}, "url"),
            ({"url": "http://[fe80::1]/"}, "url"),
            ({"url": "http://[::ffff:169.254.169.254]/"}, "url"),
            ({"url": "http://0.0.0.0/"}, "url"),
            ({"url": "http://[fd00:ec2::254]/"}, "url"),
            ({"url": "http://example.com:99999/"}, "url"),
            ({"url": "http://exa mple.com/"}, "url"),
            ({"url": "http://exämple.com/"}, "url"),
            ({"url": "http://[::1"}, "url"),
            ({"url": "http:///nowhere"}, "url"),
            ({"url": 3}, "url"),
            ({"events": []}, "events"),
            ({"events": ["no!"]}, "events"),
            ({"filter": {"queues": ["UPPER"]}}, "filter.queues"),
            ({"secret": "short"}, "secret"),
        ],
        ids=str,
    )
    def test_what_cannot_be_is_refused_by_name(self, server, change, field):
        answer = server.post(PATH, {"url": "https://example.com/", "events": ["*"]} | change)

        assert 400 == answer.status
        assert field in answer["error"]["details"]["field"]
        assert [] == server.get(PATH)["subscriptions"]

    def test_a_tenant_has_only_its_own(self, server):
        made = subscribed(server, "https://example.com/", X_OJS_Tenant="mine")
        other = {"X_OJS_Tenant": "other"}

        assert [] == server.get(PATH, **other)["subscriptions"]
        asked = [("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/test"), ("POST", "/rotate-secret")]
        for method, path in asked:
            assert 404 == server.call(method, f"{PATH}/{made['id']}{path}", {}, **other).status
        assert [made["id"]] == [each["id"] for each in server.get(PATH)["subscriptions"]]


class TestDeliveries:
    def test_an_event_is_delivered_signed_and_in_its_envelope(self, server):
        with receiving() as receiver:
            made = subscribed(server, receiver.url, "job.completed")
            job = done(server)
            server.until(lambda: receiver.got)
            (_, headers, body), *others = receiver.got

        assert [] == others
        event = json.loads(body)
        assert ("job.completed", job["id"]) == (event["type"], event["subject"])
        assert "application/json" == headers["Content-Type"]
        assert headers["User-Agent"].startswith("OJS-Webhook/1.0")
        assert "job.completed" == headers["X-OJS-Event-Type"]
        assert made["id"] == headers["X-OJS-Subscription-ID"]
        assert headers["X-OJS-Delivery-ID"].startswith("del_")
        assert abs(int(headers["X-OJS-Timestamp"]) - time.time()) < 60
        assert signature(headers, body) == headers["X-OJS-Signature"]

    def test_only_what_was_asked_for_comes(self, server):
        with receiving() as receiver, receiving() as other:
            subscribed(server, receiver.url, "job.completed", filter={"queues": ["mail"]})
            subscribed(server, other.url, "rate_limit.*")
            done(server)
            job = done(server, queue="mail")
            server.until(lambda: receiver.got)
            time.sleep(0.3)

            assert [job["id"]] == [event["subject"] for event in receiver.events]
            assert [] == other.got

    def test_a_tenant_hears_only_of_its_own_jobs(self, server):
        with receiving() as receiver:
            subscribed(server, receiver.url, "job.enqueued", X_OJS_Tenant="mine")
            server.enqueue(JOB)
            server.enqueue(JOB, X_OJS_Tenant="other")
            job = server.enqueue(JOB, X_OJS_Tenant="mine")
            server.until(lambda: receiver.got)
            time.sleep(0.3)

            assert [job["id"]] == [event["subject"] for event in receiver.events]

    def test_a_failure_is_tried_again_under_the_same_id(self, server):
        with receiving(500, 503, 200) as receiver:
            subscribed(server, receiver.url, "job.completed")
            done(server)
            server.until(lambda: len(receiver.got) >= 3)
            times = [at for at, _, _ in receiver.got]

            assert 1 == len({headers["X-OJS-Delivery-ID"] for headers in receiver.headers})
            assert times[1] - times[0] >= 0.9
            assert times[2] - times[1] >= 4.9
            found = server.until(lambda: [d for d in deliveries(server) if d["state"] == "delivered"])
            assert (3, 200) == (found[0]["attempts"], found[0]["status_code"])

    def test_a_refusal_is_the_last_word(self, server):
        with receiving(404) as receiver:
            subscribed(server, receiver.url, "job.completed")
            done(server)
            server.until(lambda: deliveries(server) and receiver.got)
            time.sleep(1.5)

            assert 1 == len(receiver.got)
            assert "dead" == deliveries(server)[0]["state"]

    def test_one_that_hangs_is_in_nobodys_way(self, server):
        with receiving(delay=25) as slow, receiving() as quick:
            subscribed(server, slow.url, "job.completed")
            subscribed(server, quick.url, "job.completed")
            jobs = [done(server) for _ in range(20)]
            server.until(lambda: len(quick.got) >= 20, seconds=20)

            assert {job["id"] for job in jobs} == {event["subject"] for event in quick.events}
            assert len(slow.got) <= 4

    def test_one_that_is_ended_or_set_aside_gets_nothing_more(self, server):
        with receiving() as receiver, receiving() as other:
            first = subscribed(server, receiver.url, "job.completed")
            second = subscribed(server, other.url, "job.completed")
            server.delete(f"{PATH}/{first['id']}")
            server.call("PATCH", f"{PATH}/{second['id']}", {"active": False})
            done(server)
            time.sleep(0.5)
            assert [] == receiver.got == other.got

            server.call("PATCH", f"{PATH}/{second['id']}", {"active": True})
            done(server)
            server.until(lambda: other.got)

    def test_a_new_secret_signs_beside_the_old_one(self, server):
        with receiving() as receiver:
            made = subscribed(server, receiver.url, "job.completed")
            new = server.post(f"{PATH}/{made['id']}/rotate-secret")["secret"]
            done(server)
            server.until(lambda: receiver.got)
            _, headers, body = receiver.got[0]

            assert f"{signature(headers, body, new)},{signature(headers, body)}" == headers["X-OJS-Signature"]

    def test_a_trial_tells_what_came_of_it(self, server):
        with receiving() as receiver:
            made = subscribed(server, receiver.url)
            answer = server.post(f"{PATH}/{made['id']}/test")

            assert (True, 200) == (answer["success"], answer["status_code"])
            assert ["webhook.test"] == [event["type"] for event in receiver.events]
        long = subscribed(server, f"http://{'a' * 100}.example.com/")
        assert "name of a host" in server.post(f"{PATH}/{long['id']}/test")["error"]
        refused = server.post(f"{PATH}/{made['id']}/test")
        assert refused["success"] is False
        assert refused["error"]

    def test_a_redirect_leads_nowhere_that_is_not_allowed(self, server):
        with receiving() as goal, receiving(307, location=goal.url) as receiver:
            made = subscribed(server, receiver.url)
            assert server.post(f"{PATH}/{made['id']}/test")["success"]
            assert 1 == len(goal.got)
        with receiving(307, location="http://169.254.169.254/") as receiver:
            made = subscribed(server, receiver.url)
            answer = server.post(f"{PATH}/{made['id']}/test")

            assert answer["success"] is False
            assert "169.254.169.254" in answer["error"]


def test_subscriptions_last_and_another_server_of_the_same_store_delivers_too(tmp_path):
    store = tmp_path / "jobs.db"
    with receiving() as receiver:
        with served(store) as server:
            subscribed(server, receiver.url, "job.completed")
            server.kill()
            server.restart()
            with served(store) as other:
                done(other)
                other.until(lambda: receiver.got)
            done(server)
            server.until(lambda: len(receiver.got) >= 2)

        assert 2 == len(receiver.got)


def test_a_server_that_others_can_reach_sends_nothing_to_its_own_machine(tmp_path):
    with receiving() as receiver, served(tmp_path / "jobs.db", "--host", "0.0.0.0", "--insecure") as server:
        for url in (receiver.url, receiver.url.replace("127.0.0.1", "localhost"), "http://[::1]:80/"):
            answer = server.post(PATH, {"url": url, "events": ["*"]})

            assert (400, "url") == (answer.status, answer["error"]["details"]["field"])
