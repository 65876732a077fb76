"""A handler knows which resource its attempt took."""

from penstock import App, current_job
from penstock.job import NewJob
from penstock.limits.groups import Resource
from penstock.limits.rules import UNLIMITED, Limit
from penstock.testing import in_memory, run_until_idle


def test_a_handler_is_told_its_resource_if_its_job_names_a_group() -> None:
    app = App(":memory:")

    @app.task(name="send")
    def send() -> str | None:
        return current_job().resource

    with in_memory(app):
        app.engine.put_resource_group("mailboxes")
        app.engine.put_resource("mailboxes", Resource("a@x"))
        app.engine.enqueue([NewJob("send", id="with", limits=(Limit("mailboxes", UNLIMITED, group=True),))])
        app.engine.enqueue([NewJob("send", id="without")])

        run_until_idle(app)

        assert [app.engine.job(name).result for name in ("with", "without")] == ['"a@x"', "null"]
