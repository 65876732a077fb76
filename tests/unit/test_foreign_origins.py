"""By its headers, a page of another site is told from the user's own programs."""

import pytest

from penstock.errors import InvalidError
from penstock.http.cross_site import Visitors, host_name

HERE = "127.0.0.1"


def refused(headers, arrived=HERE, *more):
    refusal = Visitors(more).refusal(
        {name.replace("_", "-"): value for name, value in headers.items()}, arrived
    )
    return None if refusal is None else refusal.code


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "localhost:8080", "LocalHost:1", "localhost.:80",
        "127.0.0.1", "127.9.8.7:65535", "[::1]", "[::1]:80",
    ],
)  # fmt: skip
def test_this_machine_is_known_by_its_names_at_any_port(host):
    assert None is refused({"host": host})


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example",
        "127.0.0.1:80@evil.example", "128.0.0.1", "10.0.0.1:8080", "[::2]:80",
        "", "[::1", "localhost:80:80", "localhost:x", "a b", "x" * 100_000,
    ],
)  # fmt: skip
def test_any_other_name_is_refused_and_the_answer_says_what_to_do(host):
    refusal = Visitors().refusal({"host": host}, HERE)

    assert "host_not_allowed" == refusal.code
    assert "--allow-host" in refusal.text
    assert len(refusal.text) < 500


def test_a_request_without_a_name_is_refused():
    assert "host_not_allowed" == refused({})


def test_names_can_be_added_and_the_address_it_arrives_at_is_one():
    assert None is refused({"host": "jobs.example:8080"}, HERE, "jobs.example")
    assert None is refused({"host": "10.0.0.1:8080"}, "10.0.0.1")
    assert None is refused({"host": "[fe80::1]:8080"}, "fe80:0:0::1")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://localhost:8080"}, {"origin": "https://localhost:8080"}, {"origin": "HTTP://LOCALHOST:8080"},
        {"origin": "http://localhost:8080", "sec-fetch-site": "same-site"},
        {"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"},
    ],
)  # fmt: skip
def test_pages_of_its_own_are_answered(headers):
    assert None is refused({"host": "localhost:8080", **headers})


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://localhost"}, {"origin": "http://localhost:8081"}, {"origin": "http://127.0.0.1:8080"},
        {"origin": "https://evil.example"}, {"origin": "http://localhost:8080.evil.example"},
        {"origin": "null"}, {"origin": ""},
        {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}, {"sec-fetch-site": "something"},
        {"origin": "http://localhost:8080", "sec-fetch-site": "cross-site"},
    ],
)  # fmt: skip
def test_pages_of_other_sites_are_refused(headers):
    assert "origin_not_allowed" == refused({"host": "localhost:8080", **headers})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Jobs.Example", "jobs.example"),
        ("jobs.example.", "jobs.example"),
        ("[::1]", "::1"),
        ("fe80::1", "fe80::1"),
    ],
)
def test_a_name_that_is_allowed_is_compared_without_case(text, name):
    assert name == host_name(text)


@pytest.mark.parametrize("text", ["", "http://jobs.example", "jobs.example:80", "a/b", "*", "a b"])
def test_what_is_no_name_cannot_be_allowed(text):
    with pytest.raises(InvalidError, match="--allow-host"):
        host_name(text)
