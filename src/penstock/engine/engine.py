"""The engine: each verb is one transaction that reads, decides and writes.

Blocking and safe to call from any thread.  Time comes from one clock, read inside the transaction.
"""

from penstock.engine.verbs.attempts import AttemptVerbs
from penstock.engine.verbs.floating import FloatingVerbs
from penstock.engine.verbs.gates import GateVerbs
from penstock.engine.verbs.jobs import JobVerbs
from penstock.engine.verbs.listening import ListeningVerbs
from penstock.engine.verbs.looking import LookingVerbs
from penstock.engine.verbs.queues import QueueVerbs
from penstock.engine.verbs.schedules import ScheduleVerbs
from penstock.engine.verbs.settings import SettingVerbs
from penstock.engine.verbs.slots import SlotVerbs
from penstock.engine.verbs.upkeep import UpkeepVerbs
from penstock.engine.verbs.webhooks import WebhookVerbs
from penstock.engine.verbs.workflows import WorkflowVerbs


class Engine(
    JobVerbs,
    AttemptVerbs,
    LookingVerbs,
    GateVerbs,
    FloatingVerbs,
    QueueVerbs,
    SlotVerbs,
    ScheduleVerbs,
    WorkflowVerbs,
    WebhookVerbs,
    SettingVerbs,
    ListeningVerbs,
    UpkeepVerbs,
):
    """Jobs, gates and queues in one store.

    The verbs are in `verbs/`, in a file for each theme:

    jobs       enqueue, cancel, retry, forget
    attempts   claim, claims, settle, settled_at, exchange, turn, begun, heartbeat, progress, attempts
    looking    job, failures, why, jobs, search, matching, count, tenant_depth, gauges
    gates      configure, configured, override, clear_override, shut, gate, gates
    floating   refreshes, refreshed, floating, set_floating, delete_floating
    queues     pause, resume, bound, bounds, depth, set_pool, delete_pool, pools, queues, busy_queues,
               tally, ended_since
    slots      lend, lent_to, await_loan, wanted_by_others, leave
    schedules  set_schedule, schedules, schedule, pause_schedule, resume_schedule, delete_schedule
    workflows  start_workflow, workflow, workflows, cancel_workflow
    webhooks   add_webhook, change_webhook, delete_webhook, webhook, webhooks
    settings   settings, set_setting
    listening  listen, listen_to_batches, token, wait
    upkeep     upkeep, prune, reset, doctor, advice

    `transactions.py` is what they stand on, and closes the store.
    """
