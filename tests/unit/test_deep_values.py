"""What nests too deeply is refused where it is made."""

import json

import pytest

from penstock import current_job
from penstock.engine import open_engine
from penstock.errors import InvalidJobError
from penstock.job import NewJob
from penstock.lifecycle.nesting import DEEPEST


def nested(levels):
    return json.loads("[" * levels + "]" * levels)


@pytest.mark.parametrize("levels", [DEEPEST - 1, 900])
def test_an_argument_that_nests_too_deeply_is_named(live, levels):
    @live.task
    def work(first, deep):
        pass

    with pytest.raises(InvalidJobError, match=r"deep.*nested deeper than 64"):
        work.enqueue(1, nested(levels))
    with pytest.raises(InvalidJobError, match="meta"):
        work.with_options(meta={"deep": nested(levels + 1)}).enqueue(1, 2)
    assert [] == live.engine.jobs()


@pytest.mark.parametrize("field", ["args", "meta"])
def test_the_engine_itself_takes_nothing_that_nests_too_deeply(field):
    deep = '{"args":' + "[" * DEEPEST + "]" * DEEPEST + "}"
    engine = open_engine(":memory:")

    with pytest.raises(InvalidJobError, match=f"{field}.*nested deeper"):
        engine.enqueue([NewJob("task"), NewJob("task", **{field: deep})])

    assert [] == engine.jobs()
    engine.close()


def test_a_result_that_nests_too_deeply_is_a_failure_and_a_progress_an_error_in_its_handler(live):
    seen = []

    @live.task
    def work():
        try:
            current_job().progress(nested(DEEPEST + 1))
        except ValueError as error:
            seen.append(str(error))
        return nested(DEEPEST + 1)

    job = work.enqueue()
    live.work(until_idle=True)

    assert "ResultNotJSON" == live.engine.job(job.id).error["kind"]
    assert ["it is nested deeper than 64 levels"] == seen
