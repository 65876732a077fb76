"""What is offered of Silo's service: each method with its messages, and the roles that may call it."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import grpc

from penstock.dialects.silo import jobs, workers
from penstock.dialects.silo import silo_pb2 as pb
from penstock.dialects.silo.call import Call
from penstock.dialects.silo.errors import CallError
from penstock.dialects.silo.query_call import query
from penstock.dialects.silo.stored import SHARD
from penstock.http.access import JOBS, OPERATORS, PRODUCERS, WORKERS, Role
from penstock.http.tenancy import check_unbound

SERVICE: Final = "/silo.v1.Silo/"


async def cluster_info(call: Call, _: pb.GetClusterInfoRequest) -> pb.GetClusterInfoResponse:
    """Tell of the one shard that there is: whichever server is asked owns it."""
    node, address = call.node.id, call.node.address
    return pb.GetClusterInfoResponse(
        num_shards=1,
        shard_owners=[pb.ShardOwner(shard_id=SHARD, grpc_addr=address, node_id=node)],
        this_node_id=node,
        this_grpc_addr=address,
        members=[pb.ClusterMember(node_id=node, grpc_addr=address)],
    )


async def reset_shards(call: Call, _: pb.ResetShardsRequest) -> pb.ResetShardsResponse:
    """Empty everything, in test mode only."""
    check_unbound(call)
    if not call.service.test_mode:
        raise CallError(
            grpc.StatusCode.PERMISSION_DENIED, "ResetShards needs a server started with --test-mode"
        )
    await call.service.run(lambda engine: engine.reset())
    call.service.forget_all()
    return pb.ResetShardsResponse(shards_reset=1)


class Method(NamedTuple):
    """A call that is offered.  Its token has one of these *roles*."""

    request: Any  # the class of its message
    answer: Callable[[Call, Any], Awaitable[Any]]
    roles: frozenset[Role]


METHODS: Final = {
    "GetClusterInfo": Method(pb.GetClusterInfoRequest, cluster_info, JOBS),
    "Enqueue": Method(pb.EnqueueRequest, jobs.enqueue, PRODUCERS),
    "ImportJobs": Method(pb.ImportJobsRequest, jobs.import_jobs, PRODUCERS),
    "GetJob": Method(pb.GetJobRequest, jobs.get_job, JOBS),
    "GetJobResult": Method(pb.GetJobResultRequest, jobs.get_result, JOBS),
    "DeleteJob": Method(pb.DeleteJobRequest, jobs.delete, PRODUCERS),
    "CancelJob": Method(pb.CancelJobRequest, jobs.cancel, JOBS),
    "RestartJob": Method(pb.RestartJobRequest, jobs.restart, PRODUCERS),
    "ExpediteJob": Method(pb.ExpediteJobRequest, jobs.expedite, PRODUCERS),
    "LeaseTask": Method(pb.LeaseTaskRequest, workers.lease_task, WORKERS),
    "LeaseTasks": Method(pb.LeaseTasksRequest, workers.lease_tasks, WORKERS),
    "ReportOutcome": Method(pb.ReportOutcomeRequest, workers.report, WORKERS),
    "ReportRefreshOutcome": Method(pb.ReportRefreshOutcomeRequest, workers.report_refresh, WORKERS),
    "Heartbeat": Method(pb.HeartbeatRequest, workers.heartbeat, WORKERS),
    "Query": Method(pb.QueryRequest, query, JOBS),
    "ResetShards": Method(pb.ResetShardsRequest, reset_shards, OPERATORS),
}
# For those who run Silo itself; its clients call none of these.
NOT_OFFERED: Final = frozenset(
    (
        "GetNodeInfo", "DropTenantHolders", "QueryArrow", "CpuProfile", "HeapProfile", "RequestSplit",
        "GetSplitStatus", "ConfigureShard", "ForceReleaseShard", "CompactShard", "FlushShard", "GetShardStorageInfo",
        "DumpTasks",
    )
)  # fmt: skip
