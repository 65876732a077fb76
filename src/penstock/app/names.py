"""What is a function's task called?"""

import sys
from collections.abc import Callable
from pathlib import Path

from penstock.errors import InvalidJobError


def task_name(function: Callable[..., object]) -> str:
    """Return "module.function", the same whether its module is imported or run."""
    if not callable(function):
        raise TypeError(f"{function!r} is not a function; options are named, as in @app.task(name='sync')")
    name, module = getattr(function, "__qualname__", None), getattr(function, "__module__", None)
    if name is None or module is None:
        problem = "has no name of its own, or no module; give it one: app.task(function, name='sync')"
        raise InvalidJobError("name", f"{function!r} {problem}")
    return f"{_main() if module == '__main__' else module}.{name}"


def _main() -> str:
    """Return the name by which a worker would import the module that is being run."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else "__main__"
