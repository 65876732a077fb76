"""Write docs/api.md, the page of the Python API, from signatures and docstrings: `make api`."""

import enum
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, is_typeddict

import penstock
from penstock import policies, testing
from penstock.app.app import WorkerOptions
from penstock.app.options import JobOptions, TaskOptions
from penstock.app.workflow import RunOptions, WorkflowOptions
from penstock.errors import PenstockError

PAGE: Final = Path(__file__).with_name("api.md")
HEAD: Final = """\
# The Python API

Made from the code by `make api`. What the names mean together is told in [limits](limits.md), [jobs](jobs.md), \
[workflows](workflows.md), [workers](workers.md), [policies](policies.md) and [operations](operations.md).
A `Duration` is a number of seconds, a `timedelta`, or text such as `"1h30m"`.
"""
GROUPS: Final = {
    "Tasks and jobs": "App Client Task Call JobHandle",
    "Workflows": "Workflow Run Restart sleep signal note gather first Winner chain group Flow Partial",
    "Limits": "Concurrency Rate Throttle Configured",
    "Options": "RetryPolicy Unique State",
    "In a handler": "current_job Job Retry RateLimited Cancel",
    "Workers": "Worker",
}
OPTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "Tasks and jobs": (TaskOptions, JobOptions, WorkerOptions),
    "Workflows": (WorkflowOptions, RunOptions),
}
# What other parts of penstock call, and what users receive but do not make.
INSIDE: Final = frozenset(
    [
        "admit",
        "aenter",
        "apart",
        "bound",
        "changes",
        "checked",
        "connection",
        "enter",
        "handler",
        "handlers",
        "is_lost",
        "leave",
        "new_instance",
        "new_job",
        "outcome",
        "owner_of",
        "parts",
        "pick_for",
        "plan",
        "refreshers",
        "sample",
        "settle",
        "slot_for",
        "try_enter",
        "try_once",
        "watch",
        "within",
    ]
)
RECEIVED: Final = {"Call", "Flow", "Job", "JobHandle", "Partial", "Run", "Slot", "Task", "Winner", "Workflow"}
# The same text from every version of Python.
_PLAIN: Final = (
    (re.compile(r"<(?:class|function) '?([\w.]+)'?(?: at \w+)?>"), r"\1"),
    (re.compile(r"<\w+\.\w+: ('\w+')>"), r"\1"),
    (re.compile(r"(?:\btyping\.)?\bUnpack\[([\w.]+)\]"), r"*\1"),
    (re.compile(r"(?<![\w'\"/])(?:[a-z_]\w*\.)+(?=[A-Za-z_])"), ""),
    (re.compile(r"'([A-Z][\w\[\]., |]*)'"), r"\1"),
    (re.compile(r"frozenset\(\{[^}]*\}\)"), "LIVE"),
    (re.compile(r"int \| float \| str \| timedelta"), "Duration"),
    (re.compile(r"Union\[(\w+), (Literal\[[^]]*\])\]"), r"\1 | \2"),
    (re.compile(r"Union\[str, (Task\[[^]]*\])\]"), r"str | \1"),
    (re.compile(r"Union\[(Call\S+), (Partial\S+), (Task\[[^]]*\]), (Flow\[Any\])\]"), r"\1 | \2 | \3 | \4"),
    (re.compile(r"~"), ""),
)


def page() -> str:
    """Return the whole page."""
    whole = "\n".join([HEAD, *_ours(), *_module(testing), *_module(policies)])
    return re.sub(r"\n{3,}", "\n\n", whole).rstrip() + "\n"


def _ours() -> Iterator[str]:
    yield "\n## `penstock`\n"
    named = {name for names in GROUPS.values() for name in names.split()}
    for title, names in GROUPS.items():
        yield f"\n### {title}\n"
        for name in names.split():
            yield from _entry(name, getattr(penstock, name))
        for options in OPTIONS.get(title, ()):
            yield from _entry(options.__name__, options)
    yield "\n### Errors\n\n| error | raised when |\n|---|---|"
    for name in sorted(set(penstock.__all__) - named):
        yield f"| `{name}` | {_summary(getattr(penstock, name))} |"


def _module(module: Any) -> Iterator[str]:
    yield f"\n## `{module.__name__}`\n\n{_summary(module)}\n"
    for name in module.__all__:
        yield from _entry(name, getattr(module, name))


def _entry(name: str, thing: Any) -> Iterator[str]:
    if is_typeddict(thing):
        yield f"\n#### {name}\n\n{inspect.getdoc(thing)}\n\n| option | type |\n|---|---|"
        for key, kind in thing.__annotations__.items():
            shown = _plain(inspect.formatannotation(kind)).replace("|", "\\|")
            yield f"| `{key}` | `{shown}` |"
    elif inspect.isclass(thing):
        yield f"\n#### {name}\n\n{_signature(name, thing)}{inspect.getdoc(thing) or ''}\n"
        if issubclass(thing, enum.Enum):
            yield "One of " + ", ".join(f"`{member.value}`" for member in thing) + ".\n"
        yield from _members(thing)
    elif callable(thing):
        yield f"\n#### {name}\n\n{_signature(name, thing)}{inspect.getdoc(thing) or ''}\n"
    else:
        yield f"\n#### {name}\n\n`{thing!r}`\n"


def _members(thing: type) -> Iterator[str]:
    for name, member in inspect.getmembers_static(thing):
        documented = inspect.getdoc(getattr(thing, name, None))
        inside = name.startswith("_") or name in INSIDE
        if inside or not documented or not _is_ours(thing, name):
            continue
        if isinstance(member, property):
            yield f"- `.{name}`: {_indented(inspect.getdoc(member) or '')}"
        elif inspect.isroutine(inspect.unwrap(getattr(thing, name))):
            shape = _shape(getattr(thing, name))
            kind = "await " if inspect.iscoroutinefunction(getattr(thing, name)) else ""
            yield f"- `{kind}.{name}{shape}`: {_indented(documented)}"


def _is_ours(thing: type, name: str) -> bool:
    owner = next(base for base in thing.__mro__ if name in vars(base))
    return owner.__module__.startswith("penstock")


def _signature(name: str, thing: Any) -> str:
    if name in RECEIVED or (inspect.isclass(thing) and issubclass(thing, enum.Enum | PenstockError)):
        return ""
    return f"```text\n{name}{_shape(thing)}\n```\n\n"


def _shape(thing: Any) -> str:
    try:
        signature = inspect.signature(thing)
    except (NameError, ValueError):  # a class of C code, or one that names a class of another module
        return "(...)"
    kept = [each for each in signature.parameters.values() if each.name != "self"]
    return _plain(str(signature.replace(parameters=kept)).removesuffix(" -> None"))


def _plain(text: str) -> str:
    """Return a signature or an annotation without the modules of its names."""
    for pattern, instead in _PLAIN:
        text = pattern.sub(instead, text)
    return text


def _summary(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ")


def _indented(text: str) -> str:
    return re.sub(r"\n(?=.)", "\n  ", text)


if __name__ == "__main__":
    PAGE.write_text(page())
