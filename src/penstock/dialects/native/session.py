"""Which protocol is spoken, and waiting for a change."""

from importlib.metadata import version

from penstock.client import verbs, wire
from penstock.dialects.native.endpoint import endpoint
from penstock.errors import InvalidError
from penstock.http.routes import Request
from penstock.job import Topic

_TOPICS = {topic.name.lower(): topic for topic in Topic}


async def hello(request: Request, _: wire.EmptyRequest) -> wire.Hello:  # noqa: ARG001 - as all verbs are
    """Say which protocol is spoken."""
    return wire.Hello(wire.PROTOCOL, version("penstock"))


async def wait(request: Request, body: wire.WaitRequest) -> int:
    """Answer when something has changed, or after a while."""
    topic = _TOPICS.get(body.topic)
    if topic is None:
        raise InvalidError("topic", f"{body.topic!r} must be one of: {', '.join(_TOPICS)}")
    return await request.service.wait(topic, body.revision, body.timeout)


ROUTES = (endpoint(verbs.HELLO, hello), endpoint(verbs.WAIT, wait))
