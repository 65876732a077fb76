"""What a job may look like."""

import pytest

from penstock.errors import InvalidJobError
from penstock.lifecycle.checks import (
    check_cost,
    check_job_id,
    check_priority,
    check_queue,
    check_task_name,
    check_tenant,
)

NAMES = [
    "default",
    "a",
    "0",
    "-a",
    "a b",
    " ",
    "a/b",
    "é",
    "a|b|@t#1%",
    '"quoted"',
    "\u200fab\u202ec",
    "😀" * 256,
    "q" * 1024,
]
NO_NAMES = ["a\n", "\x00", "\x7f", "\x85", "\ud800", None, 5, "q" * 1025, "é" * 513, "😀" * 257]


@pytest.mark.parametrize(
    ("check", "values"),
    [
        (check_queue, NAMES),
        (check_tenant, ["", *NAMES]),
        (check_task_name, ["tasks.sync", "send mail", "módulo.tarea", "t" * 255]),
        (check_job_id, NAMES),
        (check_priority, [-100, 0, 100]),
        (check_cost, [1, 2**53 - 1]),
    ],
)
def test_good_values_pass(check, values):
    for value in values:
        check(value)


@pytest.mark.parametrize(
    ("check", "field", "values"),
    [
        (check_queue, "queue", ["", *NO_NAMES]),
        (check_tenant, "tenant", NO_NAMES),
        (check_task_name, "task", ["", "a\n", "\x00", "\ud800", None, 5, "t" * 256]),
        (check_job_id, "id", ["", *NO_NAMES]),
        (check_priority, "priority", [-101, 101, 1.0, True, "1", None]),
        (check_cost, "cost", [0, -1, 1.0, True, "1", None, 2**53]),
    ],
)
def test_bad_values_are_refused_and_the_field_named(check, field, values):
    for value in values:
        with pytest.raises(InvalidJobError) as caught:
            check(value)

        assert field == caught.value.field
