"""What can never succeed is refused, with the field named, and nothing is stored; rubbish leaves the server up."""

import random

import grpc
import pytest

from penstock.dialects.silo import silo_pb2 as pb
from penstock.dialects.silo.methods import METHODS, NOT_OFFERED
from tests.support.silo import concurrency, floating, pack, rate, refused, retries
from tests.support.stores import server_on_sqlite

LONG = "x" * 2_000
NUMBERS = [0, 1, 2**31 - 1, 2**32 - 1, 2**53, 2**63 - 1, -1, -(2**63)]
TEXTS = ["", "-", "a", "\0", "a\nb", "é" * 600, LONG, "refresh-1-2", "1-2", "9" * 40, "0" * 5_000]


def enqueue(**fields):
    return pb.EnqueueRequest(**{"payload": pack("x"), "priority": 50, **fields})


BAD = {
    "priority must be between 0 and 99": enqueue(priority=100),
    "task_group too long": enqueue(task_group="x" * 65),
    "task_group": enqueue(task_group="a\0b"),
    "metadata has too many entries (max 16)": enqueue(metadata={str(n): "x" for n in range(17)}),
    "metadata key too long": enqueue(metadata={"x" * 64: "x"}),
    "metadata value too long": enqueue(metadata={"x": "x" * 65_535}),
    "invalid tenant id": enqueue(tenant="x" * 65),
    "tenant": enqueue(tenant="a\nb"),
    "id": enqueue(id=LONG),
    "payload": enqueue(payload=pb.SerializedBytes(msgpack=bytes(13_000_000))),
    "start_at_ms": enqueue(start_at_ms=2**62),
    "limits[0]": enqueue(limits=[pb.Limit()]),
    "limits[0].key": enqueue(limits=[concurrency("", 1)]),
    "limits[1].key": enqueue(limits=[concurrency("a", 1), floating("a", 1)]),
    "limits[0].max_concurrency": enqueue(limits=[concurrency("a", 0)]),
    "limits[0].default_max_concurrency": enqueue(limits=[floating("a", 0)]),
    "limits[0].refresh_interval_ms": enqueue(limits=[floating("a", 1, 0)]),
    "limits[0].metadata": enqueue(limits=[floating("a", 1, 1, big="x" * 70_000)]),
    "limits[0].name": enqueue(limits=[rate("", "u", 1, 1)]),
    "limits[0].unique_key": enqueue(limits=[rate("n", "", 1, 1)]),
    "limits[0].limit": enqueue(limits=[rate("n", "u", 0, 1)]),
    "limits[0].duration_ms": enqueue(limits=[rate("n", "u", 1, 0)]),
    "limits[0].hits: 3": enqueue(limits=[rate("n", "u", 2, 1, 3)]),
    "limits[0].hits: -1": enqueue(limits=[rate("n", "u", 2, 1, -1)]),
    "limits[0].algorithm": enqueue(limits=[rate("n", "u", 1, 1, algorithm=7)]),
    "DURATION_IS_GREGORIAN": enqueue(limits=[rate("n", "u", 1, 1, behavior=pb.DURATION_IS_GREGORIAN)]),
    "RESET_REMAINING": enqueue(limits=[rate("n", "u", 1, 1, behavior=pb.RESET_REMAINING)]),
    "DRAIN_OVER_LIMIT": enqueue(limits=[rate("n", "u", 1, 1, behavior=pb.DRAIN_OVER_LIMIT | pb.GLOBAL)]),
    "limits[0].behavior": enqueue(limits=[rate("n", "u", 1, 1, behavior=64)]),
    "retry_policy.initial_interval_ms": enqueue(retry_policy=retries(1, -1)),
    "retry_policy.max_interval_ms": enqueue(retry_policy=retries(1, 1, -1)),
    "factor": enqueue(retry_policy=retries(1, factor=0.5)),
    "retry_policy.backoff_factor": enqueue(retry_policy=retries(1, factor=float("nan"))),
    "limits": enqueue(limits=[concurrency(str(n), 1) for n in range(101)]),
}


@server_on_sqlite  # refused before any store is asked
@pytest.mark.parametrize("named", BAD)
def test_a_job_that_could_never_run_is_refused_by_the_name_of_its_field(silo, named):
    refused("INVALID_ARGUMENT", lambda: silo.send("Enqueue", BAD[named]), named)

    assert not silo.lease().tasks


def test_a_taken_id_is_refused_and_the_job_that_has_it_stays(silo):
    silo.enqueue("first", id="taken")

    refused("ALREADY_EXISTS", lambda: silo.enqueue("second", id="taken"), "taken")

    assert 1 == len(silo.lease().tasks)


def test_an_outcome_must_be_told(silo):
    silo.enqueue("x", floating("k", 1))
    found = silo.lease()

    refused("INVALID_ARGUMENT", lambda: silo.ReportOutcome(task_id=found.tasks[0].id), "missing outcome")
    refresh = found.refresh_tasks[0].id
    refused("INVALID_ARGUMENT", lambda: silo.ReportRefreshOutcome(task_id=refresh), "missing outcome")


def test_more_tasks_than_an_answer_can_hold_are_not_an_error(silo):
    silo.enqueue("x")

    assert not silo.lease(most=0).tasks
    assert 1 == len(silo.lease(most=2**32 - 1).tasks)


@server_on_sqlite  # refused before any store is asked
@pytest.mark.parametrize("name", sorted(NOT_OFFERED))
def test_what_only_silos_operators_call_is_not_offered(silo, name):
    refused("UNIMPLEMENTED", lambda: silo.send(name, b""), f"{name} is not offered")


def fill(message, draw):
    """Fill some fields of a message with what may be wrong about it."""
    for field in message.DESCRIPTOR.fields:
        if draw.random() < 0.4:
            continue
        value = [draw.choice(values) for values in (NUMBERS, TEXTS)]
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            getattr(message, field.name)[draw.choice(TEXTS)] = value[1]
        elif field.message_type is not None:
            kept = getattr(message, field.name)
            fill(kept.add() if field.is_repeated else kept, draw)
            if not field.is_repeated:
                kept.SetInParent()
        elif field.type == field.TYPE_STRING:
            setattr(message, field.name, value[1])
        elif field.type == field.TYPE_BYTES:
            setattr(message, field.name, draw.randbytes(draw.randrange(20)))
        elif field.type == field.TYPE_DOUBLE:
            setattr(message, field.name, draw.choice([0.0, 1.5, float("nan"), float("inf"), -1.0, 1e300]))
        elif field.type == field.TYPE_BOOL:
            setattr(message, field.name, draw.random() < 0.5)
        elif field.type == field.TYPE_ENUM:
            setattr(message, field.name, draw.choice([0, 1, 2, 7]))
        else:
            signed = field.type in {field.TYPE_INT32, field.TYPE_INT64}
            most = 2 ** (
                31 if field.type == field.TYPE_INT32 else 32 if field.type == field.TYPE_UINT32 else 63
            )
            fits = [n for n in NUMBERS if (-most if signed else 0) <= n < most]
            setattr(message, field.name, draw.choice(fits))
    return message


@pytest.mark.parametrize("name", METHODS)
def test_rubbish_and_truncated_messages_get_no_internal_error_and_leave_the_server_up(silo, name):
    draw = random.Random(name)
    sent = [draw.randbytes(draw.randrange(1, 60)) for _ in range(10)]
    for _ in range(30):
        whole = fill(METHODS[name].request(), draw).SerializeToString()
        sent += [whole, whole[: draw.randrange(len(whole) + 1)], whole + b"\xba\x3e\x03abc"]
    codes = set()

    for content in sent:
        try:
            silo.send(name, content)
        except grpc.RpcError as error:
            codes.add(error.code())

    wrong = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAVAILABLE}
    assert not codes & wrong, codes
    silo.enqueue("still there", id="still there", task_group="quiet")
    assert 1 == len(silo.lease(group="quiet").tasks)
