"""Claims jobs, runs their handlers, settles how they ended."""

from penstock.worker.context import Job, current_job
from penstock.worker.handler import Handler
from penstock.worker.handler_outcomes import Cancel, RateLimited, Retry
from penstock.worker.worker import Worker

__all__ = ["Cancel", "Handler", "Job", "RateLimited", "Retry", "Worker", "current_job"]
