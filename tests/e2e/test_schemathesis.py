"""Whatever is sent, made up from the server's own OpenAPI page: no answer is the server's mistake."""

import random
from contextlib import suppress

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from tests.support.server import served
from tests.support.soak import often

EXAMPLES = often(1, 4)  # of each kind
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
# Their answers never end, or end everything.
LEFT_OUT = ("stream", "events", "/ws")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("server") / "jobs.db") as one:
        yield one


def operations(server):
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    found = [each.ok() for each in schema.get_all_operations()]
    return [one for one in found if not any(name in one.path for name in LEFT_OUT)]


def test_no_request_makes_the_server_stumble(server):
    chosen = [(operation, mode) for operation in operations(server) for mode in MODES]
    assert len(chosen) > 150
    random.Random(4).shuffle(chosen)
    del chosen[often(120, len(chosen)) :]
    tried = 0
    for n, (operation, mode) in enumerate(chosen):
        tried += attempt(operation, mode, n)

    assert tried > 100
    assert "ok" == server.get("/ojs/v1/health")["status"]
    assert not [line for line in server.log if "Traceback" in line or "failed (" in line]


def attempt(operation, mode, n):
    """Send a few requests of one kind; return how many."""
    sent = []

    @seed(n)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def one(case):
        # No test waits for a job here.
        if isinstance(case.body, dict):
            case.body.pop("wait_ms", None)
        response = case.call(timeout=10)
        checks = [not_a_server_error]
        if mode is GenerationMode.POSITIVE:
            checks += [content_type_conformance, response_schema_conformance]
        case.validate_response(response, checks=checks)
        sent.append(response.status_code)

    with suppress(Unsatisfiable):  # nothing of this kind can be wrong
        one()
    return len(sent)
