"""What the pages say is true: their examples run, their links lead somewhere."""

import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import pages
from tests.support.command import Process
from tests.support.postgres import fresh_schema, shared_url

TOP = Path(__file__).parents[2]
WITHOUT_EXAMPLES = {TOP / "docs" / name for name in ("api.md", "benchmarks.md")}
PAGES = [TOP / "README.md", *sorted(set((TOP / "docs").glob("*.md")) - WITHOUT_EXAMPLES)]
LINKING = [*sorted(TOP.glob("*.md")), *sorted((TOP / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)(?P<file>[^)#]+)(?:#[^)]*)?\)")
SHIM = '#!/bin/sh\nexec "{python}" {arguments} "$@"\n'


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page, tmp_path):
    url = {"PENSTOCK_URL": fresh_schema(shared_url())} if page.name == "postgresql.md" else {}
    ran = Process(
        str(page), module="tests.support.pages", folder=tmp_path, streams=("stdout",),
        **environment(tmp_path / "bin"), **url,
    )  # fmt: skip
    try:
        with ran.stdout:
            told = ran.stdout.read()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(ran.pid, signal.SIGKILL)  # whatever an example left running
        status = ran.wait()

    assert 0 == status, told
    assert pages.examples(page.read_text())


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page):
    linked = [link["file"] for link in LINK.finditer(page.read_text())]

    assert [] == [file for file in linked if not (page.parent / file).exists()]


def test_a_block_is_left_out_if_it_is_marked():
    text = "```python\none\n```\n\n<!-- not run -->\n```python\ntwo\n```\n\n```text\nthree\n```\n"

    assert [pages.Example("python", "one\n", 1)] == pages.examples(text)


def test_a_shell_block_is_left_out_unless_it_is_marked():
    text = "```sh\none\n```\n\n<!-- run -->\n```sh\ntwo\n```\n"

    assert [pages.Example("sh", "two\n", 6)] == pages.examples(text)


def environment(shims):
    """Let `penstock` and `python` be those under test, whatever else is installed."""
    shims.mkdir()
    for name, arguments in (("penstock", "-m penstock.cli"), ("python", "")):
        shim = shims / name
        shim.write_text(SHIM.format(python=sys.executable, arguments=arguments))
        shim.chmod(0o755)
    path = os.pathsep.join([str(shims), os.environ.get("PATH", os.defpath)])
    return {"PATH": path, "PYTHONPATH": str(TOP / "src"), "COLUMNS": "100"}
