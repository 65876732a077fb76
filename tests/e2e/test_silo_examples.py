"""The jobs that docs/silo.md prints in TypeScript are sent over gRPC, and limited as the page says."""

import json
import re
from pathlib import Path

from penstock.dialects.silo import silo_pb2 as pb
from tests.support.silo import pack, unpack

PAGE = Path(__file__).parents[2] / "docs" / "silo.md"
BLOCK = re.compile(r"^```ts\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ENQUEUE = re.compile(r"await client\.enqueue\((\{.*?\n\})\);", re.DOTALL)
KINDS = {
    "concurrency": "concurrency",
    "floatingConcurrency": "floating_concurrency",
    "rateLimit": "rate_limit",
}


def literal(text):
    """Read an object of TypeScript: names without quotes, comments, numbers that end in n."""
    text = re.sub(r"(?<!:)//[^\n]*", "", text)
    text = re.sub(r"([{,]\s*)(\w+):", r'\1"\2":', text)
    return json.loads(re.sub(r"(\d)n\b", r"\1", text))


def request(sent):
    """Return the message that the client makes of a call."""
    limits = []
    for limit in sent["limits"]:
        fields = {
            re.sub("[A-Z]", lambda c: "_" + c[0].lower(), name): limit[name]
            for name in limit
            if name != "type"
        }
        if limit["type"] == "rateLimit":
            fields |= {"hits": 1}
        limits.append(pb.Limit(**{KINDS[limit["type"]]: fields}))
    return pb.EnqueueRequest(payload=pack(sent["payload"]), priority=50, limits=limits)


def printed():
    return [literal(found) for block in BLOCK.findall(PAGE.read_text()) for found in ENQUEUE.findall(block)]


def test_every_job_of_the_page_is_taken_and_shown_as_it_was_printed(silo):
    calls = printed()
    assert 7 == len(calls)

    for sent in calls:
        wanted = request(sent)
        shown = silo.GetJob(id=silo.send("Enqueue", wanted).id)

        assert (sent["payload"], list(wanted.limits)) == (unpack(shown.payload), list(shown.limits))
        assert "default" == shown.task_group


def test_the_keys_of_the_page_have_the_numbers_that_it_prints(silo):
    for sent in printed():
        for _ in range(12):
            silo.send("Enqueue", request(sent))
    found = silo.lease(most=200)

    running = {}
    for task in found.tasks:
        for limit in task.limits:
            kind = limit.WhichOneof("limit")
            key = limit.rate_limit.name if kind == "rate_limit" else getattr(limit, kind).key
            running[key] = running.get(key, 0) + 1

    assert {
        "user:123": 5, "external-api": 10, "queue-1": 10, "dynamic-queue": 5, "tenant:abc": 0, "tenant-hourly": 0,
    } == {"tenant:abc": 0, "tenant-hourly": 0} | running  # fmt: skip
    asked = {refresh.queue_key: dict(refresh.metadata) for refresh in found.refresh_tasks}
    assert {"apiEndpoint": "https://api.example.com", "apiKey": "key-123"} == asked["external-api"]
