"""What the server says of itself."""

import re

import pytest

from tests.support.server import served


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("server") / "jobs.db") as one:
        yield one


@pytest.fixture(scope="module")
def api(server):
    return server.get("/openapi.json").body


def referred(node):
    """Yield every reference in a document."""
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from referred(value)
    elif isinstance(node, list):
        for value in node:
            yield from referred(value)


def operations(api):
    return [(path, method, op) for path, methods in api["paths"].items() for method, op in methods.items()]


def test_the_document_is_whole(server, api):
    answer = server.get("/openapi.json")

    assert (200, "application/json") == (answer.status, answer.headers["content-type"])
    assert "3.1.0" == api["openapi"]
    for reference in set(referred(api)):
        found = api
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]


def test_every_operation_has_a_name_of_its_own(api):
    names = [op["operationId"] for _, _, op in operations(api)]

    assert len(names) == len(set(names))


def test_every_parameter_of_a_path_is_described(api):
    for path, _, op in operations(api):
        described = {p["name"] for p in op["parameters"] if p.get("in") == "path"}

        assert set(re.findall(r"{(\w+)}", path)) == described, path


def test_every_operation_that_is_described_is_there(server, api):
    known = ("jobs", "workers/fetch", "cron", "workflows", "admin/stats")
    assert {f"/ojs/v1/{name}" for name in known} <= set(api["paths"])

    for path, methods in api["paths"].items():
        if not any(name in path for name in ("stream", "/events")):
            answer = server.call("TRACE", re.sub(r"{\w+}", "x", path))
            assert 405 == answer.status, path
            assert {name.upper() for name in methods} == set(answer.headers["allow"].split(", "))


def test_answers_and_errors_are_described(api):
    enqueue = api["paths"]["/ojs/v1/jobs"]["post"]

    assert {"200", "201", "400", "401", "403", "404", "405", "409", "413", "422", "429", "503"} == set(
        enqueue["responses"]
    )
    media = "application/openjobspec+json"
    assert enqueue["requestBody"]["content"][media]["schema"]["$ref"].endswith("/JobBody")
    assert "422" not in api["paths"]["/ojs/v1/jobs/{id}"]["get"]["responses"]
    body = api["components"]["schemas"]["JobBody"]
    assert ["type", "args"] == body["required"]
    assert body["properties"]["type"]["pattern"].startswith("^[a-z]")


def test_the_page_to_browse_it_needs_nothing_from_elsewhere(server):
    page = server.get("/docs")

    assert 200 == page.status
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    text = page.body.decode()
    assert not re.search(r"(?:src|href)=.https?:|@import|url\(", text)
    assert not re.search(
        r"<style|<script>|style=|unsafe-inline", text + page.headers["content-security-policy"]
    )
    for part, media in (("/docs.css", "text/css"), ("/docs.js", "text/javascript")):
        assert media == server.get(part).headers["content-type"]
    assert 'name="viewport"' in text


def test_a_server_with_tokens_says_so(tmp_path):
    with served(tmp_path / "jobs.db", "--token", "0123456789abcdef") as server:
        api = server.get("/openapi.json").body

    assert "bearer" == api["components"]["securitySchemes"]["token"]["scheme"]
    assert [{"token": []}] == api["paths"]["/ojs/v1/jobs"]["post"]["security"]
    assert "security" not in api["paths"]["/ojs/v1/health"]["get"]
