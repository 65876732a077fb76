"""What users write: an app, its tasks and workflows, and handles of the jobs they enqueue."""

from penstock.app.app import App
from penstock.app.client import Client
from penstock.app.floating import FloatingLimit
from penstock.app.flows import chain, group
from penstock.app.handle import JobHandle
from penstock.app.plan import Call, Flow, Partial
from penstock.app.run import Run
from penstock.app.task import Task
from penstock.app.workflow import Workflow

__all__ = [
    "App",
    "Call",
    "Client",
    "FloatingLimit",
    "Flow",
    "JobHandle",
    "Partial",
    "Run",
    "Task",
    "Workflow",
    "chain",
    "group",
]
