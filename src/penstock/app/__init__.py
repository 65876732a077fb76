"""What users write: an app, its tasks, and handles of the jobs they enqueue."""

from penstock.app.app import App
from penstock.app.client import Client
from penstock.app.floating import FloatingLimit
from penstock.app.handle import JobHandle
from penstock.app.task import Call, Task

__all__ = ["App", "Call", "Client", "FloatingLimit", "JobHandle", "Task"]
