"""What users write on a task, and what it comes to for one call."""

from datetime import timedelta

import pytest

from penstock.errors import InvalidLimitError
from penstock.limits import Concurrency, Floating, Limit, Numbers, OnLimit, Rate, Throttle, Window
from penstock.limits.spec import check_specs, limits_from_json, limits_to_json, resolve
from penstock.names import MAX_NAME

MINUTE = 60_000_000
NAMES = ("account_id", "op")
ACME = {"account_id": "acme", "op": "fetch"}


def test_specs_become_limits_in_the_order_of_their_keys():
    specs = [
        Throttle(10, per=1, key="throttled"),
        Rate(100, per="1m", key="api:stripe", on_limit="drop"),
        Concurrency(1, key="account:{account_id}"),
    ]

    assert (
        Limit("account:acme", Numbers(slots=1)),
        Limit("api:stripe", Numbers(rate=Window(100, MINUTE)), OnLimit.DROP),
        Limit("throttled", Numbers(throttle=Window(10, 1_000_000))),
    ) == resolve(specs, ACME)


def test_no_specs_make_no_limits():
    assert () == resolve((), ACME)


def test_a_callable_key_is_fitted_to_the_task():
    def fit(function):
        return lambda arguments: function(**arguments)

    specs = [Concurrency(1, key=lambda account_id, op: f"{op}:{account_id}"), Rate(1, per="1m", key="{op}")]

    limits = resolve(check_specs(specs, NAMES, fit), ACME)

    assert ["fetch", "fetch:acme"] == [limit.key for limit in limits]


def test_a_callable_key_that_does_not_fit_is_refused_with_its_limit():
    def fit(function):
        raise TypeError("it names 'z'")

    with pytest.raises(InvalidLimitError, match=r"^key: of Concurrency\(.*slots=1\): it names 'z'"):
        check_specs([Concurrency(1, key=lambda z: z)], NAMES, fit)


def test_what_a_callable_key_raises_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        resolve([Concurrency(1, key=lambda _: str(1 / 0))], {})


@pytest.mark.parametrize("prepare", [check_specs, lambda specs, _: specs])
def test_specs_of_different_kinds_under_one_key_are_one_limit(prepare):
    floating = Concurrency.floating(2, key="{account_id}", handler="load", on_limit="drop")
    specs = [
        Throttle(3, per="1s", key="{account_id}", on_limit="drop"),
        Rate(5, per="1m", key="{account_id}", on_limit="drop"),
        floating,
    ]
    numbers = Numbers(2, Window(5, MINUTE), Window(3, 1_000_000))

    expected = (Limit("acme", numbers, OnLimit.DROP, Floating("load", MINUTE)),)
    assert expected == resolve(prepare(specs, NAMES), ACME)
    assert expected == resolve(prepare(specs[::-1], NAMES), ACME)


def test_a_limit_of_zero_is_kept_when_joined_with_another():
    specs = [Concurrency(0, key="k"), Rate(1, per=1, key="k")]

    (limit,) = resolve(specs, {})

    assert 0 == limit.numbers.slots


def test_keys_that_turn_out_equal_are_one_limit():
    specs = [Concurrency(1, key="{account_id}"), Rate(5, per="1m", key="acme")]

    assert (Limit("acme", Numbers(1, Window(5, MINUTE))),) == resolve(check_specs(specs, NAMES), ACME)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda key: Concurrency(1, key=key), "concurrency"),
        (lambda key: Rate(1, per=1, key=key), "rate"),
        (lambda key: Throttle(1, per=1, key=key), "throttle"),
    ],
)
def test_two_limits_of_one_kind_need_two_keys(make, kind):
    with pytest.raises(InvalidLimitError, match=rf"'acme' has two {kind} limits; give each a key of its own"):
        resolve([make("acme"), make("{account_id}")], ACME)
    with pytest.raises(InvalidLimitError, match=rf"'{{op}}' has two {kind} limits"):
        check_specs([make("{op}"), make("{op}")], NAMES)


def test_limits_on_one_key_must_agree_on_what_to_do():
    specs = [Concurrency(1, key="{op}"), Rate(1, per=1, key="{op}", on_limit="drop")]

    with pytest.raises(InvalidLimitError, match=r"on_limit: limits on 'fetch' say wait and drop"):
        resolve(specs, ACME)
    with pytest.raises(InvalidLimitError, match=r"on_limit: limits on '{op}' say wait and drop"):
        check_specs(specs, NAMES)


def test_one_callable_on_two_specs_is_one_key():
    def key(arguments):
        return arguments["account_id"]

    specs = check_specs([Concurrency(1, key=key), Rate(5, per="1m", key=key)], NAMES)

    assert 1 == len(specs)
    assert (Limit("acme", Numbers(1, Window(5, MINUTE))),) == resolve(specs, ACME)


def test_an_unknown_argument_is_found_before_any_job_exists():
    with pytest.raises(
        InvalidLimitError, match=r"unknown argument 'acount_id'; the arguments are: account_id, op"
    ):
        check_specs([Concurrency(1, key="account:{acount_id}")], NAMES)


def test_one_limit_needs_no_list():
    """Once: `limits=Concurrency(...)` was "not iterable"."""
    (spec,) = check_specs(Concurrency(1, key="k"), NAMES)

    assert spec == Concurrency(1, key="k")
    with pytest.raises(
        InvalidLimitError, match=r"limits: 5 must be a list of Concurrency, Rate, Throttle or Configured"
    ):
        check_specs(5, NAMES)


def test_what_is_not_a_spec_is_refused():
    with pytest.raises(
        InvalidLimitError, match=r"limits: 5 must be a Concurrency, a Rate, a Throttle or a Configured"
    ):
        check_specs([5], NAMES)


@pytest.mark.parametrize("number", [-1, 1.5, True, "5", None, 2**53])
def test_a_number_that_cannot_limit_is_refused(number):
    for make in (
        lambda: Concurrency(number, key="k"),
        lambda: Concurrency.floating(number, key="k", handler="h"),
        lambda: Rate(number, per=1, key="k"),
        lambda: Throttle(number, per=1, key="k"),
    ):
        with pytest.raises(InvalidLimitError, match=r"^(slots|limit): .* must be .*at least 0"):
            make()


@pytest.mark.parametrize("per", [0, -1, "soon", None, timedelta(0)])
def test_a_period_that_cannot_pass_is_refused(per):
    for kind in (Rate, Throttle):
        with pytest.raises(InvalidLimitError, match=r"^per: "):
            kind(1, per=per, key="k")


@pytest.mark.parametrize(
    "key",
    ["", "tab\t{op}", "a\n", "\x00", "\ud800", "x" * (MAX_NAME + 1), "é" * (MAX_NAME // 2 + 1), None, 5],
)
def test_a_key_that_can_name_no_gate_is_refused_where_it_is_written(key):
    with pytest.raises(InvalidLimitError, match=r"^key: "):
        Concurrency(1, key=key)


@pytest.mark.parametrize("key", ["{", "{}", "{0}", "account:{account_id"])
def test_a_key_that_is_no_template_is_refused_where_it_is_written(key):
    with pytest.raises(InvalidLimitError, match=r"^key: "):
        Rate(1, per=1, key=key)


@pytest.mark.parametrize("value", ["a\x7f", "a\x85", "\udc80", "x" * MAX_NAME])
def test_a_value_that_spoils_the_key_is_refused_and_the_key_named(value):
    with pytest.raises(
        InvalidLimitError, match=r"^key: 'account:{account_id}' gave a key that cannot be used: "
    ):
        resolve([Concurrency(1, key="account:{account_id}")], {"account_id": value})


def test_an_empty_key_is_refused():
    with pytest.raises(InvalidLimitError, match=r"^key: '{account_id}' gave a key that cannot be used: ''"):
        resolve([Concurrency(1, key="{account_id}")], {"account_id": ""})


@pytest.mark.parametrize("value", [None, 5, ""])
def test_a_callable_key_must_return_text(value):
    with pytest.raises(InvalidLimitError, match=r"gave a key that cannot be used"):
        resolve([Concurrency(1, key=lambda _: value)], {})


@pytest.mark.parametrize("on_limit", ["dorp", "", None, 1])
def test_what_to_do_at_a_shut_gate_is_one_of_three(on_limit):
    with pytest.raises(InvalidLimitError, match=r"^on_limit: .* must be one of: wait, reschedule, drop"):
        Concurrency(1, key="k", on_limit=on_limit)


def test_a_floating_limit_carries_its_handler():
    spec = Concurrency.floating(
        5, key="k", every="30s", handler="load", metadata={"b": 1, "a": [None]}, on_limit=OnLimit.RESCHEDULE
    )

    (limit,) = resolve([spec], {})

    assert Floating("load", 30_000_000, '{"a":[null],"b":1}') == limit.floating
    assert Numbers(slots=5, floats=True) == limit.numbers
    assert OnLimit.RESCHEDULE is limit.on_limit


def test_a_floating_limit_may_have_bounds():
    spec = Concurrency.floating(5, key="k", handler="load", least=2, most=9)

    (limit,) = resolve([spec], {})

    assert Floating("load", 60_000_000, "{}", 2, 9) == limit.floating
    assert (limit,) == limits_from_json(limits_to_json([limit]))
    with pytest.raises(InvalidLimitError, match=r"^most: "):
        Concurrency.floating(5, key="k", handler="load", least=7, most=6)
    with pytest.raises(InvalidLimitError, match=r"^slots: 5 is not at least 6"):
        Concurrency.floating(5, key="k", handler="load", least=6)


@pytest.mark.parametrize("handler", ["", None, 5])
def test_a_floating_limit_names_its_handler(handler):
    with pytest.raises(InvalidLimitError, match=r"^handler: "):
        Concurrency.floating(5, key="k", handler=handler)


@pytest.mark.parametrize("metadata", [[1], 5, {"a": object()}, {"a": "\ud800"}])
def test_metadata_must_fit_json(metadata):
    with pytest.raises(InvalidLimitError, match=r"^metadata: "):
        Concurrency.floating(5, key="k", handler="h", metadata=metadata)


def test_the_period_of_a_floating_limit_is_checked():
    with pytest.raises(InvalidLimitError, match=r"^every: "):
        Concurrency.floating(5, key="k", handler="h", every=0)


def test_specs_are_values():
    assert Concurrency(1, key="k") == Concurrency(1, key="k", on_limit="wait")
    assert Concurrency(1, key="k") != Concurrency.floating(1, key="k", handler="h")
    assert 1 == len({Rate(1, per="1m", key="k"), Rate(1, per="1m", key="k")})
    assert "per='1m'" in repr(Rate(1, per="1m", key="k"))


def test_a_limit_whose_key_never_changes_is_made_once():
    specs = [Rate(1, per="1m", key="api:stripe")]

    assert resolve(specs, ACME)[0] is resolve(specs, ACME)[0]


def test_stored_limits_are_compact():
    limits = resolve(
        [Concurrency(1, key="{account_id}"), Rate(2, per="1m", key="api", on_limit="drop")], ACME
    )

    assert '[["acme","c1"],["api","r2/60000000","drop"]]' == limits_to_json(limits)
    assert "[]" == limits_to_json(())


def test_a_key_may_not_be_stored_twice():
    limit = Limit("k", Numbers(slots=1))

    with pytest.raises(InvalidLimitError, match=r"limits: key 'k' is given twice"):
        limits_to_json([limit, limit])


def test_stored_limits_are_read_once():
    assert limits_from_json('[["k","c1"]]') is limits_from_json('[["k","c1"]]')
