"""The table of actions."""

from typing import Final

from penstock.monitor.actions import (
    bulk,
    floating,
    gates,
    jobs,
    queues,
    schedules,
    settings,
    workers,
    workflows,
)
from penstock.monitor.actions.action import Action

_PARTS: Final = (gates, jobs, queues, workers, schedules, workflows, floating, settings, bulk)
ACTIONS: Final[dict[str, Action]] = {action.path: action for part in _PARTS for action in part.ACTIONS}
