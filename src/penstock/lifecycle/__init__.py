"""What may happen to a job next?  States, outcomes, retries and uniqueness."""

from penstock.lifecycle.checks import (
    check_cost,
    check_job_id,
    check_priority,
    check_queue,
    check_task_name,
)
from penstock.lifecycle.outcomes import Again, Cancelled, Done, Failed, HandedBack, Limited, Outcome
from penstock.lifecycle.retry import (
    Backoff,
    Exhausted,
    RetryPolicy,
    delay_before,
    error_names,
    policy_from_json,
    policy_to_json,
    verdict,
)
from penstock.lifecycle.states import ENDED, LIVE, TRANSITIONS, State, may
from penstock.lifecycle.unique import OnDuplicate, Unique, UniqueBy, check_chosen, holds, unique_key

__all__ = [
    "ENDED",
    "LIVE",
    "TRANSITIONS",
    "Again",
    "Backoff",
    "Cancelled",
    "Done",
    "Exhausted",
    "Failed",
    "HandedBack",
    "Limited",
    "OnDuplicate",
    "Outcome",
    "RetryPolicy",
    "State",
    "Unique",
    "UniqueBy",
    "check_chosen",
    "check_cost",
    "check_job_id",
    "check_priority",
    "check_queue",
    "check_task_name",
    "delay_before",
    "error_names",
    "holds",
    "may",
    "policy_from_json",
    "policy_to_json",
    "unique_key",
    "verdict",
]
