"""Instances as answers show them."""

from typing import Any, Final

from msgspec import Struct

from penstock.dialects.orch8.format.new_instance import OWN, PRIORITIES
from penstock.dialects.orch8.format.values import maybe_written, written
from penstock.http.codec import decode
from penstock.job import EntryState, EntryView, InstanceState, InstanceView
from penstock.sequences import block_id
from penstock.sequences.context import SECTIONS, Context
from penstock.sequences.gate_keys import concurrency_name

LIMIT_REACHED: Final = "concurrency_limit_reached"
# What the state is called, and what the reference calls it, which knows no deferred instances.
STATUS: Final = {
    InstanceState.SCHEDULED: "scheduled",
    InstanceState.DEFERRED: "deferred",
    InstanceState.RUNNING: "running",
    InstanceState.PAUSED: "paused",
    InstanceState.DONE: "completed",
    InstanceState.FAILED: "failed",
    InstanceState.CANCELLED: "cancelled",
    InstanceState.DISCARDED: "cancelled",
    InstanceState.EXPIRED: "cancelled",
}
_NAMES: Final = {number: name.capitalize() for name, number in PRIORITIES.items()}


class InstanceShape(Struct):
    """An instance.  *status* may be `deferred`, which *state* calls `scheduled`."""

    id: str
    status: str
    state: str
    sequence_name: str
    tenant_id: str
    created_at: str
    updated_at: str
    priority: int
    context: dict[str, Any]
    metadata: dict[str, Any]


def shown(view: InstanceView, *, deduplicated: bool = False) -> dict[str, Any]:
    """Return an instance, without its steps."""
    status = STATUS[view.state]
    own = decode(view.meta).get(OWN, {}) if view.parent is None else {}
    context = Context(decode(view.args))
    due = view.due if view.state is InstanceState.SCHEDULED else None
    answer: dict[str, Any] = {
        "id": view.id,
        "status": status,
        "state": "scheduled" if view.state is InstanceState.DEFERRED else status,
        "sequence_id": view.sequence_id,
        "sequence_name": view.workflow,
        "version": view.version,
        "tenant_id": view.tenant,
        "namespace": view.namespace,
        "priority": view.priority,
        "priority_name": _NAMES.get(max(-1, min(2, view.priority))),
        "timezone": context.zone,
        "metadata": own.get("metadata", {}),
        "context": {name: context.section(name) for name in SECTIONS},
        "created_at": written(view.created),
        "updated_at": written(view.ended or view.started or view.created),
        "started_at": maybe_written(view.started),
        "completed_at": maybe_written(view.ended),
        "next_fire_at": maybe_written(due),
        "parent_instance_id": view.parent,
        "idempotency_key": own.get("idempotency_key"),
        **_limit(view),
    }
    if view.state is InstanceState.DEFERRED:
        answer["deferred_reason"] = LIMIT_REACHED if view.limits else "waiting_for_a_slot"
    if view.result is not None:
        answer["output"] = decode(view.result)
    if view.error is not None:
        answer["error"] = view.error
    if view.reason:
        answer["reason"] = view.reason
    if deduplicated:
        answer["deduplicated"] = True
    return answer


def outputs(view: InstanceView) -> list[dict[str, Any]]:
    """Return what the steps of an instance came to, in the order in which they began."""
    return [
        {
            "id": f"{view.id}:{step.key}",
            "instance_id": view.id,
            "block_id": block_id(step.key),
            "key": step.key,
            "output": decode(step.result),
            "output_ref": None,
            "output_size": len(step.result),
            "created_at": maybe_written(step.ended),
        }
        for step in view.steps
        if step.state is EntryState.DONE and step.result is not None and "@" not in step.key
    ]


def timeline(view: InstanceView) -> list[dict[str, Any]]:
    """Return all that an instance remembers of its steps, in the order in which they began."""
    return [_moment(step) for step in view.steps if not step.key.startswith("@")]


def _moment(step: EntryView) -> dict[str, Any]:
    return {
        "key": step.key,
        "block_id": block_id(step.key),
        "kind": step.kind,
        "state": step.state.value,
        "task_id": step.job_id if step.kind == "job" else None,
        "child_instance_id": step.job_id if step.kind == "child" else None,
        "began_at": maybe_written(step.began),
        "ended_at": maybe_written(step.ended),
        "error": step.error,
    }


def _limit(view: InstanceView) -> dict[str, Any]:
    for limit in view.limits:
        name = concurrency_name(limit.key)
        if name is not None:
            return {"concurrency_key": name, "max_concurrency": limit.numbers.slots}
    return {"concurrency_key": None, "max_concurrency": None}
