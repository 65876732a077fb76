"""The table of actions."""

from typing import Final

from penstock.monitor.actions import gates
from penstock.monitor.actions.action import Action

ACTIONS: Final[dict[str, Action]] = {action.path: action for action in gates.ACTIONS}
