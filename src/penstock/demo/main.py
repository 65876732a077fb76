"""Run the demo: set the stage, play the scenarios, show them, say whether every limit was kept."""

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from types import FrameType

from rich.console import Console

from penstock.clock import SystemClock
from penstock.demo import show
from penstock.demo.run import Played, expected, play, rounds
from penstock.demo.scenarios import SCENARIOS, Scenario, Setting
from penstock.demo.stage import Stage, stage, wait_until_ready
from penstock.demo.watch import open_browser
from penstock.errors import InvalidError


class Watch(Enum):
    """Whether a monitor runs beside the demo, and whether the browser of the desktop opens it."""

    NOT = "not"
    BY_HAND = "by hand"
    IN_BROWSER = "in the browser"


def main(
    names: Sequence[str],
    setting: Setting,
    repeat: int = 1,
    *,
    as_json: bool = False,
    watch: Watch = Watch.NOT,
) -> int:
    """Play the scenarios called *names* (none: all), *repeat* times; return 1 if a promise was broken, else 0."""
    chosen = choose(names)
    # Progress is for people; where a program reads the answer, standard output holds nothing else.
    console = Console(stderr=as_json, quiet=as_json, highlight=False)
    with _ends_in_order(), stage(setting.workers, watch=watch is not Watch.NOT) as scene:
        show.opening(console, setting, drawn=repeat == 1)
        with console.status("starting the provider and the workers"):
            wait_until_ready(scene)
        began = SystemClock().now()
        if scene.watched is not None:
            page = scene.watched.page(began, began + expected(chosen, setting, repeat))
            show.watched(console, page)
            if watch is Watch.IN_BROWSER:
                open_browser(page)
        results = _perform(console, scene, chosen, setting, repeat)
        kept = all(played.kept for played in results)
        if as_json:
            sys.stdout.write(json.dumps(show.document(setting, results), indent=2) + "\n")
        else:
            show.summary(console, results)
        if scene.watched is not None:
            show.watched(console, scene.watched.page(began, SystemClock().now()), over=True)
            with suppress(KeyboardInterrupt):
                scene.watched.stay()
    return 0 if kept else 1


def choose(names: Sequence[str]) -> tuple[Scenario, ...]:
    """Return the scenarios called *names*, by letter or by name, in their own order; all if there are none."""
    wanted = {name.lower() for name in names}
    known = {known for scenario in SCENARIOS for known in (scenario.letter.lower(), scenario.name)}
    for name in names:
        if name.lower() not in known:
            choice = ", ".join(f"{scenario.letter} ({scenario.name})" for scenario in SCENARIOS)
            raise InvalidError("scenario", f"there is no {name!r}; choose from {choice}")
    return tuple(
        scenario
        for scenario in SCENARIOS
        if not wanted or scenario.letter.lower() in wanted or scenario.name in wanted
    )


def _perform(
    console: Console, scene: Stage, chosen: Sequence[Scenario], setting: Setting, repeat: int
) -> list[Played]:
    if repeat == 1:
        return [_shown(console, scene, scenario, setting) for scenario in chosen]
    results = []
    for played in rounds(scene, chosen, setting, repeat):
        show.brief(console, played)
        results.append(played)
    return results


def _shown(console: Console, scene: Stage, scenario: Scenario, setting: Setting) -> Played:
    show.heading(console, scenario)
    with console.status("…"):
        played = play(scene, scenario, setting)
    show.detail(console, played)
    return played


@contextmanager
def _ends_in_order() -> Iterator[None]:
    """Turn a request to end into an ordinary way out, so that the children are ended too."""

    def leave(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    before = {each: signal.signal(each, leave) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
