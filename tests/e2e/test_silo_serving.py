"""How the gRPC server is started, who is let in, and how it keeps and ends connections."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest

from penstock.dialects.silo import silo_pb2 as pb
from tests.support import tls
from tests.support.command import penstock
from tests.support.postgres import drop_schema, fresh_schema, shared_url
from tests.support.server import served
from tests.support.silo import SiloClient, floating, payloads, rate, refused, retries, unpack
from tests.support.timing import until

ANY, WORKER, PRODUCER, ACME = (
    "a-token-of-all-roles",
    "a-token-of-workers",
    "a-token-producers",
    "a-token-of-acme-only",
)
TOP = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded")
    file = folder / "tokens"
    file.touch(0o600)
    file.write_text(f"{ANY}\n{WORKER} roles=worker\n{PRODUCER} roles=producer\n{ACME} tenant=acme\n")
    with served(folder / "jobs.db", "--token-file", str(file), "--silo", "0") as server:
        yield server


def test_a_token_is_needed_and_says_what_is_allowed(guarded):
    with SiloClient(guarded.silo) as anyone, SiloClient(guarded.silo, "no such token is known") as stranger:
        refused("UNAUTHENTICATED", anyone.GetClusterInfo, "missing authorization header")
        refused("UNAUTHENTICATED", lambda: stranger.enqueue(1), "invalid auth token")

    with SiloClient(guarded.silo, PRODUCER) as producer, SiloClient(guarded.silo, WORKER) as worker:
        producer.enqueue("x")
        refused("PERMISSION_DENIED", producer.lease)
        refused("PERMISSION_DENIED", lambda: worker.enqueue("x"))
        refused("PERMISSION_DENIED", worker.ResetShards)
        assert ["x"] == payloads(worker.lease().tasks)
    with SiloClient(guarded.silo, ANY) as operator:
        refused("PERMISSION_DENIED", operator.ResetShards, "--test-mode")


def test_a_token_of_one_tenant_sees_its_own_jobs_and_may_not_lease(guarded):
    with SiloClient(guarded.silo, ACME) as acme, SiloClient(guarded.silo, ANY) as anyone:
        own, other = acme.enqueue("own"), anyone.enqueue("other", tenant="bolt")

        assert "own" == unpack(anyone.GetJob(id=own, tenant="acme").payload)
        assert "SCHEDULED" == acme.status(own)
        refused("NOT_FOUND", lambda: acme.GetJob(id=other), "job not found")
        refused("PERMISSION_DENIED", lambda: acme.GetJob(id=other, tenant="bolt"))
        assert [{"id": own}] == [unpack(row) for row in acme.Query(sql="SELECT id FROM jobs").rows]
        refused("PERMISSION_DENIED", lambda: acme.Query(sql="SELECT id FROM jobs", tenant="bolt"))
        refused("PERMISSION_DENIED", lambda: acme.enqueue("x", rate("n", "u", 1, 1)), "shared by all tenants")
        (task, *_) = [t for t in anyone.lease().tasks if t.job_id == own]
        for call in (
            acme.lease,
            lambda: acme.LeaseTask(id=own, worker_id="w"),
            lambda: acme.done(task),
            lambda: acme.Heartbeat(task_id=task.id, worker_id="w"),
            lambda: acme.ReportRefreshOutcome(task_id="refresh-1-1", success=pb.RefreshSuccess()),
        ):
            refused("PERMISSION_DENIED", call)
        anyone.done(task)


def test_an_idle_client_that_pings_keeps_its_connection(guarded):
    states = []
    pings = [
        ("grpc.keepalive_time_ms", 100),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]
    with SiloClient(guarded.silo, ANY, pings) as client:
        client.channel.subscribe(states.append)
        client.GetClusterInfo()
        until(lambda: grpc.ChannelConnectivity.READY in states)
        time.sleep(4)  # forty pings, and a server that counts them says goodbye after three
        client.GetClusterInfo()

        assert [grpc.ChannelConnectivity.READY] == states[states.index(grpc.ChannelConnectivity.READY) :]


def test_tls_is_spoken_with_a_certificate_and_clients_are_told_the_address_they_reach(tmp_path):
    store, cert, key = str(tmp_path / "jobs.db"), str(tls.CERT), str(tls.KEY)
    with served(
        store, "--silo", "0", "--tls-cert", cert, "--tls-key", key, "--silo-advertise", "a.b:1"
    ) as server:
        trust = grpc.ssl_channel_credentials(tls.CERT.read_bytes())
        with SiloClient(server.silo, credentials=trust) as client:
            info = client.GetClusterInfo()

    assert ("a.b:1", "a.b:1") == (info.this_grpc_addr, info.shard_owners[0].grpc_addr)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--silo", "0", "--tls-cert", "x"], "--tls-key"),
        (["--silo", "0", "--tls-cert", "x", "--tls-key", "y"], "--tls-cert: cannot be used"),
        (["--silo-advertise", "a:1"], "give --silo too"),
        (["--silo", "0", "--silo-advertise", "nowhere"], "must be HOST:PORT"),
        (["--silo", "--host", "0.0.0.0", "--token", ANY], "--silo-advertise: must be given"),
        (["--silo", "--host", "0.0.0.0", "--silo-advertise", "a:1"], "no token is set"),
    ],
)
def test_a_server_that_could_not_be_reached_or_trusted_is_not_started(tmp_path, arguments, named):
    done = penstock("serve", "--port", "0", *arguments, folder=tmp_path)

    assert 2 == done.returncode
    assert named in done.stderr


def test_a_port_that_is_taken_is_named(tmp_path, guarded):
    port = guarded.silo.rpartition(":")[2]

    done = penstock("serve", "--port", "0", "--silo", port, folder=tmp_path)

    assert 2 == done.returncode
    assert f"--silo: cannot listen at 127.0.0.1:{port}" in done.stderr


def test_without_its_packages_it_says_what_to_install(tmp_path):
    (tmp_path / "grpc.py").write_text("raise ImportError('no grpc')")
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "serve", "--port", "0", "--silo"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert 2 == done.returncode
    assert "pip install 'penstock[silo]'" in done.stderr


def test_a_server_with_idle_clients_ends_when_it_is_asked_to(tmp_path):
    with served(tmp_path / "jobs.db", "--silo", "0") as server, SiloClient(server.silo) as client:
        client.GetClusterInfo()
        began = time.monotonic()

        assert 0 == server.stop()
        assert time.monotonic() - began < 8


def test_two_servers_share_one_postgresql():
    url = fresh_schema(shared_url())
    with (
        served(url, "--silo", "0") as one,
        served(url, "--silo", "0") as other,
        SiloClient(one.silo) as here,
        SiloClient(other.silo) as there,
    ):
        job = here.enqueue("x", floating("k", 1))
        found = there.lease("w")
        assert not here.Heartbeat(worker_id="w", task_id=found.tasks[0].id).cancelled
        here.refresh(found.refresh_tasks[0], 2)
        here.done(found.tasks[0], 7)

        assert 7 == unpack(there.GetJobResult(id=job).success_data)
        addresses = [client.GetClusterInfo().shard_owners[0].grpc_addr for client in (here, there)]
        assert [one.silo, other.silo] == addresses
    drop_schema(url)


CHILD = """
import sys, time
from tests.support.silo import SiloClient
found = SiloClient(sys.argv[1]).lease("doomed", 10)
print(len(found.tasks), len(found.refresh_tasks), flush=True)
time.sleep(60)
"""


def test_a_worker_that_is_killed_costs_an_attempt_and_gives_all_back(lasting, silo):
    key = floating("key", 4, 60_000)
    kept = silo.enqueue("tried again", key, retry_policy=retries(1), tenant="t")
    lost = silo.enqueue("fails", key, tenant="t")
    stopped = silo.enqueue("cancelled", key, retry_policy=retries(3), tenant="t")
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, lasting.silo], cwd=TOP, stdout=subprocess.PIPE, text=True
    )
    assert "3 1" == child.stdout.readline().strip()
    silo.CancelJob(id=stopped, tenant="t")
    assert "RUNNING" == silo.status(stopped, "t")

    child.send_signal(signal.SIGKILL)
    child.wait(20)
    child.stdout.close()

    tasks, refreshes = [], []

    def look():
        found = silo.lease("heir")
        tasks.extend(found.tasks)
        refreshes.extend(found.refresh_tasks)
        return tasks and refreshes

    until(look, 30)
    assert [("tried again", 2, 2, True)] == [
        (unpack(t.payload), t.attempt_number, t.relative_attempt_number, t.is_last_attempt) for t in tasks
    ]
    assert ["key"] == [refresh.queue_key for refresh in refreshes]
    assert ["FAILED", "CANCELLED"] == [silo.status(job, "t") for job in (lost, stopped)]
    assert "WORKER_CRASHED" == silo.GetJobResult(id=lost, tenant="t").failure.error_code
    first, _ = silo.GetJob(id=kept, tenant="t", include_attempts=True).attempts
    assert (pb.ATTEMPT_FAILED, "WORKER_CRASHED") == (first.status, first.error_code)
    silo.refresh(refreshes[0], 1)
    silo.enqueue("next", key, tenant="t")
    assert not silo.lease().tasks, "the one that is tried again has the only slot"
    silo.done(tasks[0])
    assert ["next"] == payloads(silo.lease().tasks)
