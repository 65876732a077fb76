"""Events over HTTP: by polling, as server-sent events, over a WebSocket."""

import http.client
import json
import threading
import time
from collections import defaultdict

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.support.server import served
from tests.support.stores import server_on_sqlite
from tests.support.timing import at_once

JOB = {"type": "test.echo", "args": [1]}
LIMITED = {**JOB, "options": {"rate_limit": {"key": "api", "concurrency": 1}}}


def events(server, query="", **headers):
    answer = server.get(f"/ojs/v1/events?{query}", **headers)

    assert 200 == answer.status, answer.body
    return answer["events"]


def names(found):
    return [event["type"] for event in found]


def wait_for(server, name, count=1, query=""):
    """Wait until so many events of a name are told; return them."""
    return server.until(lambda: len(found := events(server, f"types={name}&{query}")) >= count and found)


class Stream:
    """A stream of server-sent events, read as they come."""

    def __init__(self, server, path, **headers):
        host, port = server.url.removeprefix("http://").split(":")
        self._connection = http.client.HTTPConnection(host, int(port), timeout=20)
        self._connection.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        self.answer = self._connection.getresponse()
        self.comments = []

    def __enter__(self):
        if self.answer.status == 200:
            self._line()  # it is there, and follows from now on
        return self

    def __exit__(self, *_):
        self._connection.close()

    def _line(self):
        return self.answer.readline().decode()

    def __iter__(self):
        event = {}
        while line := self._line():
            if line == "\n":
                if "data" in event:
                    yield event
                event = {}
            elif line.startswith(":"):
                self.comments.append(line)
            else:
                name, _, value = line.rstrip("\n").partition(": ")
                event[name] = json.loads(value) if name == "data" else value


class TestPolling:
    def test_an_event_is_an_envelope_with_what_happened_to_which_job(self, server):
        job = server.enqueue({**JOB, "options": {"queue": "mail"}})
        server.fetch("mail", worker_id="w1")
        server.ack(job)
        found = wait_for(server, "job.completed", query="queues=mail&limit=10")[0]

        assert "1.0" == found["specversion"]
        assert found["id"].startswith("evt_")
        assert found["source"].startswith("ojs://")
        assert job["id"] == found["subject"]
        assert found["time"].endswith("Z")
        data = found["data"]
        assert (job["id"], "test.echo", "mail", 1) == tuple(
            data[name] for name in ("job_id", "job_type", "queue", "attempt")
        )
        assert 0 <= data["duration_ms"] < 5_000
        assert ["job.enqueued", "job.started", "job.completed"] == names(events(server))
        assert "w1" == events(server, "types=job.started")[0]["data"]["worker_id"]

    def test_a_failure_is_told_with_its_error_and_what_comes_next(self, server):
        job = server.enqueue({**JOB, "options": {"retry": {"max_attempts": 2, "initial_interval": "PT0.1S"}}})
        for _ in range(2):
            server.until(lambda: server.fetch("default"))
            server.nack(job)
        wait_for(server, "job.discarded")
        found = events(server)

        told = ["enqueued", "started", "failed", "retrying", "started", "failed", "discarded"]
        assert [f"job.{name}" for name in told] == names(found)
        assert ("handler_error", "no", True) == tuple(
            found[2]["data"]["error"][name] for name in ("code", "message", "retryable")
        )
        assert found[3]["data"]["next_retry_at"] > found[3]["time"]
        assert (2, "no") == (found[6]["data"]["total_attempts"], found[6]["data"]["last_error"]["message"])

    def test_a_cursor_leads_through_all_events_once(self, server):
        for _ in range(25):
            server.enqueue(JOB)
        wait_for(server, "job.enqueued", 25)
        seen, cursor, more = [], "", True
        while more:
            page = server.get(f"/ojs/v1/events?limit=7&after={cursor}").body
            assert len(page["events"]) <= 7
            seen += page["events"]
            cursor, more = page["cursor"], page["has_more"]

        assert 25 == len({event["id"] for event in seen}) == len(seen)
        assert sorted(event["id"] for event in seen) == [event["id"] for event in seen]
        server.enqueue(JOB)
        assert 1 == len(server.until(lambda: events(server, f"cursor={cursor}")))

    def test_a_page_may_end_between_two_events_of_one_moment(self, server):
        job = server.enqueue({**JOB, "options": {"retry": {"max_attempts": 1}}})
        server.fetch("default")
        server.nack(job)
        wait_for(server, "job.discarded")
        first = server.get("/ojs/v1/events?limit=3").body
        second = server.get(f"/ojs/v1/events?limit=3&after={first['cursor']}").body

        assert ["job.enqueued", "job.started", "job.failed"] == names(first["events"])
        assert (["job.discarded"], False) == (names(second["events"]), second["has_more"])
        assert [] == events(server, f"after={second['cursor']}")

    def test_the_events_of_each_job_are_complete_and_in_order_though_much_is_done_at_once(self, server):
        def work(_):
            for _ in range(20):
                server.enqueue(JOB)
                for job in server.fetch("default", count=2):
                    server.ack(job)

        at_once(8, work)
        while jobs := server.fetch("default", count=50):
            for job in jobs:
                server.ack(job)
        wait_for(server, "job.completed", 160, "limit=1000")
        told = defaultdict(list)
        for event in events(server, "limit=1000"):
            told[event["subject"]].append(event["type"])

        assert 160 == len(told)
        assert {("job.enqueued", "job.started", "job.completed")} == set(map(tuple, told.values()))

    def test_types_queues_and_job_types_choose(self, server):
        server.enqueue({**JOB, "options": {"queue": "a"}})
        server.enqueue({"type": "other.kind", "args": [], "options": {"queue": "b"}})
        server.fetch("a", "b", count=2)
        wait_for(server, "job.started", 2)

        assert ["a"] == [event["data"]["queue"] for event in events(server, "queues=a&types=job.started")]
        assert {"other.kind"} == {e["data"]["job_type"] for e in events(server, "job_types=other.kind")}
        assert 4 == len(events(server, "types=job.*"))
        assert [] == events(server, "types=queue.*")

    @pytest.mark.parametrize("query", ["after=x", "limit=0", "limit=1001", "types=A!", "queues=A"])
    def test_a_bad_question_is_refused_by_name(self, server, query):
        answer = server.get(f"/ojs/v1/events?{query}")

        assert 400 == answer.status
        assert query.partition("=")[0] == answer["error"]["details"]["field"]

    @server_on_sqlite
    def test_the_oldest_are_forgotten_and_that_is_told(self, server):
        server.enqueue(JOB)
        first = wait_for(server, "job.enqueued")[0]["id"]
        for _ in range(11):
            answer = server.post("/ojs/v1/jobs/batch", {"jobs": [JOB] * 1_000})
            assert 201 == answer.status
        cursor = server.until(
            lambda: (b := server.get(f"/ojs/v1/events?after={first}").body).get("events_dropped") and b
        )

        assert cursor["events"][0]["id"] > first
        assert "events_dropped" not in server.get(f"/ojs/v1/events?after={cursor['cursor']}").body


class TestLimits:
    def test_the_four_events_of_rate_limits_carry_their_facts(self, server):
        first, second = server.enqueue(LIMITED), server.enqueue(LIMITED)
        server.fetch("default", count=2)
        found = wait_for(server, "rate_limit.exceeded")

        wanted = {"key": "api", "strategy": "concurrency", "limit": 1, "current": 1, "job_id": second["id"]}
        assert wanted.items() <= found[0]["data"].items()
        for _ in range(5):
            server.fetch("default")
        assert 1 == len(events(server, "types=rate_limit.exceeded"))

        server.ack(first)
        server.fetch("default")
        released = wait_for(server, "rate_limit.released")[0]["data"]
        assert {"key": "api", "strategy": "concurrency", "job_id": second["id"]}.items() <= released.items()

        policy = {"key": "api", "concurrency": 1, "on_limit": "drop"}
        dropped = server.enqueue({**JOB, "options": {"rate_limit": policy}})
        told = wait_for(server, "rate_limit.dropped")[0]["data"]
        assert {"key": "api", "job_id": dropped["id"], "job_type": "test.echo"}.items() <= told.items()

        server.nack(second, {"message": "429", "rate_limit_until": "2099-01-01T00:00:00Z"})
        adjusted = wait_for(server, "rate_limit.dynamic_adjusted")[0]["data"]
        assert ("api", "2099-01-01T00:00:00Z") == (adjusted["key"], adjusted["until"])
        assert adjusted["reason"]

    def test_a_throttle_is_named_as_what_stopped_the_job(self, server):
        policy = {"key": "slow", "throttle": {"limit": 1, "period": "PT1H"}}
        for _ in range(2):
            server.enqueue({**JOB, "options": {"rate_limit": policy}})
        server.fetch("default", count=2)

        assert "throttle" == wait_for(server, "rate_limit.exceeded")[0]["data"]["strategy"]


class TestOthers:
    def test_pausing_and_resuming_a_queue_is_told(self, server):
        server.post("/ojs/v1/queues/mail/pause")
        server.post("/ojs/v1/queues/mail/resume")
        wait_for(server, "queue.resumed")

        assert [("queue.paused", "mail"), ("queue.resumed", "mail")] == [
            (event["type"], event["data"]["queue"]) for event in events(server)
        ]

    def test_cancelling_is_told_at_once_and_once(self, server):
        waiting, active = server.enqueue(JOB), server.enqueue(JOB)
        server.fetch("default")
        for job in (waiting, active):
            assert server.delete(f"/ojs/v1/jobs/{job['id']}").status == 200
        wait_for(server, "job.cancelled", 2)
        server.post("/ojs/v1/workers/ack", {"job_id": waiting["id"]})
        time.sleep(0.5)

        assert {waiting["id"], active["id"]} == {e["subject"] for e in events(server, "types=job.cancelled")}
        assert 2 == len(events(server, "types=job.cancelled"))

    def test_a_scheduled_job_is_told_with_its_moment(self, server):
        server.enqueue({**JOB, "options": {"scheduled_at": "2099-01-01T00:00:00Z"}})
        found = wait_for(server, "job.scheduled")[0]

        assert "2099-01-01T00:00:00Z" == found["data"]["scheduled_at"]


class TestTraces:
    PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    def test_the_context_of_a_request_reaches_the_worker(self, server):
        server.enqueue({**JOB, "meta": {"a": 1}}, traceparent=self.PARENT, tracestate="x=y")
        server.post("/ojs/v1/jobs/batch", {"jobs": [JOB]}, traceparent=self.PARENT)
        first, second = server.fetch("default", count=2)

        assert {"a": 1, "traceparent": self.PARENT, "tracestate": "x=y"} == first["meta"]
        assert self.PARENT == second["meta"]["traceparent"]

    def test_what_the_job_says_of_itself_goes_before_and_nonsense_is_not_carried(self, server):
        own = self.PARENT.replace("4bf9", "1234")
        server.enqueue({**JOB, "meta": {"traceparent": own}}, traceparent=self.PARENT)
        server.enqueue(JOB, traceparent="nonsense")
        first, second = server.fetch("default", count=2)

        assert (own, {}) == (first["meta"]["traceparent"], second["meta"])


class TestTenants:
    def test_a_tenant_sees_only_its_own(self, server):
        mine, other = ({"X_OJS_Tenant": name} for name in ("mine", "other"))
        job = server.enqueue(JOB, **mine)
        server.enqueue(JOB, **other)
        server.enqueue(JOB)
        wait_for(server, "job.enqueued", 3)

        (found,) = events(server, **mine)
        assert (job["id"], "default") == (found["data"]["job_id"], found["data"]["queue"])
        for path in (f"/ojs/v1/jobs/{job['id']}/events", f"/ojs/v1/events/stream?channel=job:{job['id']}"):
            assert 404 == server.get(path, **other).status
        with Stream(
            server, "/ojs/v1/events/stream?channel=queue:default", **{"X-OJS-Tenant": "mine"}
        ) as stream:
            server.enqueue(JOB, **other)
            last = server.enqueue(JOB, **mine)
            assert last["id"] == next(iter(stream))["data"]["subject"]


class TestStreams:
    def test_a_job_is_followed_until_it_has_ended(self, server):
        job = server.enqueue(JOB)
        with Stream(server, f"/ojs/v1/jobs/{job['id']}/events") as stream:
            assert "text/event-stream" == stream.answer.getheader("Content-Type")
            server.enqueue(JOB)
            server.fetch("default", count=2)
            server.ack(job)
            found = list(stream)

        catalogued = [event for event in found if event["event"] != "job.state_changed"]
        assert ["job.started", "job.completed"] == [event["event"] for event in catalogued]
        assert {job["id"]} == {event["data"]["subject"] for event in catalogued}
        assert [("available", "active"), ("active", "completed")] == [
            (event["data"]["from"], event["data"]["to"])
            for event in found
            if event["event"] == "job.state_changed"
        ]
        ids = [event["id"] for event in found]
        assert sorted(ids) == ids

    def test_a_reader_that_comes_too_late_hears_how_it_ended(self, server):
        job = server.enqueue(JOB)
        server.fetch("default")
        server.ack(job)
        with Stream(server, f"/ojs/v1/events/stream?channel=job:{job['id']}") as stream:
            (found,) = stream

        assert ("job.state_changed", "completed") == (found["event"], found["data"]["to"])

    def test_a_reader_that_comes_back_misses_nothing(self, server):
        jobs = [server.enqueue({**JOB, "options": {"queue": "mail"}}) for _ in range(3)]
        first = wait_for(server, "job.enqueued", 3)[0]["id"]
        with Stream(server, "/ojs/v1/queues/mail/events", **{"Last-Event-ID": first}) as stream:
            again = iter(stream)

            assert [job["id"] for job in jobs[1:]] == [next(again)["data"]["subject"] for _ in range(2)]

    def test_a_request_for_the_head_alone_is_not_kept(self, server):
        answer = server.call("HEAD", "/ojs/v1/events/stream?channel=all")

        assert (200, "text/event-stream") == (answer.status, answer.headers["content-type"])

    def test_what_is_unknown_cannot_be_followed(self, server):
        nobody = "019461a8-0000-7000-8000-000000000000"

        assert 404 == server.get(f"/ojs/v1/jobs/{nobody}/events").status
        assert 400 == server.get("/ojs/v1/events/stream?channel=nonsense").status

    @server_on_sqlite
    def test_a_reader_that_does_not_read_slows_nobody(self, server):
        with Stream(server, "/ojs/v1/events/stream?channel=all"):
            began = time.monotonic()
            for _ in range(10):
                assert 201 == server.post("/ojs/v1/jobs/batch", {"jobs": [JOB] * 1_000}).status

            assert time.monotonic() - began < 50


class TestSockets:
    @pytest.fixture
    def socket(self, server):
        with connect(server.url.replace("http", "ws") + "/ojs/v1/ws", subprotocols=["ojs.v1"]) as socket:
            yield socket

    @staticmethod
    def said(socket, **message):
        socket.send(json.dumps(message))
        return json.loads(socket.recv(10))

    def test_a_channel_is_followed_until_it_is_no_longer_wanted(self, server, socket):
        answer = self.said(socket, action="subscribe", channel="queue:mail")
        job = server.enqueue({**JOB, "options": {"queue": "mail"}})
        server.enqueue(JOB)
        event = json.loads(socket.recv(10))
        left = self.said(socket, action="unsubscribe", channel="queue:mail")
        server.enqueue({**JOB, "options": {"queue": "mail"}})

        assert "ojs.v1" == socket.subprotocol
        assert ("subscribed", "queue:mail") == (answer["type"], answer["channel"])
        assert ("event", "queue:mail", "job.enqueued") == (event["type"], event["channel"], event["event"])
        assert (job["id"], "unsubscribed") == (event["data"]["job_id"], left["type"])
        with pytest.raises(TimeoutError):
            socket.recv(0.5)

    def test_a_filter_chooses(self, server, socket):
        self.said(socket, action="subscribe", channel="all", filter={"event_types": ["job.completed"]})
        job = server.enqueue(JOB)
        server.fetch("default")
        server.ack(job)

        assert "job.completed" == json.loads(socket.recv(10))["event"]

    @pytest.mark.parametrize(
        "message",
        ["no JSON", "[]", '{"action": "dance", "channel": "all"}', '{"action": "subscribe"}',
         '{"action": "subscribe", "channel": "x"}', '{"action": "subscribe", "channel": "all", "filter": 1}'],
    )  # fmt: skip
    def test_nonsense_is_answered_and_ends_nothing(self, server, socket, message):
        socket.send(message)

        answer = json.loads(socket.recv(10))
        assert ("error", "invalid_request") == (answer["type"], answer["code"])
        assert "subscribed" == self.said(socket, action="subscribe", channel="all")["type"]

    def test_an_unknown_job_is_not_there(self, socket):
        answer = self.said(socket, action="subscribe", channel="job:019461a8-0000-7000-8000-000000000000")

        assert ("error", "not_found") == (answer["type"], answer["code"])

    @server_on_sqlite
    def test_no_more_than_a_hundred_a_second_and_the_rest_is_told_as_dropped(self, server, socket):
        self.said(socket, action="subscribe", channel="all", filter={"event_types": ["job.enqueued"]})
        for _ in range(3):
            server.post("/ojs/v1/jobs/batch", {"jobs": [JOB] * 1_000})
        began, got = time.monotonic(), []
        while (took := time.monotonic() - began) < 3 or len(got) < 100 * 3:
            got.append(json.loads(socket.recv(60)))
        dropped = [event for event in got if event["event"] == "system.events_dropped"]

        assert len(got) <= 100 * (took + 2)
        assert sum(event["data"]["count"] for event in dropped) >= 1_000

    def test_a_page_of_another_site_cannot_listen(self, server):
        with pytest.raises((InvalidStatus, ConnectionClosed)):
            connect(server.url.replace("http", "ws") + "/ojs/v1/ws", origin="http://evil.example").recv(5)


def test_those_who_follow_are_told_when_the_server_stops_and_do_not_hold_it_up(tmp_path):
    with served(tmp_path / "jobs.db") as server:
        heard = []
        with (
            Stream(server, "/ojs/v1/events/stream?channel=all") as stream,
            connect(server.url.replace("http", "ws") + "/ojs/v1/ws") as socket,
        ):
            reading = threading.Thread(target=lambda: heard.extend(stream))
            reading.start()
            began = time.monotonic()
            server.stop()
            reading.join(30)

            assert time.monotonic() - began < 20
            assert ["server.shutdown"] == [event["event"] for event in heard]
            assert "server.shutdown" == json.loads(socket.recv(30))["event"]


class TestPressure:
    def test_a_queue_that_fills_up_and_empties_is_told_of_once_each_time(self, server):
        bound = {"backpressure": {"max_depth": 2, "strategy": "reject", "warning_threshold": 0.9}}
        assert server.put("/ojs/v1/admin/queues/small/config", bound).status == 200
        job = {**JOB, "options": {"queue": "small"}}
        for wanted in (201, 201, 429, 429):
            assert wanted == server.post("/ojs/v1/jobs", job).status
        server.fetch("small", count=2)
        server.enqueue(job)
        wait_for(server, "backpressure.cleared")
        found = events(server, "types=backpressure.*")

        assert [f"backpressure.{name}" for name in ("warning", "rejected", "cleared")] == names(found)
        assert {"queue": "small", "depth": 2, "max_depth": 2}.items() <= found[1]["data"].items()

    def test_what_is_dropped_to_make_room_is_told(self, server):
        bound = {"backpressure": {"max_depth": 1, "strategy": "drop_oldest"}}
        assert server.put("/ojs/v1/admin/queues/small/config", bound).status == 200
        first, _ = (server.enqueue({**JOB, "options": {"queue": "small"}}) for _ in range(2))
        found = wait_for(server, "backpressure.dropped")

        assert [first["id"]] == [event["data"]["job_id"] for event in found]
