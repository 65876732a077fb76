"""A client of Silo's protocol, and a worker that counts in its handlers."""

import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import grpc
import msgspec
import pytest

from penstock.dialects.silo import silo_pb2 as pb
from tests.support.timing import until

SERVICE = "/silo.v1.Silo/"
BIG = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def pack(value):
    return pb.SerializedBytes(msgpack=msgspec.msgpack.encode(value))


def unpack(content):
    return msgspec.msgpack.decode(content.msgpack)


def concurrency(key, most):
    return pb.Limit(concurrency=pb.ConcurrencyLimit(key=key, max_concurrency=most))


def floating(key, default, every_ms=60_000, **metadata):
    limit = pb.FloatingConcurrencyLimit(
        key=key, default_max_concurrency=default, refresh_interval_ms=every_ms, metadata=metadata
    )
    return pb.Limit(floating_concurrency=limit)


def rate(name, unique, limit, duration_ms, hits=1, **more):
    found = pb.GubernatorRateLimit(
        name=name, unique_key=unique, limit=limit, duration_ms=duration_ms, hits=hits, **more
    )
    return pb.Limit(rate_limit=found)


def retries(count, first_ms=1, longest_ms=1_000, factor=2.0):
    return pb.RetryPolicy(
        retry_count=count, initial_interval_ms=first_ms, max_interval_ms=longest_ms, backoff_factor=factor
    )


def payloads(tasks):
    return [unpack(task.payload) for task in tasks]


def refused(code, call, *words):
    """Let a call be refused with this code and these words."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert code == caught.value.code().name, caught.value.details()
    for word in words:
        assert word in caught.value.details()


class SiloClient:
    """One channel; every RPC is a method that takes the fields of its request."""

    def __init__(self, address, token=None, options=(), credentials=None):
        options = [*BIG, *options]
        if credentials is None:
            self.channel = grpc.insecure_channel(address, options)
        else:
            self.channel = grpc.secure_channel(address, credentials, options)
        self._metadata = [] if token is None else [("authorization", f"Bearer {token}")]
        self._calls = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def send(self, name, request, timeout=20):
        """Send a message, or bytes that are none, and return the answer."""
        if name not in self._calls:
            answer = getattr(pb, f"{name}Response", None)
            self._calls[name] = self.channel.unary_unary(
                SERVICE + name,
                lambda sent: sent if isinstance(sent, bytes) else sent.SerializeToString(),
                None if answer is None else answer.FromString,
            )
        return self._calls[name](request, timeout=timeout, metadata=self._metadata)

    def __getattr__(self, name):
        request = getattr(pb, f"{name}Request")
        return lambda **fields: self.send(name, request(**fields))

    def enqueue(self, value=None, *limits, priority=50, **fields):
        return self.Enqueue(payload=pack(value), limits=limits, priority=priority, **fields).id

    def lease(self, worker="w", most=10, group=""):
        return self.LeaseTasks(worker_id=worker, max_tasks=most, task_group=group)

    def leased(self, count):
        """Lease until so many tasks came: where starts are counted, an answer that is late hands nothing out."""
        tasks = []
        until(lambda: tasks.extend(self.lease(most=50).tasks) or len(tasks) >= count, 20, lambda: tasks)
        return tasks

    def done(self, task, value=None):
        self.ReportOutcome(task_id=task.id, shard=task.shard, tenant_id=task.tenant_id, success=pack(value))

    def fail(self, task, code="BAD", value=None):
        failure = pb.Failure(code=code, data=pack(value))
        self.ReportOutcome(task_id=task.id, shard=task.shard, tenant_id=task.tenant_id, failure=failure)

    def refresh(self, task, value):
        self.ReportRefreshOutcome(
            task_id=task.id, shard=task.shard, success=pb.RefreshSuccess(new_max_concurrency=value)
        )

    def status(self, job, tenant=None):
        return pb.JobStatus.Name(self.GetJob(id=job, tenant=tenant).status)


class Overlaps:
    """Counts, in handlers, how many run at once by key."""

    def __init__(self):
        self.lock = threading.Lock()
        self.now, self.most = Counter(), Counter()
        self.begun = defaultdict(list)
        self.order = []

    def enter(self, keys, value):
        with self.lock:
            self.order.append(value)
            for key in keys:
                self.begun[key].append(time.monotonic())
                self.now[key] += 1
                self.most[key] = max(self.most[key], self.now[key])

    def leave(self, keys):
        with self.lock:
            self.now.subtract(keys)


def keys_of(task):
    """Name the keys of a task's limits."""
    found = [(limit.WhichOneof("limit"), limit) for limit in task.limits]
    return [
        f"{limit.rate_limit.name}/{limit.rate_limit.unique_key}"
        if kind == "rate_limit"
        else getattr(limit, kind).key
        for kind, limit in found
    ]


class SiloWorker:
    """Leases, runs handlers in threads, beats and reports, as the TypeScript worker does."""

    def __init__(self, address, name, overlaps, *, handler=None, refresh=None, group="", most=8, pause=0.005):
        self.client = SiloClient(address)
        self.name, self.group, self.most, self.pause = name, group, most, pause
        self.overlaps, self.handler, self.refresh = overlaps, handler or (lambda _: None), refresh
        self.failures, self.taken = [], 0
        self._threads = ThreadPoolExecutor(most)
        self._room = threading.Semaphore(most)
        self._stop = threading.Event()
        self._poller = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self):
        self._poller.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._poller.join(30)
        self._threads.shutdown()
        self.client.channel.close()

    def _poll(self):
        while not self._stop.is_set():
            if not self._room.acquire(timeout=0.05):
                continue
            self._room.release()
            with suppress(grpc.RpcError):
                found = self.client.lease(self.name, self.most // 2 or 1, self.group)
                for task in found.tasks:
                    self._room.acquire()
                    self.taken += 1
                    self._threads.submit(self._run, task)
                for task in found.refresh_tasks:
                    self._threads.submit(self._refresh, task)
            self._stop.wait(self.pause)

    def _run(self, task):
        keys = keys_of(task)
        try:
            self.overlaps.enter(keys, unpack(task.payload))
            try:
                self.handler(task)
            finally:
                self.overlaps.leave(keys)
            self.client.done(task)
        except Exception as error:  # noqa: BLE001 - a handler may raise anything
            self.failures.append(error)
            with suppress(grpc.RpcError):
                self.client.fail(task)
        finally:
            self._room.release()

    def _refresh(self, task):
        try:
            self.client.refresh(task, self.refresh(task))
        except grpc.RpcError as error:
            self.failures.append(error)
        except Exception as error:  # noqa: BLE001 - a handler may raise anything
            failure = pb.RefreshFailure(code="REFRESH_HANDLER_ERROR", message=str(error))
            self.client.ReportRefreshOutcome(task_id=task.id, shard=task.shard, failure=failure)
