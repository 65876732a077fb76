"""What can be seen to be wrong where a task is declared is refused there."""

import functools

import pytest

from penstock import Client, Concurrency, InvalidJobError, InvalidLimitError, Rate


def sync(x: int, y: str = "a", *, z: str = "c") -> None:
    pass


def keys(job):
    return [limit.key for limit in job.refresh().limits]


class Account:
    def key(self, x, y, z):
        return f"{x}:{y}:{z}"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (lambda x, y, z: f"{x}:{y}:{z}", "1:a:c"),
        (lambda x, y, *, z: f"{x}-{y}-{z}", "1-a-c"),
        (lambda y: f"k:{y}", "k:a"),
        (lambda z, x: f"{z}:{x}", "c:1"),
        (lambda x, **rest: f"{x}:{sorted(rest)}".replace(" ", ""), "1:['y','z']"),
        (lambda *args, **kwargs: f"{args}{kwargs}".replace(" ", ""), "(1,'a'){'z':'c'}"),
        (lambda a, b, **_: f"{a}:{b}", "1:a"),
        (lambda: "constant", "constant"),
        (Account().key, "1:a:c"),
        (functools.partial(lambda p, x, y, z: f"{p}:{y}", "p"), "p:a"),
    ],
)
def test_a_function_for_a_key_gets_defaults_however_the_task_is_called(app, key, expected):
    """Once: `TypeError: <lambda>() missing 1 required positional argument: 'y'`."""
    task = app.task(limits=[Concurrency(1, key=key)])(sync)

    assert [[expected]] * 4 == [
        keys(job)
        for job in (task.enqueue(1), task.enqueue(x=1), task.enqueue(1, "a"), task.enqueue(1, y="a", z="c"))
    ]


def test_a_function_for_the_cost_gets_defaults(app):
    task = app.task(cost=lambda x, y, z: x + len(y))(sync)

    assert task.enqueue(1).refresh().cost == 2
    assert task.with_options(cost=lambda y: 3 * len(y)).enqueue(1, "ab").refresh().cost == 6


def test_a_task_that_takes_anything_passes_it_on(app):
    def anything(first, /, *rest, **named):
        pass

    task = app.task(
        limits=[Concurrency(1, key=lambda first, /, *rest, **named: f"{first}{len(rest)}{len(named)}")]
    )(anything)

    assert keys(task.enqueue("a", 1, 2, x=3)) == ["a21"]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (lambda account: f"k:{account}", "k:acme"),
        (lambda args, **_: f"k:{args}", "k:1"),
        (lambda *rest, account: f"{rest}:{account}".replace(" ", ""), "(1,):acme"),
    ],
)
def test_of_a_task_that_takes_anything_too_a_function_may_name_what_it_needs(app, key, expected):
    def anything(*args, account="acme"):
        pass

    task = app.task(limits=[Concurrency(1, key=key)])(anything)

    assert keys(task.enqueue(1)) == [expected]


def test_a_function_that_does_not_tell_what_it_takes_is_called_as_the_task_is(app):
    def one(x):
        pass

    assert keys(app.task(limits=[Concurrency(1, key=str)])(one).enqueue("acme")) == ["acme"]


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (lambda x, y, z, account: "k", "it names 'account'"),
        (lambda acount: "k", "it names 'acount'"),
        (lambda x, /: "k", "too many positional arguments"),
    ],
)
def test_a_function_of_the_wrong_signature_is_refused_where_it_is_declared(app, key, problem):
    with pytest.raises(InvalidLimitError, match=rf"^key: of Rate\(.*sync, which are: x, y, z; {problem}"):
        app.task(limits=[Rate(1, per="1m", key=key)])(sync)
    with pytest.raises(InvalidJobError, match=rf"^cost: .*sync, which are: x, y, z; {problem}"):
        app.task(cost=key)(sync)
    with pytest.raises(InvalidLimitError, match=problem):
        app.task(sync).with_options(limits=[Concurrency(1, key=key)])


def test_an_async_function_makes_no_key(app):
    async def key(x):
        return "k"

    with pytest.raises(InvalidLimitError, match="must be a plain function"):
        app.task(limits=[Concurrency(1, key=key)])(sync)


def test_a_client_that_knows_a_task_by_name_calls_the_function_as_the_task(tmp_path):
    with Client(tmp_path / "jobs.db") as client:
        limits = [Concurrency(1, key=lambda x, y: f"{x}:{y}")]
        job = client.enqueue("sync", 1, kwargs={"y": "b"}, limits=limits, cost=lambda x, y: x + 2)

        assert keys(job) == ["1:b"]
        assert job.refresh().cost == 3


def test_one_limit_needs_no_list(app):
    """Once: `'Concurrency' object is not iterable`."""
    task = app.task(limits=Concurrency(1, key="k:{y}"))(sync)

    assert keys(task.enqueue(1)) == ["k:a"]


def test_a_function_without_a_module_needs_a_name(app):
    """Once: `AttributeError`, for `str.upper`."""
    with pytest.raises(InvalidJobError, match=r"^name: .*app.task\(function, name="):
        app.task(str.upper)

    assert app.task(str.upper, name="upper").enqueue("a").refresh().task == "upper"


def test_a_function_whose_parameters_are_unknown_is_refused(app):
    with pytest.raises(InvalidJobError, match=r"^function: .*cannot be read; wrap it in a function"):
        app.task(max, name="task")


def produce():
    yield 1


async def produce_async():
    yield 1


@pytest.mark.parametrize("function", [produce, produce_async])
def test_a_generator_is_no_task(app, function):
    """Accepted, and failed when it ran."""
    with pytest.raises(InvalidJobError, match=r"^function: .*produce.* is a generator"):
        app.task(function)
