"""Run the examples of a page, in order, as a reader would who types them into one folder.

```python blocks run one after another in one process, unless `<!-- not run -->` stands on the line above.
One whose first line is a comment with a file's name, as in `# tasks.py`, is written to that file and imported.
```sh blocks run if `<!-- run -->` stands on the line above.

`python -m tests.support.pages PAGE` does so in the folder where the examples may leave their files, and tells all
on standard output.  What it starts is of one group of processes.
"""

import importlib
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<source>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (?P<name>\w+)\.py\n")


@dataclass(frozen=True, slots=True)
class Example:
    """A block to run: its *language*, its *source*, and the *line* of the page before it."""

    language: str
    source: str
    line: int


def examples(text):
    """Return the blocks of a page that run."""
    found = []
    for block in BLOCK.finditer(text):
        before = text[: block.start()].rstrip().rpartition("\n")[2]
        line = text.count("\n", 0, block.start("source"))
        match block["language"], before:
            case ("python", mark) if mark != "<!-- not run -->":
                found.append(Example("python", block["source"], line))
            case ("sh", "<!-- run -->"):
                found.append(Example("sh", block["source"], line))
    return found


def run(page):
    """Run every example of *page* in the working folder."""
    sys.path.insert(0, "")
    names = {"__name__": "__main__"}
    for example in examples(page.read_text()):
        file = FILE.match(example.source)
        if example.language == "sh":
            subprocess.run(["sh", "-eu", "-c", example.source], check=True)
        elif file:
            Path(f"{file['name']}.py").write_text(example.source)
            importlib.invalidate_caches()
            importlib.import_module(file["name"])
        else:
            # As many lines before it as in the page, so that a traceback points there.
            exec(compile("\n" * example.line + example.source, page, "exec"), names)


if __name__ == "__main__":
    os.setsid()
    os.dup2(1, 2)
    run(Path(sys.argv[1]))
