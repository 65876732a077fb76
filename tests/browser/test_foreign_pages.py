"""In a real browser: a page of another site can neither use nor read a server on this machine."""

import json
import re
from urllib.parse import urlencode

import pytest

from tests.support.browser import PATIENCE, Rebound, Stranger, browsing, chromium
from tests.support.server import served

REQUEST = re.compile(r"(GET|POST|PUT|DELETE|OPTIONS|HEAD) (/\S*) (\d+) [\d.]+ ms")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    chromium()
    folder = tmp_path_factory.mktemp("server")
    with served(folder / "jobs.db", "--test-mode", "--log-level", "info") as one:
        yield one


@pytest.fixture
def stranger():
    site = Stranger()
    yield site
    site.shutdown()
    site.server_close()


@pytest.fixture
def rebound(server):
    address = Rebound(int(server.url.rpartition(":")[2]))
    yield address
    address.close()


@pytest.fixture
def look(server, stranger, rebound, tmp_path):
    """Show the page by a name, aimed at another; return what it read, and how its requests were answered."""
    assert 200 == server.post("/ojs/v1/admin/reset").status
    server.enqueue({"type": "ours.kept", "args": []})

    def show(page, target):
        places = {"STRANGER": str(stranger.port), "SERVER": str(rebound.port)}
        page, target = (re.sub("[A-Z]{6,}", lambda found: places[found[0]], url) for url in (page, target))
        options = {"target": target, "report": f"http://127.0.0.1:{stranger.port}/report"}
        before = marked(server, "before")
        with browsing(tmp_path / "browser", f"{page}/page?{urlencode(options)}"):
            assert stranger.reported.wait(PATIENCE), (tmp_path / "browser" / "log").read_text()
        seen = {name: text for name, text in json.loads(stranger.report).items() if text}
        lines = server.log[before : marked(server, "after")]
        return seen, [REQUEST.search(line).groups() for line in lines if REQUEST.search(line)][:-1]

    return show


def marked(server, name):
    """Return how long the log is once a request of our own is in it."""
    mark = f"{name}-{len(server.log)}"
    server.get("/health", X_Request_ID=mark)
    server.until(lambda: any(mark in line for line in server.log))
    return len(server.log)


def state(server):
    """Return what a page could have changed."""
    jobs = [job["type"] for job in server.get("/ojs/v1/admin/jobs")["items"]]
    hooks = server.get("/ojs/v1/webhooks/subscriptions").body
    paused = [queue["name"] for queue in server.get("/ojs/v1/queues")["queues"] if queue.get("paused")]
    return sorted(jobs), len(hooks.get("subscriptions", hooks.get("items", []))), paused


@pytest.mark.parametrize(
    ("page", "target"),
    [
        ("http://hostile.example:STRANGER", "http://127.0.0.1:SERVER"),
        ("http://127.0.0.1:STRANGER", "http://127.0.0.1:SERVER"),
        ("http://evil.example:SERVER", "http://evil.example:SERVER"),
    ],
    ids=["another site", "another port of this machine", "a name that was made to mean this machine"],
)
def test_a_page_of_another_site_changes_nothing_and_reads_nothing(server, look, page, target):
    seen, requests = look(page, target)

    assert {} == seen
    assert (["ours.kept"], 0, []) == state(server)
    # They came here, and it was the server that refused them.
    assert {"403"} == {status for *_, status in requests}, requests
    assert len(requests) > 12


def test_the_same_page_of_the_servers_own_may_do_everything_in_json(server, look):
    seen, requests = look("http://localhost:SERVER", "http://localhost:SERVER")

    assert {
        "reset as JSON",
        "JSON",
        "pause as JSON",
        "webhook as JSON",
        "read",
        "events",
        "socket",
    } <= seen.keys()
    assert (["evil.json"], 1, ["default"]) == state(server)
    assert "ok" in seen["frame"]
    refused = {path for method, path, status in requests if status == "400" and method == "POST"}
    assert {"/ojs/v1/jobs", "/ojs/v1/queues/default/pause", "/penstock/v1/enqueue"} <= refused


def test_the_page_that_shows_what_the_server_offers_works_in_a_browser(server, tmp_path):
    with browsing(tmp_path / "browser", f"{server.url.replace('127.0.0.1', 'localhost')}/docs"):
        asked = server.until(lambda: [line for line in server.log if "GET /openapi.json 200" in line])

    assert asked
