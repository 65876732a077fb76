"""Approvals: steps that wait for an answer of a person, which comes as a signal `human_input:BLOCK`."""

from typing import Any, Final

from msgspec import Struct

from penstock import sequences
from penstock.clock import SECOND
from penstock.dialects.orch8.format.new_instance import OWN
from penstock.dialects.orch8.format.values import PAGE, maybe_written, page_of, tenant_of, written
from penstock.engine import Engine
from penstock.errors import NotFoundError
from penstock.http.access import JOBS
from penstock.http.codec import decode
from penstock.http.routes import Reply, Request, Route
from penstock.job import SequenceView, WaitView
from penstock.sequences import Sequence, Step, Wait, block_id
from penstock.sequences.steps import HUMAN_INPUT

Known = tuple[SequenceView, Sequence]


class ApprovalShape(Struct):
    instance_id: str
    tenant_id: str
    sequence_name: str
    block_id: str
    prompt: str
    choices: list[dict[str, Any]]
    waiting_since: str


class ApprovalsShape(Struct):
    items: list[ApprovalShape]
    total: int


async def listing(request: Request) -> Reply:
    """Return what people are asked, the oldest first."""
    tenant, (offset, limit) = tenant_of(request), page_of(request)
    namespace = request.query.get("namespace")

    def work(engine: Engine) -> dict[str, Any]:
        waits, total = engine.waits(HUMAN_INPUT, tenant, offset, limit, namespace=namespace)
        known = {number: _known(engine, number) for number in {wait.sequence for wait in waits}}
        return {"items": [_shown(wait, known[wait.sequence]) for wait in waits], "total": total}

    return Reply(await request.service.run(work))


def _known(engine: Engine, number: int | None) -> Known | None:
    """Return a sequence, stored and read; reading one takes long, so do it once for all waits of a page."""
    if number is None:
        return None
    try:
        found = engine.sequence_of(number)
    except NotFoundError:
        return None
    return found, sequences.parse(decode(found.definition))


def _shown(wait: WaitView, known: Known | None) -> dict[str, Any]:
    sequence, read = known or (None, None)
    asked = _asked(wait, read)
    return {
        "instance_id": wait.instance,
        "tenant_id": wait.tenant,
        "namespace": None if sequence is None else sequence.namespace,
        "sequence_id": None if sequence is None else sequence.id,
        "sequence_name": wait.workflow,
        "block_id": block_id(wait.key),
        "signal": wait.name,
        "prompt": asked.prompt,
        "choices": [{"label": choice.label, "value": choice.value} for choice in asked.choices],
        "store_as": asked.store_as,
        "timeout_seconds": None if asked.timeout is None else asked.timeout / SECOND,
        "escalation_handler": asked.escalation_handler,
        "allow_comment": asked.allow_comment,
        "waiting_since": written(wait.since),
        "deadline": maybe_written(wait.until),
        "metadata": decode(wait.meta).get(OWN, {}).get("metadata", {}),
    }


def _asked(wait: WaitView, read: Sequence | None) -> Wait:
    """Return what the sequence asks at a step."""
    block = None if read is None else read.blocks.get(block_id(wait.key))
    return block.wait if isinstance(block, Step) and block.wait is not None else Wait()


ROUTES: Final = (
    Route(
        "GET",
        "/approvals",
        listing,
        JOBS,
        "What people are asked",
        ApprovalsShape,
        query=(*PAGE, "namespace"),
    ),
)
