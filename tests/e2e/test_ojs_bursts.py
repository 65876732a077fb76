"""Throttles that let a burst through, over HTTP, on every store."""

import pytest

from tests.e2e.test_ojs_limits import SECOND, _fetched_by_many, a_job, fill, when

BUCKET = {"limit": 2, "period": "PT1S", "burst": 5}


def test_a_full_bucket_starts_at_once_and_the_rest_at_the_pace(server):
    fill(server, 10, a_job(key="api", throttle=BUCKET))

    jobs = _fetched_by_many(server, 8)

    starts = sorted(when(job["started_at"]) for job in jobs)
    assert starts[4] - starts[0] < 0.5 * SECOND
    # What comes after those five waits until the bucket has filled by as many.
    assert [] == [n for n, at in enumerate(starts[5:], 1) if at - starts[0] < n * 0.5 * SECOND]


def test_a_burst_is_shown_with_the_job_and_with_its_key(server):
    job = server.enqueue(a_job(key="api", throttle=BUCKET))

    assert BUCKET == server.job(job)["rate_limit"]["throttle"]
    assert BUCKET["burst"] == server.get("/ojs/v1/rate-limits/api")["throttle"]["burst"]


@pytest.mark.parametrize(
    "limit",
    [
        {"rate": BUCKET},
        {"throttle": {**BUCKET, "burst": 0}},
        {"throttle": {**BUCKET, "burst": "5"}},
    ],
    ids=["in a rate", "of none", "as text"],
)
def test_a_burst_that_means_nothing_is_refused(server, limit):
    answer = server.post("/ojs/v1/jobs", a_job(key="api", **limit))

    assert (400, True) == (answer.status, "burst" in answer["error"]["message"])
