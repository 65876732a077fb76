"""What the repository looks like: rules about its files that no tool checks for us."""

import ast
import re
import runpy
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
SOURCE = TOP / "src" / "penstock"
GLOSSARY = TOP / "GLOSSARY.md"

PURE = sorted(
    path
    for name in ("limits", "lifecycle", "replay", "sequences", "workflows")
    for path in (SOURCE / name).rglob("*.py")
)
# `datetime` is not here: a span or a date is a value; asking for the present one is caught apart.
IMPURE = {
    "asyncio", "concurrent", "io", "logging", "multiprocessing", "os", "pathlib", "random",
    "secrets", "socket", "sqlite3", "subprocess", "tempfile", "threading", "time", "uuid",
}  # fmt: skip
ASKS_THE_TIME = {"now", "utcnow", "today"}

WORDS = (
    *("job", "queue", "worker", "handler", "attempt", "outcome", "lease"),
    *("limit", "gate", "lane", "line", "slot"),
    *("enqueue", "claim", "settle"),
    *("admit", "park", "promote", "release", "rescue"),
)

# Each in two parts, so that this file does not name what it looks for.
FOREIGN = tuple(
    first + second
    for first, second in (
        ("/wor", "k/"), ("/roo", "t/"), ("/opt/", "pypi"), ("file:", "///"),
        ("pypi", ".org"), ("python", "hosted"), ("npmjs", ".org"), ("deb.", "debian.org"),
    )
)  # fmt: skip


@pytest.mark.parametrize("path", PURE, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_pure_module_imports_nothing_that_acts(path):
    tree = ast.parse(path.read_text())

    assert set() == IMPURE & set(imported(tree))


@pytest.mark.parametrize("path", PURE, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_pure_module_never_asks_what_time_it_is(path):
    tree = ast.parse(path.read_text())

    asked = [call for call in called(tree) if call in ASKS_THE_TIME]

    assert [] == asked


def test_every_table_is_on_the_page_of_the_architecture():
    made = re.findall(r"CREATE TABLE (\w+)", (TOP / "tests" / "schema" / "sqlite.sql").read_text())
    page = (TOP / "ARCHITECTURE.md").read_text()

    assert made
    assert [] == [table for table in made if f"`{table}`" not in page]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_the_design_is_in_the_glossary_and_in_the_code(word):
    code = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))

    assert re.search(rf"\b{word}s?\b", GLOSSARY.read_text(), re.IGNORECASE)
    assert re.search(rf"(?<![a-z]){word}", code, re.IGNORECASE)


def test_no_file_names_a_package_host_or_a_path_of_one_machine():
    found = [
        f"{path.relative_to(TOP)}:{number}: {foreign}"
        for path in own_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
        for foreign in FOREIGN
        if foreign in line
    ]

    assert [] == found


def test_every_requirement_is_pinned_by_version_and_hash():
    requirements = pinned()

    loose = [text for text in requirements.values() if "--hash=sha256:" not in text]

    assert [] == loose
    assert len(requirements) > 10


def test_what_the_package_needs_is_pinned_and_the_extra_all_has_every_other():
    project = tomllib.loads((TOP / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    everything = extras.pop("all")
    needs = {
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(need.replace("'", '"') for extra in extras.values() for need in extra if "penstock[" not in need),
    }

    assert needs <= set((TOP / "requirements" / "dev.in").read_text().splitlines())
    assert {re.match(r"[\w-]+", need)[0] for need in needs} <= set(pinned())
    assert [f"penstock[{','.join(sorted(extras))}]"] == everything


def imported(tree: ast.AST) -> Iterator[str]:
    """Name the top-level packages that *tree* imports."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module)):
                yield module.partition(".")[0]


def called(tree: ast.AST) -> Iterator[str]:
    """Name the methods that *tree* calls or hands on."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            if owner in {"datetime", "date"}:
                yield node.attr


def own_files() -> Iterator[Path]:
    """Find the files that are, or are about to be, in the repository."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode != 0:
        pytest.skip("not a git repository")
    names = filter(None, listing.stdout.split("\0"))
    return (path for path in (TOP / name for name in names) if path.is_file())


def pinned() -> dict[str, str]:
    """Return each requirement of the development environment by name, with its hashes."""
    text = (TOP / "requirements" / "dev.txt").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return {re.match(r"([\w-]+)==", line)[1]: line for line in lines}


def test_the_page_of_the_python_api_is_what_the_code_says():
    page = runpy.run_path(str(TOP / "docs" / "generate_api.py"))["page"]

    assert page() == (TOP / "docs" / "api.md").read_text(), "run `make api`"
