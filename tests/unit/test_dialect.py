"""The server speaks whatever dialects it is given, and needs none of those in the house."""

import asyncio

import pytest

from penstock.http.access import JOBS, Access, Role
from penstock.http.app import app_for
from penstock.http.dialect import Dialect
from penstock.http.errors import status_of
from penstock.http.routes import Reply, Route
from penstock.http.tokens import Keyring
from penstock.testing import engine_in_memory
from tests.support.asgi import ask

TOKEN = "0123456789abcdef"


async def hear(request):
    return Reply({"tenant": request.tenant})


def small(error, request_id):
    return Reply({"oops": str(error)}, status_of(error))


DIALECT = Dialect(
    "small",
    "small talk",
    paths=("/small/",),
    routes=(Route("POST", "/small/talk", hear, JOBS, "Talk"),),
    error=small,
    media="text/small",
    headers={"Small-Version": "7"},
    tenant_header="Small-Tenant",
)


@pytest.fixture
def said():
    """Return what the server answers: its status, its body and its headers."""
    engine = engine_in_memory()
    keyring = Keyring()
    keyring.add(TOKEN, Access("one", frozenset(Role)))

    def said(path, method="POST", **headers):
        seen = {}

        def note(message):
            seen.update((name.decode(), value.decode()) for name, value in message.get("headers", ()))

        async def play():
            app = app_for(engine, [DIALECT], keyring=keyring)
            try:
                return await ask(app, path, method=method, send=note, **headers)
            finally:
                app.service.close()

        return (*asyncio.run(play()), seen)

    yield said
    engine.close()


def test_answers_have_its_media_type_and_headers_and_know_its_tenant(said):
    status, body, headers = said("/small/talk", authorization=f"Bearer {TOKEN}", small_tenant="acme")

    assert (200, {"tenant": "acme"}) == (status, body)
    assert ("text/small", "7") == (headers["content-type"], headers["small-version"])


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/small/talk", "POST", 401), ("/small/x", "GET", 404), ("/small/talk", "GET", 405)],
)
def test_it_writes_every_error_at_its_paths(said, path, method, status):
    found, body, headers = said(path, method)

    assert (status, ["oops"], "7") == (found, list(body), headers["small-version"])


def test_other_paths_answer_errors_in_plain_json(said):
    status, body, headers = said("/elsewhere", "GET")

    assert (404, "not_found", "application/json") == (status, body["error"]["code"], headers["content-type"])
    assert "small-version" not in headers


def test_its_routes_are_on_the_openapi_page(said):
    status, api, _ = said("/openapi.json", "GET")

    assert 200 == status
    assert "small talk" in api["info"]["description"]
    assert {"/small/talk", "/openapi.json", "/docs"} == set(api["paths"])
