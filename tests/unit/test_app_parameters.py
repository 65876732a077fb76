import enum
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import msgspec
import pytest

from penstock.app.parameters import Parameters
from penstock.errors import InvalidJobError


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Order:
    id: UUID
    lines: list["Line"]


@dataclass
class Line:
    price: Decimal


class Point(msgspec.Struct):
    x: int


def sync(account_id: str, op: str = "fetch", *, force: bool = False) -> str: ...


def typed(
    order: Order,
    at: datetime,
    wait: timedelta,
    colour: Colour,
    point: Point,
    pairs: dict[int, tuple[str, int]],
    blob: bytes,
    tags: set[str],
) -> Order: ...


def spread(first: int, /, *rest: Decimal, **named: UUID) -> None: ...


class Unknown:
    pass


def untyped(a, b: "NoSuchName", c: Unknown, d: "Point") -> "NoSuchName": ...  # noqa: F821


def round_trip(function, *args, **kwargs):
    parameters = Parameters(function, "tasks.task")
    return parameters.decode(parameters.encode(args, kwargs))


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        (("acme",), {}, {"account_id": "acme", "op": "fetch", "force": False}),
        (("acme", "push"), {}, {"account_id": "acme", "op": "push", "force": False}),
        ((), {"op": "push", "account_id": "acme"}, {"account_id": "acme", "op": "push", "force": False}),
        (("acme",), {"force": True}, {"account_id": "acme", "op": "fetch", "force": True}),
    ],
)
def test_binding_gives_every_parameter_its_value(args, kwargs, expected):
    assert expected == Parameters(sync, "tasks.sync").bind(args, kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "missing a required argument: 'account_id'"),
        (("a", "b", "c"), {}, "too many positional arguments"),
        (("a",), {"account_id": "b"}, "multiple values for argument 'account_id'"),
        (("a",), {"colour": "red"}, "unexpected keyword argument 'colour'"),
        ((), {"op": "x", "colour": "red"}, "missing a required argument: 'account_id'"),
    ],
)
def test_wrong_arguments_are_a_type_error_that_names_the_task(args, kwargs, said):
    with pytest.raises(TypeError, match=rf"^tasks\.sync\(\): .*{said}"):
        Parameters(sync, "tasks.sync").bind(args, kwargs)


def test_variadic_and_positional_only_parameters_are_bound_as_python_binds_them():
    bound = Parameters(spread, "tasks.spread").bind((1, 2), {"first": 3})

    assert {"first": 1, "rest": (2,), "named": {"first": 3}} == bound


def test_arguments_come_back_as_their_annotated_types():
    given = {
        "order": Order(UUID(int=1), [Line(Decimal("1.50"))]),
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "wait": timedelta(seconds=90),
        "colour": Colour.RED,
        "point": Point(3),
        "pairs": {1: ("a", 2)},
        "blob": b"\x00\xff",
        "tags": {"x", "y"},
    }

    assert ([], given) == round_trip(typed, **given)
    assert (list(given.values()), {}) == round_trip(typed, *given.values())


def test_variadic_arguments_come_back_as_their_annotated_types():
    args, kwargs = round_trip(spread, 1, Decimal("2.5"), Decimal("3.5"), a=UUID(int=7))

    assert [1, Decimal("2.5"), Decimal("3.5")] == args
    assert {"a": UUID(int=7)} == kwargs


def test_arguments_without_a_usable_annotation_stay_plain_values():
    args, _ = round_trip(untyped, [1, {"x": None}], "b", {"c": 1}, {"x": 5})

    assert [[1, {"x": None}], "b", {"c": 1}, Point(5)] == args


def test_whole_numbers_of_any_size_and_odd_texts_survive():
    args, _ = round_trip(lambda a, b: None, 2**80, "a\x00 ü 😀")

    assert [2**80, "a\x00 ü 😀"] == args


@pytest.mark.parametrize(
    "value", [object(), {(1, 2): 3}, "\ud800", math.nan, [math.inf], {"deep": [math.nan]}, sync]
)
def test_an_argument_without_a_json_form_is_named(value):
    with pytest.raises(InvalidJobError, match=r"tasks\.sync cannot be written as JSON") as caught:
        Parameters(sync, "tasks.sync").encode(("acme",), {"op": value})

    assert caught.value.field == "op"


def test_a_value_that_contains_itself_is_named():
    knot = []
    knot.append(knot)

    with pytest.raises(InvalidJobError, match="account_id"):
        Parameters(sync, "tasks.sync").encode((knot,), {})


def test_none_is_a_value_like_any_other():
    assert ([None, {"a": [None]}], {}) == round_trip(lambda a, b: None, None, {"a": [None]})


def test_an_argument_that_does_not_fit_its_annotation_is_named():
    with pytest.raises(InvalidJobError, match=r"at: not as tasks\.typed is annotated: Invalid RFC3339"):
        Parameters(typed, "tasks.typed").decode('{"args":[],"kwargs":{"at":"yesterday"}}')


def test_a_result_comes_back_as_its_annotated_type():
    text = '{"id":"00000000-0000-0000-0000-000000000001","lines":[]}'

    assert Order(UUID(int=1), []) == Parameters(typed, "tasks.typed").decode_result(text)


def test_a_pydantic_model_is_answered_with_what_to_pass():
    """No hint."""

    class Order:
        def model_dump(self): ...

    def ship(order):
        pass

    with pytest.raises(InvalidJobError, match=r"^order: .*; pass order\.model_dump\(mode='json'\)$"):
        Parameters(ship, "ship").encode((Order(),), {})
