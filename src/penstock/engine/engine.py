"""The engine: each verb is one transaction that reads, decides and writes.

Blocking and safe to call from any thread.  Time comes from one clock, read inside the transaction.
"""

from collections.abc import Callable, Sequence

from penstock.engine.audit import AuditVerbs
from penstock.engine.claim import ClaimVerbs
from penstock.engine.claim_one import ClaimOneVerbs
from penstock.engine.doctor import DoctorVerbs
from penstock.engine.enqueue import EnqueueVerbs
from penstock.engine.floating import FloatingVerbs
from penstock.engine.gate_pauses import GatePauseVerbs
from penstock.engine.history import HistoryVerbs
from penstock.engine.importing import ImportVerbs
from penstock.engine.instance_steps import InstanceStepVerbs
from penstock.engine.job_batches import JobBatchVerbs
from penstock.engine.jobs import JobVerbs
from penstock.engine.leases import LeaseVerbs
from penstock.engine.lending import LendingVerbs
from penstock.engine.look_gates import GateLookVerbs
from penstock.engine.look_jobs import JobLookVerbs
from penstock.engine.look_lists import ListLookVerbs
from penstock.engine.looks import LookVerbs
from penstock.engine.queues import QueueVerbs
from penstock.engine.rate_resources import RateResourceVerbs
from penstock.engine.resources import ResourceVerbs
from penstock.engine.schedules import ScheduleVerbs
from penstock.engine.sequences import SequenceVerbs
from penstock.engine.settings import SettingVerbs
from penstock.engine.settle import SettleVerbs
from penstock.engine.surveys import SurveyVerbs
from penstock.engine.tenants import TenantVerbs
from penstock.engine.timeline import TimelineVerbs
from penstock.engine.touched import TouchedVerbs
from penstock.engine.upkeep import UpkeepVerbs
from penstock.engine.webhooks import WebhookVerbs
from penstock.engine.workers import WorkerVerbs
from penstock.engine.workflows import WorkflowVerbs
from penstock.job import Event, Listener, Topic


class Engine(
    EnqueueVerbs,
    ClaimVerbs,
    ClaimOneVerbs,
    LeaseVerbs,
    SettleVerbs,
    JobVerbs,
    JobBatchVerbs,
    HistoryVerbs,
    ImportVerbs,
    RateResourceVerbs,
    FloatingVerbs,
    GatePauseVerbs,
    QueueVerbs,
    ResourceVerbs,
    TenantVerbs,
    LendingVerbs,
    ScheduleVerbs,
    WorkflowVerbs,
    SequenceVerbs,
    InstanceStepVerbs,
    WebhookVerbs,
    SettingVerbs,
    SurveyVerbs,
    LookVerbs,
    GateLookVerbs,
    JobLookVerbs,
    ListLookVerbs,
    TimelineVerbs,
    TouchedVerbs,
    UpkeepVerbs,
    AuditVerbs,
    WorkerVerbs,
    DoctorVerbs,
):
    """Jobs, gates and queues in one store."""

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call *listener* with every event this engine commits; call the answer to stop."""
        return self._publisher.listen(listener)

    def listen_to_batches(self, listener: Callable[[Sequence[Event]], None]) -> Callable[[], None]:
        """Call *listener* with batches of events; call the answer to stop."""
        return self._publisher.listen_to_batches(listener)

    def revision(self, topic: Topic = Topic.WORK) -> int:
        """Return a number that changes whenever any process changed something about *topic*."""
        return self.store.revision(topic)

    def wait(self, revision: int, timeout: float, topic: Topic = Topic.WORK) -> int:
        """Wait until something about *topic* changed after *revision*, or for *timeout* seconds; return the new one."""
        return self.store.wait(topic, revision, timeout)
