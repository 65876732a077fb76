"""Templates: what is filled in, what a missing value comes to, and what is refused."""

import pytest

from penstock.errors import InvalidError
from penstock.sequences.paths import dig, read_path
from penstock.sequences.templates import fill_in, read_template
from penstock.sequences.values import LARGEST, TemplateError

ROOTS = {
    "data": {
        "name": " Ada ",
        "none": None,
        "n": -3.456,
        "whole": 7,
        "yes": True,
        "items": [1, "two", {"a b": 5}],
        "nested": {"x-y": {"0": "zero"}},
        "letters": ["a", "b"],
        "coded": "aGk=",
        "not_text": "/w==",
    },
}


def look_up(path):
    if path.root not in ROOTS:
        raise TemplateError(f"unknown {path.root}")
    return dig(ROOTS[path.root], path.steps)


def filled(text):
    return fill_in(read_template(text, "params.x"), look_up)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("", ""),
        ("} and {", "} and {"),
        # A template that is the whole text keeps its type.
        ("{{data.items}}", [1, "two", {"a b": 5}]),
        ("{{ data.whole }}", 7),
        ("{{data.yes}}", True),
        ("{{data.none}}", None),
        ("{{data}}", ROOTS["data"]),
        # Within a longer text it is text.
        ("n={{data.whole}}", "n=7"),
        ("{{data.yes}}{{data.none}}", "truenull"),
        ("{{data.items}}!", '[1,"two",{"a b":5}]!'),
        # What is missing is null, or the text null.
        ("{{data.nowhere.deep}}", None),
        ("x {{data.nowhere}} y", "x null y"),
        ("{{data.items[9]}}", None),
        ("{{data.whole.deeper}}", None),
        ("{{data.items.first}}", None),
        # Ways into a value.
        ("{{data.items[0]}}", 1),
        ("{{data.items.1}}", "two"),
        ('{{data.items[2]["a b"]}}', 5),
        ("{{data.items[2]['a b']}}", 5),
        ("{{data.nested.x-y.0}}", "zero"),
        # Chains: the first that is not null, a literal ends the search.
        ("{{data.none | data.name}}", " Ada "),
        ("{{data.name | data.whole}}", " Ada "),
        ("{{data.none | data.nowhere}}", None),
        ("{{data.none | friend}}", "friend"),
        ("{{data.none | 'a | b }} c'}}", "a | b }} c"),
        ('{{data.none | "say \\"hi\\"\\n"}}', 'say "hi"\n'),
        ("{{data.none | 5}}", 5),
        ("{{data.none | null | data.name}}", None),
        ("{{data.none | foo.bar}}", "foo.bar"),
        ("{{'text'}}", "text"),
        ("{{-1}}", -1),
        ("{{true}}", True),
        # Filters.
        ("{{data.name | trim | upper}}", "ADA"),
        ("{{data.name | lower}}", " ada "),
        ("{{data.whole | upper}}", "7"),
        ("{{data.none | upper}}", None),
        ("{{data.none | upper | 'x' | upper}}", "X"),
        ("{{data.n | abs}}", 3.456),
        ("{{data.n | round(1)}}", -3.5),
        ("{{data.n | round}}", -3),
        ("{{data.name | url_encode}}", "%20Ada%20"),
        ("{{data.name | trim | base64}}", "QWRh"),
        ("{{data.coded | base64_decode}}", "hi"),
        ("{{data.name | replace('A', 'aa')}}", " aada "),
        ("{{data.none | default('x')}}", "x"),
        ("{{data.whole | default('x')}}", 7),
        ("{{data.none | default(word)}}", "word"),
        ("{{data.name | truncate(2)}}", " A"),
        ("{{data.name | truncate(2, '…')}}", " A…"),
        ("{{data.name | truncate(99, '…')}}", " Ada "),
        ("{{data.letters | join(', ')}}", "a, b"),
        ("{{data.items | join('')}}", '1two{"a b":5}'),
        ("{{data.name | split('d')}}", [" A", "a "]),
        (
            "{{data.whole | hash('sha256')}}",
            "7902699be42c8a8e46fbbb4501726517e86b22c56a189f7625a6da49081b2451",
        ),
        # Functions.
        ("{{len(data.items)}}", 3),
        ("{{json(data.letters)}}", '["a","b"]'),
        ("{{data.none | len(data.name)}}", 5),
        ("{{data.whole | len(data.name)}}", 7),
    ],
)
def test_a_template_is_filled_in(text, value):
    actual = filled(text)

    assert value == actual
    assert type(value) is type(actual)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{{data.name", "not closed"),
        ("{{data.name | 'x}}'", "not closed"),
        ("{{}}", "nothing between"),
        ("{{data.name | }}", "nothing between"),
        ("{{+}}", "is no path"),
        ("{{nope()}}", "no function 'nope'"),
        ("{{upper(data.x)}}", "no function 'upper'"),
        ("{{data.x | nope(1)}}", "no filter 'nope'"),
        ("{{data.x | replace('a')}}", "takes 2 arguments, not 1"),
        ("{{data.x | truncate}}", "takes 1 to 2 arguments, not 0"),
        ("{{data.x | upper(1)}}", "takes 0 arguments, not 1"),
        ("{{len('x')}}", "needs a path"),
        ("{{len()}}", "needs a path"),
    ],
)
def test_what_is_no_template_is_refused_when_it_is_read(text, problem):
    with pytest.raises(InvalidError, match=problem) as refused:
        read_template(text, "params.x")

    assert "params.x" == refused.value.field


@pytest.mark.parametrize(
    "text",
    [
        "{{nowhere.x}}",
        "{{recipient}}",
        "{{data.name | abs}}",
        "{{data.yes | abs}}",
        "{{data.name | round(1)}}",
        "{{data.n | round('x')}}",
        "{{data.n | round(-1)}}",
        "{{data.name | join(',')}}",
        "{{data.name | split('')}}",
        "{{data.name | replace('', 'x')}}",
        "{{data.name | truncate(true)}}",
        "{{data.name | hash('md5')}}",
        "{{data.name | base64_decode}}",
        "{{data.not_text | base64_decode}}",
        "{{len(data.whole)}}",
        "{{pool.resource_key}}",
    ],
)
def test_what_cannot_be_filled_in_is_an_error(text):
    with pytest.raises(TemplateError):
        filled(text)


@pytest.mark.parametrize(
    "text",
    ["pool.x", "pool", "pool.resource_key | upper", "data.x | pool.resource_key", "len(pool.resource_key)"],
)
def test_of_a_pool_there_is_its_resource_alone(text):
    with pytest.raises(InvalidError, match="of a pool there is"):
        read_template("{{" + text + "}}", "params.x")


@pytest.mark.parametrize(
    "chain",
    ["data.x | replace('a', 'aa')", "data.xs | join('aaaaaaaa')", "json(data.x)"],
)
def test_a_text_that_grows_too_large_is_an_error(chain):
    values = {"x": "a" * (LARGEST - 1), "xs": ["a"] * (LARGEST // 8)}
    template = read_template("{{" + chain + "}}", "x")

    with pytest.raises(TemplateError, match="at most"):
        fill_in(template, lambda path: dig(values, path.steps))


def test_a_text_put_together_from_large_ones_is_an_error():
    template = read_template("{{data.x}}{{data.x}}", "x")

    with pytest.raises(TemplateError, match="at most"):
        fill_in(template, lambda _: "a" * LARGEST)


@pytest.mark.parametrize("text", ["", "1a", "a..b", "a.", "a[x]", "a b", "a[1", ".a"])
def test_what_is_no_path_is_read_as_none(text):
    assert read_path(text) is None
