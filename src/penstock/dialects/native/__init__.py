"""Penstock's own verbs over HTTP, for its own workers and clients: `POST /penstock/v1/{verb}`."""

from typing import Final

from penstock.client.wire import PATH, ErrorReport
from penstock.dialects.native import admin, attempts, instances, jobs, session
from penstock.dialects.native.endpoint import error_reply
from penstock.http.dialect import Dialect, MetricNames
from penstock.http.tenancy import unquoted_tenant

DIALECT: Final = Dialect(
    name="penstock",
    title="penstock's own verbs",
    paths=(PATH,),
    routes=(*attempts.ROUTES, *jobs.ROUTES, *instances.ROUTES, *admin.ROUTES, *session.ROUTES),
    error=error_reply,
    error_shape=ErrorReport,
    metrics=MetricNames(f"{PATH}metrics", "penstock", workflow="workflow"),
    read_tenant=unquoted_tenant,
    tag="penstock",
)
