"""Where the engine's verbs are: each in one file, as the engine says."""

import inspect

from penstock.engine import Engine
from penstock.engine.transactions import Transactions

THEMES = Engine.__bases__


def test_no_verb_is_in_two_files():
    names = [name for part in (Engine, *THEMES, Transactions) for name in defined(part)]

    assert [] == sorted({name for name in names if names.count(name) > 1})


def test_the_engine_says_in_which_file_a_verb_is():
    files = {theme.__module__.rpartition(".")[2]: theme for theme in THEMES}

    verbs = {file: [name for name in defined(theme) if name[0] != "_"] for file, theme in files.items()}

    assert verbs == told(inspect.getdoc(Engine))


def defined(part: type) -> list[str]:
    """Name what *part* defines itself, in order."""
    return [name for name, value in vars(part).items() if callable(value)]


def told(text: str) -> dict[str, list[str]]:
    """Read the third paragraph of a docstring: files at the margin, each with its verbs to the right."""
    table = text.split("\n\n")[2].replace("\n ", " ").splitlines()
    rows = [line.replace(",", " ").split() for line in table]
    return {file: verbs for file, *verbs in rows}
